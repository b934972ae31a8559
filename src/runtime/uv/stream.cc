#include "runtime/uv/stream.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include <kj/debug.h>

#include "base/check.h"

namespace mq {

namespace {

// One connection's share of a turn; then the others are looked at.
constexpr uint64_t kTurnBytesMax = 1_MiB;
constexpr size_t kPiecesOnStack = 16;

Address addressOf(int fd, int (*ask)(int, sockaddr*, socklen_t*)) {
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (ask(fd, address, &length) != 0) return {};  // the peer was faster and is gone
  return numericAddress(address);
}

}  // namespace

kj::Exception socketError(const char* operation, const std::string& address, int errorNumber) {
  auto type = kj::Exception::Type::FAILED;
  switch (errorNumber) {
    case ECONNRESET:
    case EPIPE:
    case ENOTCONN:
    case ECONNREFUSED:
    case ECONNABORTED:
    case ETIMEDOUT:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ENETDOWN: type = kj::Exception::Type::DISCONNECTED; break;
    case EMFILE:
    case ENFILE:
    case ENOBUFS:
    case ENOMEM: type = kj::Exception::Type::OVERLOADED; break;
    default: break;
  }
  return kj::Exception(type, __FILE__, __LINE__,
                       kj::str("cannot ", operation, " ", address.c_str(), ": ", strerror(errorNumber)));
}

Address numericAddress(const sockaddr* address) {
  char text[INET6_ADDRSTRLEN] = {};
  if (address->sa_family == AF_INET) {
    auto& v4 = *reinterpret_cast<const sockaddr_in*>(address);
    ::inet_ntop(AF_INET, &v4.sin_addr, text, sizeof text);
    return {.host = text, .port = ntohs(v4.sin_port)};
  }
  if (address->sa_family == AF_INET6) {
    auto& v6 = *reinterpret_cast<const sockaddr_in6*>(address);
    if (IN6_IS_ADDR_V4MAPPED(&v6.sin6_addr)) {
      ::inet_ntop(AF_INET, v6.sin6_addr.s6_addr + 12, text, sizeof text);
    } else {
      ::inet_ntop(AF_INET6, &v6.sin6_addr, text, sizeof text);
    }
    return {.host = text, .port = ntohs(v6.sin6_port)};
  }
  return {};
}

class UvStream::ReadWaiter {
 public:
  ReadWaiter(kj::PromiseFulfiller<size_t>& fulfiller, UvStream& stream, void* buffer, size_t minBytes, size_t maxBytes,
             size_t got)
      : fulfiller_(fulfiller), stream_(stream), buffer_(buffer), minBytes_(minBytes), maxBytes_(maxBytes), got_(got) {
    stream.reading_ = this;
    stream.updateMask();
  }
  ~ReadWaiter() {
    if (stream_.reading_ == this) stream_.reading_ = nullptr;  // the mask stays: likely somebody reads again
  }
  void onReadable() {
    int failed = stream_.receive(buffer_, minBytes_, maxBytes_, &got_);
    if (failed == 0 && got_ < minBytes_ && !stream_.eof_) return;
    stream_.reading_ = nullptr;
    if (failed != 0) {
      fulfiller_.reject(stream_.error("read from", failed));
    } else {
      fulfiller_.fulfill(kj::mv(got_));
    }
  }

 private:
  kj::PromiseFulfiller<size_t>& fulfiller_;
  UvStream& stream_;
  void* buffer_;
  size_t minBytes_, maxBytes_, got_;
};

class UvStream::WriteWaiter {
 public:
  WriteWaiter(kj::PromiseFulfiller<void>& fulfiller, UvStream& stream, Outgoing&& outgoing, const char* operation)
      : fulfiller_(fulfiller), stream_(stream), outgoing_(std::move(outgoing)), operation_(operation) {
    stream.writing_ = this;
    stream.updateMask();
  }
  ~WriteWaiter() {
    if (stream_.writing_ != this) return;
    stream_.writing_ = nullptr;
    stream_.updateMask();
  }
  void onWritable() {
    if (auto* connecting = std::get_if<Connecting>(&outgoing_)) connecting->done = true;
    bool done = false;
    int failed = stream_.advance(outgoing_, &done);
    if (failed == 0 && !done) return;
    stream_.writing_ = nullptr;
    if (failed != 0) {
      fulfiller_.reject(stream_.error(operation_, failed));
    } else {
      fulfiller_.fulfill();
    }
  }

