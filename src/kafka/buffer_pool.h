// BufferPool: the memory of one shard that outsiders can make us spend, in one place: request frames, and responses
// that wait for a slow reader.
//
//   0 ......................... limit - reserve ............ limit
//   any frame may take memory   | only small requests may    | nobody; forced counts (responses) may pass it
//
// When the data part is spent, connections that are in the middle of a Produce are not read, so TCP slows their
// senders down, while heartbeats and metadata requests still get through.
//
// Buffers of more than 4 KiB are reused, the last freed first, so that a busy connection meets warm pages; what was not
// used for a while goes back to the system (trim()). Belongs to one shard; a buffer is freed there.
#pragma once
#include <deque>
#include <utility>
#include <vector>

#include <kj/async.h>

#include "base/bytes.h"

namespace mq::kafka {

enum class Claim : uint8_t {
  data,   // frames of Produce, and anything large
  small,  // the rest: may use the reserve
};

class BufferPool;

namespace detail {
struct PooledBuffer {
  BufferPool* pool;
  uint32_t references;
  uint32_t capacity;
  uint8_t* data() { return reinterpret_cast<uint8_t*>(this + 1); }
};
}  // namespace detail

// A counted reference to a buffer. The count is plain: it never leaves its shard.
class BufferRef {
 public:
  BufferRef() = default;
  explicit BufferRef(detail::PooledBuffer* buffer) : buffer_(buffer) {}
  BufferRef(const BufferRef& other) : buffer_(other.buffer_) {
    if (buffer_ != nullptr) ++buffer_->references;
  }
  BufferRef(BufferRef&& other) noexcept : buffer_(std::exchange(other.buffer_, nullptr)) {}
  BufferRef& operator=(BufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~BufferRef() { reset(); }

  explicit operator bool() const { return buffer_ != nullptr; }
  uint8_t* data() const { return buffer_->data(); }
  size_t capacity() const { return buffer_->capacity; }
  bool onlyReference() const { return buffer_->references == 1; }
  void reset();

 private:
  detail::PooledBuffer* buffer_ = nullptr;
};

class BufferPool {
 public:
  struct Options {
    size_t bytesMax = 64 << 20;     // of this shard
    size_t reserveBytes = 4 << 20;  // of bytesMax, for small requests
    size_t idleBytesMax = 8 << 20;  // kept for reuse while nobody uses them
  };
  static constexpr size_t kSlack = 4096;  // a buffer holds a power of two of records, and the request around them

  explicit BufferPool(const Options& options) : options_(options) {}
  ~BufferPool();
  BufferPool(const BufferPool&) = delete;

  // At least `bytes` of memory; an empty reference when the budget is spent.
  BufferRef take(size_t bytes, Claim claim);
  // Resolves when take() is worth another try.
  kj::Promise<void> room(size_t bytes, Claim claim);

  // For memory that exists already, such as an encoded response: counted, never refused.
  void count(size_t bytes) { used_ += bytes; }
  void uncount(size_t bytes);

  // Once in a while: gives idle buffers back to the system and looks after waiters whose wake-up got lost with a
  // connection.
  void trim();

  size_t used() const { return used_; }
  size_t idle() const { return idle_; }
  size_t waiting() const { return waiters_.size(); }
  bool spent() const { return used_ + options_.reserveBytes >= options_.bytesMax; }

 private:
  friend class BufferRef;
  static constexpr size_t kPooledFrom = 4096 + 1;
  static constexpr int kClasses = 12;  // 16 KiB .. 32 MiB; larger ones are not kept

  struct Waiter {
    size_t bytes;
    Claim claim;
    kj::Own<kj::PromiseFulfiller<void>> wake;
  };

  bool fits(size_t bytes, Claim claim) const {
    return used_ + bytes + (claim == Claim::data ? options_.reserveBytes : 0) <= options_.bytesMax;
  }
  static int classOf(size_t bytes);
  static size_t classBytes(int index) { return (size_t{16384} << index) + kSlack; }
  void give(detail::PooledBuffer* buffer);
  void wakeThoseThatFit();

  Options options_;
  size_t used_ = 0;
  size_t idle_ = 0;
  std::vector<detail::PooledBuffer*> free_[kClasses];
  size_t untouched_[kClasses] = {};  // least number of free buffers since the last trim
  std::deque<Waiter> waiters_;
};

}  // namespace mq::kafka
