#include "storage/batch_walk.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/crc32c.h"

namespace mq::storage {

using record::BatchView;
using record::Layout;

Bytes FileWindow::at(uint64_t position, size_t count, size_t ahead) {
  MQ_CHECK(count <= capacity_, count, capacity_);
  if (position < start_ || position + count > start_ + filled_) {
    size_t wanted = std::min(std::max(count, ahead), capacity_);
    if (buffer_.size() < wanted) buffer_.resize(wanted);
    start_ = position;
    filled_ = file_.read(position, MutableBytes(buffer_.data(), wanted));
  }
  size_t at = position - start_;
  return Bytes(buffer_).subspan(at, std::min(count, filled_ - at));
}

std::optional<BatchView> HeaderWalk::current() {
  if (atEnd()) return std::nullopt;
  Bytes bytes = window_.at(position_, std::min<uint64_t>(Layout::kHeaderBytes, end_ - position_), ahead_);
  auto next = record::peekBatch(bytes);
  if (next.kind != record::NextBatch::Kind::whole || next.sizeBytes > end_ - position_) {
    broken_ = true;
    return std::nullopt;
  }
  return BatchView(bytes);
}

void HeaderWalk::next(const BatchView& current) {
  ahead_ = current.sizeBytes() >= kReadAhead ? kReadOne : kReadAhead;
  position_ += current.sizeBytes();
}

bool loadBatch(const File& log, uint64_t position, size_t size, Buffer& into) {
  constexpr size_t kWithoutQuestion = 1 << 20;
  constexpr size_t kPiece = 256 << 10;
  if (size > kWithoutQuestion) {
    Buffer piece(kPiece);
    uint32_t expected = 0, crc = 0;
    for (uint64_t at = 0; at < size;) {
      size_t count = std::min<uint64_t>(kPiece, size - at);
      if (log.read(position + at, MutableBytes(piece.data(), count)) < count) return false;
      size_t from = at == 0 ? Layout::kCrcFrom : 0;
      if (at == 0) expected = loadBigEndian<uint32_t>(piece.data() + Layout::kCrc);
      crc = crc32c(Bytes(piece.data() + from, count - from), crc);
      at += count;
    }
    if (crc != expected) return false;
  }
  into.resize(size);
  if (log.read(position, into) < size) return false;
  BatchView view(into);
  return view.sizeBytes() == size && view.crcOk();
}

}  // namespace mq::storage