 private:
  kj::PromiseFulfiller<void>& fulfiller_;
  UvStream& stream_;
  Outgoing outgoing_;
  const char* operation_;
};

UvStream::UvStream(EventPort& port, int descriptor) : port_(port), fd_(descriptor), poll_(new uv_poll_t) {
  int failed = uv_poll_init(port.loop(), poll_, fd_);  // makes it non-blocking, too
  if (failed != 0) {
    delete poll_;
    ::close(fd_);
    kj::throwFatalException(socketError("watch", "socket", -failed));
  }
  poll_->data = this;
  int on = 1;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

UvStream::~UvStream() noexcept(false) {
  MQ_CHECK(reading_ == nullptr && writing_ == nullptr);  // a promise must not outlive its stream
  if (fd_ < 0) return;
  closeHandle(poll_);
  ::close(fd_);
}

int UvStream::release() {
  MQ_CHECK(fd_ >= 0 && reading_ == nullptr && writing_ == nullptr);
  closeHandle(std::exchange(poll_, nullptr));  // off this loop's epoll at once, before another loop has it
  return std::exchange(fd_, -1);
}

kj::Exception UvStream::error(const char* operation, int number) const {
  return socketError(operation, peer().toString(), number);
}

// --- reading

int UvStream::receive(void* buffer, size_t minBytes, size_t maxBytes, size_t* got) {
  while (*got < maxBytes) {
    ssize_t count = ::recv(fd_, static_cast<char*>(buffer) + *got, maxBytes - *got, 0);
    if (count > 0) {
      bool all = static_cast<size_t>(count) == maxBytes - *got;
      *got += static_cast<size_t>(count);
      if (!all) maybeReadable_ = false;  // less than asked: drained, and what comes now will be an event
      if (*got >= minBytes || !maybeReadable_) return 0;
    } else if (count == 0) {
      eof_ = true;
      return 0;
    } else if (errno == EAGAIN) {
      maybeReadable_ = false;
      return 0;
    } else if (errno != EINTR) {
      return errno;
    }
  }
  return 0;
}

kj::Promise<size_t> UvStream::tryRead(void* buffer, size_t minBytes, size_t maxBytes) {
  MQ_CHECK(reading_ == nullptr);
  size_t got = 0;
  if (eof_) return got;
  if (maybeReadable_) {
    int failed = receive(buffer, minBytes, maxBytes, &got);
    if (failed != 0) return error("read from", failed);
    if (got >= minBytes || eof_) return got;
  }
  return kj::newAdaptedPromise<size_t, ReadWaiter>(*this, buffer, minBytes, maxBytes, got);
}

size_t UvStream::readNow(MutableBytes into, bool* open) {
  MQ_CHECK(reading_ == nullptr);
  *open = !eof_;
  if (eof_ || !maybeReadable_ || into.empty()) return 0;
  size_t got = 0;
  int failed = receive(into.data(), 1, into.size(), &got);
  *open = failed == 0 && !eof_;
  return got;
}

// --- writing

int UvStream::sendPieces(iovec* pieces, size_t count, size_t* next) {
  uint64_t sent = 0;
  while (*next < count && sent < kTurnBytesMax) {
    msghdr message{};
    message.msg_iov = pieces + *next;
    message.msg_iovlen = std::min<size_t>(count - *next, IOV_MAX);
    ssize_t wrote = ::sendmsg(fd_, &message, MSG_NOSIGNAL);
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? 0 : errno;
    }
    sent += static_cast<uint64_t>(wrote);
    auto left = static_cast<size_t>(wrote);
    while (*next < count && left >= pieces[*next].iov_len) left -= pieces[(*next)++].iov_len;
    if (left > 0) {
      pieces[*next].iov_base = static_cast<char*>(pieces[*next].iov_base) + left;
      pieces[*next].iov_len -= left;
    }
  }
  return 0;
}

int UvStream::sendRange(FileRange& range) {
  uint64_t sent = 0;
  while (range.left > 0 && sent < kTurnBytesMax) {
    auto offset = static_cast<off_t>(range.offset);
    ssize_t wrote = ::sendfile(fd_, range.descriptor, &offset, std::min<uint64_t>(range.left, kTurnBytesMax));
    if (wrote < 0) {
      if (errno == EINTR) continue;
      return errno == EAGAIN ? 0 : errno;
    }
    if (wrote == 0) return ENODATA;  // the file is shorter than the peer has been told
    range.offset += static_cast<uint64_t>(wrote);
    range.left -= static_cast<uint64_t>(wrote);
    sent += static_cast<uint64_t>(wrote);
  }
  return 0;
}

int UvStream::advance(Outgoing& outgoing, bool* done) {
  if (auto* pieces = std::get_if<Pieces>(&outgoing)) {
    int failed = sendPieces(pieces->left.data(), pieces->left.size(), &pieces->next);
    *done = pieces->next == pieces->left.size();
    return failed;
  }
  if (auto* range = std::get_if<FileRange>(&outgoing)) {
    int failed = sendRange(*range);
    *done = range->left == 0;
    return failed;
  }
  *done = std::get<Connecting>(outgoing).done;
  return 0;
}

kj::Promise<void> UvStream::startWrite(Outgoing outgoing, const char* operation) {
  bool done = false;
  int failed = advance(outgoing, &done);
  if (failed != 0) return error(operation, failed);
  if (done) return kj::READY_NOW;
  return kj::newAdaptedPromise<void, WriteWaiter>(*this, std::move(outgoing), operation);
}

kj::Promise<void> UvStream::write(const void* buffer, size_t size) {
  kj::ArrayPtr<const kj::byte> piece(static_cast<const kj::byte*>(buffer), size);
  return write(kj::arrayPtr(&piece, 1));
}

kj::Promise<void> UvStream::write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) {
  MQ_CHECK(writing_ == nullptr);
  Pieces many;
  iovec few[kPiecesOnStack];  // the usual write is small and leaves at once: nothing on the heap
  iovec* vectors = few;
  if (pieces.size() > kPiecesOnStack) {
    many.left.resize(pieces.size());
    vectors = many.left.data();
  }
  size_t count = 0, next = 0;
  for (auto& piece : pieces) {
    if (piece.size() > 0) vectors[count++] = {const_cast<kj::byte*>(piece.begin()), piece.size()};
  }
  int failed = sendPieces(vectors, count, &next);
  if (failed != 0) return error("write to", failed);
  if (next == count) return kj::READY_NOW;
  if (vectors == few) {
    many.left.assign(few + next, few + count);
  } else {
    many.left.resize(count);
    many.next = next;
  }
  return kj::newAdaptedPromise<void, WriteWaiter>(*this, std::move(many), "write to");
}

