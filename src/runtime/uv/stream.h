// UvStream: a TCP connection over uv_poll_t. Reads and writes are direct system calls, tried at once; the poll handle
// only waits when the kernel had nothing or no room. So an operation can be cancelled at any moment, which uv_tcp_t
// cannot.
//
// At most one read and one write (of bytes or a file) are under way. Facts about libuv that shape this:
//   - a change of the mask costs two epoll_ctl: "readable" stays armed between reads and is dropped only when an event
//     finds nobody reading;
//   - on POLLERR libuv stops the handle and reports UV_EBADF: the next system call tells what was wrong;
//   - RDHUP is level-triggered: once seen, waiting for a disconnect goes on under "prioritized", which only HUP and ERR
//     can fire.
#pragma once
#include <sys/uio.h>
#include <uv.h>

#include <optional>
#include <variant>
#include <vector>

#include "runtime/socket.h"
#include "runtime/uv/event_port.h"

namespace mq {

// What went wrong with a socket, as an exception: DISCONNECTED for what a peer or the network can do to us, OVERLOADED
// for lack of descriptors or memory.
kj::Exception socketError(const char* operation, const std::string& address, int errorNumber);

Address numericAddress(const struct sockaddr* address);

class UvStream final : public Stream {
 public:
  UvStream(EventPort& port, int descriptor);  // takes ownership, also when it throws
  ~UvStream() noexcept(false);

  // Resolves when a connect() that was begun on the descriptor has come to an end. Counts as a write.
  kj::Promise<void> connectEnded();

  kj::Promise<size_t> tryRead(void* buffer, size_t minBytes, size_t maxBytes) override;
  kj::Promise<void> write(const void* buffer, size_t size) override;
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override;
  kj::Promise<void> sendFile(const File& file, uint64_t offset, uint64_t length) override;
  kj::Promise<void> whenWriteDisconnected() override;
  void shutdownWrite() override;
  void abortRead() override;
  void getsockopt(int level, int option, void* value, kj::uint* length) override;
  void setsockopt(int level, int option, const void* value, kj::uint length) override;
  void getsockname(struct sockaddr* address, kj::uint* length) override;
  void getpeername(struct sockaddr* address, kj::uint* length) override;
  kj::Maybe<int> getFd() const override { return fd_; }

  size_t readNow(MutableBytes into, bool* open) override;
  const Address& peer() const override;
  const Address& local() const override;
  void cork(bool on) override;
  int release() override;

 private:
  // What is being sent. advance() makes system calls until done, no room, or the turn's share is used up.
  struct Pieces {
    std::vector<iovec> left;
    size_t next = 0;
  };
  struct FileRange {
    int descriptor;
    uint64_t offset;
    uint64_t left;
  };
  struct Connecting {
    bool done = false;
  };
  using Outgoing = std::variant<Pieces, FileRange, Connecting>;

  class ReadWaiter;
  class WriteWaiter;

  int receive(void* buffer, size_t minBytes, size_t maxBytes, size_t* got);  // errno or 0
  int sendPieces(iovec* pieces, size_t count, size_t* next);                 // errno or 0
  int sendRange(FileRange& range);                                           // errno or 0
  int advance(Outgoing& outgoing, bool* done);                               // errno or 0
  kj::Promise<void> startWrite(Outgoing outgoing, const char* operation);
  void updateMask();
  void setMask(int mask);
  void onEvent(int status, int events);
  kj::Exception error(const char* operation, int number) const;

  EventPort& port_;
  int fd_;                     // -1: given away
  uv_poll_t* poll_;            // null with it
  int mask_ = 0;               // what the poll handle waits for
  bool maybeReadable_ = true;  // the next recv may give something
  bool eof_ = false;
  bool sawHangUp_ = false;
  ReadWaiter* reading_ = nullptr;
  WriteWaiter* writing_ = nullptr;
  kj::Own<kj::PromiseFulfiller<void>> disconnected_;
  std::optional<kj::ForkedPromise<void>> whenDisconnected_;
  mutable std::optional<Address> peer_, local_;  // asked for when first needed
};

}  // namespace mq
