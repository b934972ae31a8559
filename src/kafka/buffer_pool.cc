#include "kafka/buffer_pool.h"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "base/check.h"

namespace mq::kafka {

using detail::PooledBuffer;

void BufferRef::reset() {
  if (buffer_ == nullptr) return;
  PooledBuffer* buffer = std::exchange(buffer_, nullptr);
  if (--buffer->references == 0) buffer->pool->give(buffer);
}

BufferPool::~BufferPool() {
  MQ_CHECK(used_ == 0, used_);
  for (auto& buffers : free_) {
    for (PooledBuffer* buffer : buffers) std::free(buffer);
  }
}

int BufferPool::classOf(size_t bytes) {
  for (int i = 0; i < kClasses; ++i) {
    if (bytes <= classBytes(i)) return i;
  }
  return -1;
}

BufferRef BufferPool::take(size_t bytes, Claim claim) {
  int index = bytes < kPooledFrom ? -1 : classOf(bytes);
  size_t capacity = index < 0 ? bytes : classBytes(index);
  if (!fits(capacity, claim)) {
    if (used_ != 0) return {};  // alone, a frame gets through whatever its size
  }
  PooledBuffer* buffer = nullptr;
  if (index >= 0 && !free_[index].empty()) {
    buffer = free_[index].back();
    free_[index].pop_back();
    idle_ -= capacity;
    untouched_[index] = std::min(untouched_[index], free_[index].size());
  } else {
    buffer = static_cast<PooledBuffer*>(std::malloc(sizeof(PooledBuffer) + capacity));
    if (buffer == nullptr) throw std::bad_alloc();
  }
  *buffer = {.pool = this, .references = 1, .capacity = static_cast<uint32_t>(capacity)};
  used_ += capacity;
  return BufferRef(buffer);
}

void BufferPool::give(PooledBuffer* buffer) {
  size_t capacity = buffer->capacity;
  int index = capacity < kPooledFrom ? -1 : classOf(capacity);
  if (index >= 0 && classBytes(index) == capacity && idle_ + capacity <= options_.idleBytesMax) {
    free_[index].push_back(buffer);
    idle_ += capacity;
  } else {
    std::free(buffer);
  }
  uncount(capacity);
}

void BufferPool::uncount(size_t bytes) {
  MQ_CHECK(bytes <= used_, bytes, used_);
  used_ -= bytes;
  if (!waiters_.empty()) wakeThoseThatFit();
}

kj::Promise<void> BufferPool::room(size_t bytes, Claim claim) {
  auto paf = kj::newPromiseAndFulfiller<void>();
  waiters_.push_back({bytes, claim, kj::mv(paf.fulfiller)});
  return kj::mv(paf.promise);
}

void BufferPool::wakeThoseThatFit() {
  size_t promised = 0;
  bool dataBlocked = false;  // in order of arrival, or large frames would never get their turn
  for (auto waiter = waiters_.begin(); waiter != waiters_.end();) {
    bool alone = used_ == 0 && promised == 0;
    if (!waiter->wake->isWaiting()) {
      waiter = waiters_.erase(waiter);
    } else if (alone ||
               ((waiter->claim == Claim::small || !dataBlocked) && fits(promised + waiter->bytes, waiter->claim))) {
      promised += waiter->bytes;
      waiter->wake->fulfill();
      waiter = waiters_.erase(waiter);
    } else {
      dataBlocked |= waiter->claim == Claim::data;
      ++waiter;
    }
  }
}

void BufferPool::trim() {
  for (int i = 0; i < kClasses; ++i) {
    size_t surplus = std::min(untouched_[i], free_[i].size());
    for (size_t n = 0; n < surplus; ++n) {  // the front ones are the coldest
      std::free(free_[i][n]);
      idle_ -= classBytes(i);
    }
    free_[i].erase(free_[i].begin(), free_[i].begin() + static_cast<ptrdiff_t>(surplus));
    untouched_[i] = free_[i].size();
  }
  if (!waiters_.empty()) wakeThoseThatFit();
}

}  // namespace mq::kafka
