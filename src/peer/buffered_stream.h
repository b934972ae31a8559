// BufferedStream: few system calls below Cap'n Proto. Its RPC reads and writes each message in two or three pieces;
// here what is written in one turn leaves as one write, and what has arrived is read at once. Large pieces are neither
// copied nor held back.
//
// A write resolves when the bytes are taken, not when they are sent, as long as less than kBufferBytes wait; then it
// waits for the socket. A failed write is told to every later one.
#pragma once
#include <kj/async-io.h>

#include <optional>

#include "base/bytes.h"
#include "runtime/coro.h"

namespace mq::peer {

class BufferedStream final : public kj::AsyncIoStream {
 public:
  static constexpr size_t kBufferBytes = 64 << 10;  // of each direction

  explicit BufferedStream(kj::Own<kj::AsyncIoStream> stream);

  kj::Promise<size_t> tryRead(void* buffer, size_t minBytes, size_t maxBytes) override;
  kj::Promise<void> write(const void* buffer, size_t size) override;
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override;
  kj::Promise<void> whenWriteDisconnected() override { return stream_->whenWriteDisconnected(); }
  void shutdownWrite() override;
  void abortRead() override { stream_->abortRead(); }
  void getsockopt(int level, int option, void* value, kj::uint* length) override {
    stream_->getsockopt(level, option, value, length);
  }
  void setsockopt(int level, int option, const void* value, kj::uint length) override {
    stream_->setsockopt(level, option, value, length);
  }

 private:
  kj::Promise<size_t> fill(kj::byte* into, size_t minBytes, size_t maxBytes);
  kj::Promise<void> sent();  // until nothing waits
  void sendSoon();
  Co<void> send();

  kj::Own<kj::AsyncIoStream> stream_;
  Buffer in_;
  size_t inBegin_ = 0, inEnd_ = 0;  // of in_: read, and not given out yet
  Buffer waiting_, sending_;
  bool isSending_ = false;
  bool isShut_ = false;
  std::optional<kj::Exception> failure_;
  std::optional<kj::Own<kj::PromiseFulfiller<void>>> whenSent_;
  kj::Promise<void> sender_ = nullptr;  // last: uses what is above
};

}  // namespace mq::peer
