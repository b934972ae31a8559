#include "peer/buffered_stream.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mq::peer {
namespace {

constexpr size_t kLargeBytes = 16 << 10;

}  // namespace

BufferedStream::BufferedStream(kj::Own<kj::AsyncIoStream> stream) : stream_(kj::mv(stream)), in_(kBufferBytes) {}

kj::Promise<size_t> BufferedStream::tryRead(void* buffer, size_t minBytes, size_t maxBytes) {
  auto* into = static_cast<kj::byte*>(buffer);
  size_t count = std::min(maxBytes, inEnd_ - inBegin_);
  if (count > 0) std::memcpy(into, in_.data() + inBegin_, count);  // `into` may be null for no bytes
  inBegin_ += count;
  if (count >= minBytes) return count;
  return fill(into + count, minBytes - count, maxBytes - count).then([count](size_t more) { return count + more; });
}

// With nothing in in_.
kj::Promise<size_t> BufferedStream::fill(kj::byte* into, size_t minBytes, size_t maxBytes) {
  if (minBytes >= in_.size() / 2) return stream_->tryRead(into, minBytes, maxBytes);
  return stream_->tryRead(in_.data(), minBytes, in_.size()).then([this, into, maxBytes](size_t count) {
    inBegin_ = std::min(count, maxBytes);
    inEnd_ = count;
    if (inBegin_ > 0) std::memcpy(into, in_.data(), inBegin_);
    return inBegin_;
  });
}

kj::Promise<void> BufferedStream::write(const void* buffer, size_t size) {
  kj::ArrayPtr<const kj::byte> piece(static_cast<const kj::byte*>(buffer), size);
  if (size < kLargeBytes) return write(kj::arrayPtr(&piece, 1));
  if (failure_) return kj::cp(*failure_);
  return sent().then([this, buffer, size] { return stream_->write(buffer, size); });
}

kj::Promise<void> BufferedStream::write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
  if (failure_) return kj::cp(*failure_);
  size_t size = 0;
  for (const auto& piece : pieces) size += piece.size();
  // There is one write at a time: nothing is added to what waits while this one does.
  if (size >= kLargeBytes || waiting_.size() + size > kBufferBytes)
    return sent().then([this, pieces] { return stream_->write(pieces); });
  for (const auto& piece : pieces) waiting_.insert(waiting_.end(), piece.begin(), piece.end());
  sendSoon();
  return kj::READY_NOW;
}

void BufferedStream::shutdownWrite() {
  if (isSending_) {
    isShut_ = true;  // when all is sent
  } else {
    stream_->shutdownWrite();
  }
}

kj::Promise<void> BufferedStream::sent() {
  if (!isSending_) return kj::READY_NOW;
  auto paf = kj::newPromiseAndFulfiller<void>();
  whenSent_ = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

void BufferedStream::sendSoon() {
  if (std::exchange(isSending_, true)) return;
  sender_ = kj::evalLast([this]() -> kj::Promise<void> { return send(); }).eagerlyEvaluate(nullptr);
}

Co<void> BufferedStream::send() {
  try {
    while (!waiting_.empty()) {
      std::swap(waiting_, sending_);
      co_await stream_->write(sending_.data(), sending_.size());
      sending_.clear();
    }
    if (isShut_) stream_->shutdownWrite();
  } catch (...) {
    failure_.emplace(caughtException());
    waiting_.clear();
  }
  isSending_ = false;
  auto waiter = std::exchange(whenSent_, std::nullopt);
  if (waiter && failure_)
    (*waiter)->reject(kj::cp(*failure_));
  else if (waiter)
    (*waiter)->fulfill();
}

}  // namespace mq::peer