kj::Promise<void> UvStream::sendFile(const File& file, uint64_t offset, uint64_t length) {
  MQ_CHECK(writing_ == nullptr);
  return startWrite(FileRange{.descriptor = file.descriptor(), .offset = offset, .left = length}, "send a file to");
}

kj::Promise<void> UvStream::connectEnded() {
  MQ_CHECK(writing_ == nullptr);
  return startWrite(Connecting{}, "connect to");
}

kj::Promise<void> UvStream::whenWriteDisconnected() {
  if (!whenDisconnected_) {
    auto pair = kj::newPromiseAndFulfiller<void>();
    disconnected_ = kj::mv(pair.fulfiller);
    whenDisconnected_.emplace(pair.promise.fork());
    updateMask();
  }
  return whenDisconnected_->addBranch();
}

// --- waiting

void UvStream::updateMask() {
  int want = (reading_ != nullptr ? UV_READABLE : mask_ & UV_READABLE) | (writing_ != nullptr ? UV_WRITABLE : 0);
  if (disconnected_.get() != nullptr) want |= sawHangUp_ ? UV_PRIORITIZED : UV_DISCONNECT;
  setMask(want);
}

void UvStream::setMask(int mask) {
  if (mask == mask_) return;
  mask_ = mask;
  if (mask == 0) {
    uv_poll_stop(poll_);
    return;
  }
  uv_poll_start(poll_, mask, [](uv_poll_t* handle, int status, int events) {
    static_cast<UvStream*>(handle->data)->onEvent(status, events);
  });
}

void UvStream::onEvent(int status, int events) {
  port_.noteWork();
  if (status < 0) {
    mask_ = 0;  // libuv has stopped the handle
    events = UV_READABLE | UV_WRITABLE | UV_DISCONNECT;
  }
  if ((events & (UV_DISCONNECT | UV_PRIORITIZED)) != 0) {
    sawHangUp_ = true;
    pollfd look{.fd = fd_, .events = 0, .revents = 0};
    bool gone = ::poll(&look, 1, 0) > 0 && (look.revents & (POLLHUP | POLLERR)) != 0;
    if (gone && disconnected_.get() != nullptr) {
      disconnected_->fulfill();
      disconnected_ = nullptr;
    }
  }
  if ((events & UV_READABLE) != 0) {
    maybeReadable_ = true;
    if (reading_ != nullptr) {
      reading_->onReadable();
    } else if (status >= 0) {
      setMask(mask_ & ~UV_READABLE);  // level-triggered: it would fire again and again
    }
  }
  if ((events & UV_WRITABLE) != 0 && writing_ != nullptr) writing_->onWritable();
  updateMask();
}

// --- the rest

void UvStream::shutdownWrite() { ::shutdown(fd_, SHUT_WR); }
void UvStream::abortRead() { ::shutdown(fd_, SHUT_RD); }

void UvStream::getsockopt(int level, int option, void* value, kj::uint* length) {
  socklen_t size = *length;
  KJ_SYSCALL(::getsockopt(fd_, level, option, value, &size));
  *length = size;
}
void UvStream::setsockopt(int level, int option, const void* value, kj::uint length) {
  KJ_SYSCALL(::setsockopt(fd_, level, option, value, length));
}
void UvStream::getsockname(sockaddr* address, kj::uint* length) {
  socklen_t size = *length;
  KJ_SYSCALL(::getsockname(fd_, address, &size));
  *length = size;
}
void UvStream::getpeername(sockaddr* address, kj::uint* length) {
  socklen_t size = *length;
  KJ_SYSCALL(::getpeername(fd_, address, &size));
  *length = size;
}

const Address& UvStream::peer() const {
  if (!peer_) peer_ = addressOf(fd_, &::getpeername);
  return *peer_;
}
const Address& UvStream::local() const {
  if (!local_) local_ = addressOf(fd_, &::getsockname);
  return *local_;
}

void UvStream::cork(bool on) {
  int value = on ? 1 : 0;
  ::setsockopt(fd_, IPPROTO_TCP, TCP_CORK, &value, sizeof value);
}

}  // namespace mq
