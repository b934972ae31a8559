#include "kafka/frame_reader.h"

#include <algorithm>

#include <fmt/format.h>

#include "base/check.h"

namespace mq::kafka {

namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kHeadBytes = kLengthBytes + 8;  // with key, version and correlation id
constexpr int16_t kProduceKey = 0;
constexpr int16_t kApiVersionsKey = 18;

// What the first four bytes are when they are no length, for the line in the log; empty: they may be one.
std::string_view foreignProtocol(const uint8_t* bytes) {
  static constexpr std::string_view kHttp[] = {"GET ", "POST", "PUT ", "HEAD", "DELE",
                                               "OPTI", "PATC", "CONN", "TRAC", "PRI "};
  std::string_view start(reinterpret_cast<const char*>(bytes), 4);
  if (std::ranges::find(kHttp, start) != std::end(kHttp)) return "an HTTP request";
  if (bytes[0] == 0x16 && bytes[1] == 0x03 && bytes[2] <= 0x04)
    return "a TLS handshake, but this listener speaks plain text";
  if (start == "SSH-") return "an SSH greeting";
  return {};
}

}  // namespace

size_t FrameReader::wanted() const {
  size_t have = end_ - begin_;
  if (total_ <= kOwnBufferFrom) return kSharedBytes;
  size_t backed = std::max({kSharedBytes, std::min(provenBytes_, kProvenBytesMax),
                            have >= kSharedBytes ? 2 * have - BufferPool::kSlack : 0});
  return std::min(total_, backed);
}

Claim FrameReader::claim() {
  bool produce = end_ - begin_ >= 6 && loadBigEndian<int16_t>(base() + begin_ + kLengthBytes) == kProduceKey;
  return produce || total_ > kSharedBytes ? Claim::data : Claim::small;
}

bool FrameReader::moveTo(size_t bytes) {
  BufferRef larger = pool_.take(bytes, claim());
  if (!larger) {
    roomBytes_ = bytes;
    return false;
  }
  std::memcpy(larger.data(), base() + begin_, end_ - begin_);
  end_ -= begin_;
  begin_ = 0;
  buffer_ = std::move(larger);
  return true;
}

kj::Promise<void> FrameReader::room() { return pool_.room(roomBytes_, claim()); }

MutableBytes FrameReader::space() {
  if (begin_ == end_) {
    begin_ = end_ = 0;
    buffer_.reset();
  }
  if (!headChecked_) {  // length and key first: they say how much memory the frame is worth
    if (begin_ + kHeadBytes > capacity()) {
      if (!buffer_) {
        std::memmove(small_.data(), small_.data() + begin_, end_ - begin_);
      } else {
        std::memcpy(small_.data(), base() + begin_, end_ - begin_);
        buffer_.reset();
      }
      end_ -= begin_;
      begin_ = 0;
    }
  } else if (begin_ + total_ > capacity()) {
    if (!buffer_ && total_ <= small_.size()) {
      std::memmove(small_.data(), small_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    } else if (buffer_ && buffer_.onlyReference() && total_ <= capacity()) {
      std::memmove(base(), base() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    } else if ((end_ == capacity() || !buffer_ || begin_ > 0) && !moveTo(wanted())) {
      return {};
    }
  }
  size_t limit = capacity();
  if (total_ > kOwnBufferFrom) limit = std::min(limit, begin_ + total_);
  MQ_CHECK(end_ < limit, end_, limit);
  return {base() + end_, limit - end_};
}

void FrameReader::received(size_t count) {
  MQ_CHECK(count <= capacity() - end_, count, capacity(), end_);
  end_ += count;
}

bool FrameReader::checkHead() {
  const uint8_t* at = base() + begin_;
  if (total_ == 0) {
    auto length = loadBigEndian<int32_t>(at);
    if (framesRead_ == 0) {
      if (auto foreign = foreignProtocol(at); !foreign.empty()) return fail(fmt::format("sent {}", foreign));
    }
    if (length < static_cast<int32_t>(kHeadBytes - kLengthBytes) ||
        static_cast<size_t>(length) > limits_.frameBytesMax) {
      return fail(fmt::format("sent a request of {} bytes; they have 8 to {}", length, limits_.frameBytesMax));
    }
    total_ = kLengthBytes + static_cast<size_t>(length);
  }
  if (end_ - begin_ < kLengthBytes + 4) return true;
  auto key = loadBigEndian<int16_t>(at + 4);
  auto version = loadBigEndian<int16_t>(at + 6);
  // An ApiVersions of any version gets an answer that tells the client what to use instead.
  if (limits_.served != nullptr && key != kApiVersionsKey && !limits_.served(key, version)) {
    mistakenKey_ = key;
    mistakenVersion_ = version;
    return fail(fmt::format("sent a request with API key {} version {}, which is not served", key, version));
  }
  headChecked_ = true;
  return true;
}

bool FrameReader::copyOut(size_t bytes, Frame* frame) {
  frame->buffer = pool_.take(bytes, claim());
  if (!frame->buffer) {
    roomBytes_ = bytes;
    return false;
  }
  std::memcpy(frame->buffer.data(), base() + begin_ + kLengthBytes, bytes);
  frame->bytes = {frame->buffer.data(), bytes};
  return true;
}

FrameReader::Next FrameReader::next(Frame* frame) {
  if (!mistake_.empty()) return Next::mistake;
  if (end_ - begin_ < kLengthBytes) return Next::more;
  if (!headChecked_ && !checkHead()) return Next::mistake;
  if (!headChecked_ || end_ - begin_ < total_) return Next::more;

  size_t bytes = total_ - kLengthBytes;
  if (!buffer_ || bytes <= kCopiedOutBytes) {
    if (!copyOut(bytes, frame)) return Next::wait;
  } else {
    frame->buffer = buffer_;
    frame->bytes = {base() + begin_ + kLengthBytes, bytes};
  }
  begin_ += total_;
  provenBytes_ = std::max(provenBytes_, total_);
  total_ = 0;
  headChecked_ = false;
  ++framesRead_;
  return Next::frame;
}

}  // namespace mq::kafka
