// FrameReader: cuts a connection's bytes into request frames. It knows lengths and the first two header fields, no
// sockets: space() says where the next bytes go, received() that they are there, next() takes whole frames out.
//
//   frame:  int32 length (of what follows) | int16 api key | int16 version | int32 correlation id | ...
//
// Memory follows the bytes, never the length a peer claims:
//   - an idle connection owns kSmallBytes; frames that fit in there are copied out into memory of their own size;
//   - a larger frame moves into a pooled buffer of 64 KiB, or of the size of the largest frame that this connection has
//     already delivered, and beyond that the buffer doubles each time the peer has filled it;
//   - a large frame is read to its end and no further, so that it owns its buffer and its batches are never copied.
// A frame that can be nothing of ours (length, key or version) is a mistake at its first eight bytes.
#pragma once
#include <array>
#include <string>

#include "kafka/buffer_pool.h"

namespace mq::kafka {

struct Frame {
  BufferRef buffer;    // keeps `bytes` alive
  MutableBytes bytes;  // without the length
};

class FrameReader {
 public:
  static constexpr size_t kSmallBytes = 1024;

  struct Limits {
    size_t frameBytesMax = 100 << 20;
    // Whether a request with this key and version is served. Null: any is.
    bool (*served)(int16_t key, int16_t version) = nullptr;
  };
  FrameReader(BufferPool& pool, const Limits& limits) : pool_(pool), limits_(limits) {}

  // At least one byte to read into; empty: the pool is spent, wait for room().
  MutableBytes space();
  void received(size_t count);
  kj::Promise<void> room();

  enum class Next : uint8_t { frame, more, wait, mistake };
  // frame: *frame is the next whole frame.  more: bytes are missing.  wait: the pool is spent, wait for room().
  // mistake: this is no Kafka client (any more), see mistake(); the connection must close.
  Next next(Frame* frame);
  const std::string& mistake() const { return mistake_; }
  // The header of the frame at fault, for the log; -1 where it was not even a header.
  int16_t mistakenKey() const { return mistakenKey_; }
  int16_t mistakenVersion() const { return mistakenVersion_; }

  bool partial() const { return end_ > begin_; }  // a frame has begun and is not whole
  size_t partialBytes() const { return end_ - begin_; }
  uint64_t framesRead() const { return framesRead_; }

 private:
  static constexpr size_t kSharedBytes = 64 << 10;    // small and middle frames share a buffer of this size
  static constexpr size_t kOwnBufferFrom = 32 << 10;  // larger frames get one of their own
  static constexpr size_t kCopiedOutBytes = 4 << 10;  // smaller ones do not pin a shared buffer
  static constexpr size_t kProvenBytesMax = 2 << 20;  // what one whole frame earns the next

  uint8_t* base() { return buffer_ ? buffer_.data() : small_.data(); }
  size_t capacity() const { return buffer_ ? buffer_.capacity() : small_.size(); }
  bool checkHead();  // false: mistake
  size_t wanted() const;
  Claim claim();
  bool moveTo(size_t bytes);
  bool copyOut(size_t bytes, Frame* frame);
  bool fail(std::string what) {
    mistake_ = std::move(what);
    return false;
  }

  BufferPool& pool_;
  Limits limits_;
  std::array<uint8_t, kSmallBytes> small_;
  BufferRef buffer_;  // null: the bytes are in small_
  size_t begin_ = 0;  // unparsed bytes [begin_, end_) of base()
  size_t end_ = 0;
  size_t total_ = 0;  // of the frame at begin_, with its length; 0: not known
  bool headChecked_ = false;
  size_t provenBytes_ = 0;  // the largest frame this peer has delivered whole
  uint64_t framesRead_ = 0;
  size_t roomBytes_ = 0;  // what was refused last
  std::string mistake_;
  int16_t mistakenKey_ = -1;
  int16_t mistakenVersion_ = -1;
};

}  // namespace mq::kafka
