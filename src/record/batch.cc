#include "record/batch.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "base/crc32c.h"
#include "record/record_parser.h"

namespace mq::record {
namespace {

constexpr std::array<std::string_view, 5> kCodecNames = {"none", "gzip", "snappy", "lz4", "zstd"};

NextBatch look(Bytes bytes, bool headerIsEnough) {
  if (bytes.empty()) return {};
  if (bytes.size() < Layout::kLengthEnd) {
    return {.kind = NextBatch::Kind::torn, .batch = bytes, .reason = "ends inside a batch header"};
  }
  int32_t length = loadBigEndian<int32_t>(bytes.data() + Layout::kBatchLength);
  if (bytes.size() > Layout::kMagic) {
    int8_t magic = loadBigEndian<int8_t>(bytes.data() + Layout::kMagic);
    if (magic == 0 && length == 0) return {.kind = NextBatch::Kind::bad, .reason = "zeros instead of a batch"};
    if (magic == 0 || magic == 1) return {.kind = NextBatch::Kind::bad, .reason = "message format 0 or 1, not 2"};
    if (magic != kMagic) return {.kind = NextBatch::Kind::bad, .reason = "unknown magic number"};
  }
  if (length < Layout::kBatchLengthMin)
    return {.kind = NextBatch::Kind::bad, .reason = "batch length below its header's"};
  size_t size = Layout::kLengthEnd + static_cast<size_t>(length);
  Bytes here = bytes.first(std::min(size, bytes.size()));
  if (here.size() < (headerIsEnough ? Layout::kHeaderBytes : size)) {
    return {.kind = NextBatch::Kind::torn, .batch = here, .sizeBytes = size, .reason = "ends inside a batch"};
  }
  return {.kind = NextBatch::Kind::whole, .batch = here, .sizeBytes = size};
}

}  // namespace

std::string_view nameOf(Codec codec) { return isKnown(codec) ? kCodecNames[static_cast<size_t>(codec)] : "unknown"; }

std::optional<Codec> codecNamed(std::string_view name) {
  auto found = std::ranges::find(kCodecNames, name);
  if (found == kCodecNames.end()) return std::nullopt;
  return static_cast<Codec>(found - kCodecNames.begin());
}

BatchView::BatchView(Bytes bytes) : bytes_(bytes) { MQ_CHECK(bytes.size() >= Layout::kHeaderBytes, bytes.size()); }

Offset BatchView::lastOffset() const { return Offset(wrappingAdd(baseOffset().value(), lastOffsetDelta())); }
Offset BatchView::nextOffset() const { return Offset(wrappingAdd(lastOffset().value(), 1)); }

int32_t BatchView::lastSequence() const {
  return baseSequence() == kNoSequence ? kNoSequence : sequenceAfter(baseSequence(), lastOffsetDelta());
}

std::optional<WallMs> BatchView::deleteHorizon() const {
  if (!hasDeleteHorizon()) return std::nullopt;
  return baseTimestamp();
}

uint32_t BatchView::computeCrc() const { return crc32c(whole().subspan(Layout::kCrcFrom)); }

NextBatch nextBatch(Bytes bytes) { return look(bytes, false); }
NextBatch peekBatch(Bytes bytes) { return look(bytes, true); }

void setBaseOffset(MutableBytes batch, Offset offset) {
  storeBigEndian(batch.data() + Layout::kBaseOffset, offset.value());
}

void setLeaderEpoch(MutableBytes batch, LeaderEpoch epoch) {
  storeBigEndian(batch.data() + Layout::kLeaderEpoch, epoch.value());
}

void setTimestamps(MutableBytes batch, TimestampType type, WallMs maxTimestamp) {
  BatchView view(batch);
  if (view.timestampType() == type && view.maxTimestamp() == maxTimestamp) return;
  setTimestampsUnsealed(batch, type, maxTimestamp);
  setLengthAndCrc(batch);
}

void setTimestampsUnsealed(MutableBytes batch, TimestampType type, WallMs maxTimestamp) {
  int attributes = BatchView(batch).attributes() & ~Attributes::kLogAppendTime;
  if (type == TimestampType::logAppendTime) attributes |= Attributes::kLogAppendTime;
  storeBigEndian(batch.data() + Layout::kAttributes, static_cast<int16_t>(attributes));
  storeBigEndian(batch.data() + Layout::kMaxTimestamp, maxTimestamp.value());
}

void setLengthAndCrc(MutableBytes batch) {
  MQ_CHECK(batch.size() >= Layout::kHeaderBytes && batch.size() - Layout::kLengthEnd <= INT32_MAX, batch.size());
  storeBigEndian(batch.data() + Layout::kBatchLength, static_cast<int32_t>(batch.size() - Layout::kLengthEnd));
  storeBigEndian(batch.data() + Layout::kCrc, crc32c(Bytes(batch).subspan(Layout::kCrcFrom)));
}

int32_t sequenceAfter(int32_t sequence, int32_t by) {
  return static_cast<int32_t>((static_cast<uint32_t>(sequence) + static_cast<uint32_t>(by)) & 0x7FFF'FFFFu);
}

}  // namespace mq::record
