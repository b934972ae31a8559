#include "runtime/uv/network.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>

#include "base/check.h"
#include "runtime/uv/stream.h"
#include "runtime/uv/uv_shard.h"

namespace mq {

namespace {

constexpr int kBacklog = 4096;
constexpr Duration kPauseWithoutDescriptors = 50ms;

struct Resolved {
  sockaddr_storage storage{};
  socklen_t length = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Addresses in the order in which to try them, never none. Blocks unless the host is numeric.
std::vector<Resolved> resolve(const Address& address, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags | AI_NUMERICSERV;
  addrinfo* list = nullptr;
  int failed = ::getaddrinfo(address.host.c_str(), fmt::format("{}", address.port).c_str(), &hints, &list);
  if (failed != 0) {
    const char* reason = failed == EAI_SYSTEM ? strerror(errno) : ::gai_strerror(failed);
    throw kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__,
                        kj::str("cannot resolve ", address.host.c_str(), ": ", reason));
  }
  std::unique_ptr<addrinfo, void (*)(addrinfo*)> owner(list, &::freeaddrinfo);
  std::vector<Resolved> found;
  for (addrinfo* info = list; info != nullptr; info = info->ai_next) {
    Resolved& one = found.emplace_back();
    one.length = std::min<socklen_t>(info->ai_addrlen, sizeof one.storage);
    std::memcpy(&one.storage, info->ai_addr, one.length);
  }
  return found;
}

bool isNumeric(const std::string& host) {
  in6_addr unused;
  return ::inet_pton(AF_INET, host.c_str(), &unused) == 1 || host.find(':') != std::string::npos;
}

struct Lookup {
  std::vector<Resolved> found;
  std::optional<kj::Exception> failure;
};

Co<std::vector<Resolved>> resolveOffLoop(UvShard& shard, Address address) {
  if (isNumeric(address.host)) co_return resolve(address, AI_NUMERICHOST);
  auto lookup = std::make_shared<Lookup>();
  auto pair = kj::newPromiseAndFulfiller<void>();
  shard.resolve(
      [lookup, address] {
        try {
          lookup->found = resolve(address, AI_ADDRCONFIG);
        } catch (...) {
          lookup->failure.emplace(caughtException());
        }
      },
      [fulfiller = kj::mv(pair.fulfiller)]() mutable { fulfiller->fulfill(); });
  co_await pair.promise;
  if (lookup->failure) kj::throwFatalException(kj::mv(*lookup->failure));
  co_return std::move(lookup->found);
}

Co<kj::Own<Stream>> connectTo(UvShard& shard, Address address) {
  std::vector<Resolved> candidates = co_await resolveOffLoop(shard, address);
  int failed = EHOSTUNREACH;
  for (auto& candidate : candidates) {
    int fd = ::socket(candidate.get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) throw socketError("open a socket for", address.toString(), errno);
    auto stream = kj::heap<UvStream>(shard.port(), fd);
    failed = ::connect(fd, candidate.get(), candidate.length) == 0 ? 0 : errno;
    if (failed == EINPROGRESS) {
      co_await stream->connectEnded();
      kj::uint length = sizeof failed;
      stream->getsockopt(SOL_SOCKET, SO_ERROR, &failed, &length);
    }
    if (failed == 0) {
      stream->peer();  // known from now on, also when the connection has broken
      co_return kj::mv(stream);
    }
  }
  throw socketError("connect to", address.toString(), failed);
}

}  // namespace

kj::Promise<kj::Own<Stream>> UvNetwork::connect(const Address& address) { return connectTo(shard_, address); }

kj::Own<Stream> UvNetwork::adopt(int descriptor) {
  auto stream = kj::heap<UvStream>(shard_.port(), descriptor);
  stream->peer();
  return stream;
}

kj::Own<Listener> UvNetwork::listen(const Address& address) {
  kj::Own<Listener> listener = reserve(address);
  static_cast<UvListener&>(*listener).listen();
  return listener;
}

kj::Own<Listener> UvNetwork::reserve(const Address& address) {
  std::vector<Resolved> found = resolve(address, AI_PASSIVE);
  // A name such as localhost often has both kinds: clients that know only one know IPv4.
  auto chosen = std::ranges::find(found, AF_INET, [](const Resolved& r) { return r.get()->sa_family; });
  if (chosen == found.end()) chosen = found.begin();

  int fd = ::socket(chosen->get()->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  auto refuse = [&](int error) {
    if (fd >= 0) ::close(fd);
    kj::throwFatalException(socketError("listen on", address.toString(), error));
  };
  if (fd < 0) refuse(errno);
  int on = 1, off = 0;
  if (::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0) refuse(errno);
  if (chosen->get()->sa_family == AF_INET6 && address.host == "::") {
    ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);  // the wildcard means IPv4 as well
  }
  if (::bind(fd, chosen->get(), chosen->length) != 0) refuse(errno);
  return kj::heap<UvListener>(shard_, fd, address);
}

void UvListener::listen() {
  if (::listen(fd_, kBacklog) != 0) kj::throwFatalException(socketError("listen on", asked_.toString(), errno));
  listening_ = true;
}

class UvListener::Waiter {
 public:
  Waiter(kj::PromiseFulfiller<void>& fulfiller, UvListener& listener) : fulfiller_(fulfiller), listener_(listener) {
    MQ_CHECK(listener.waiting_ == nullptr);
    listener.waiting_ = this;
    uv_poll_start(listener.poll_, UV_READABLE, [](uv_poll_t* handle, int, int) {
      auto& self = *static_cast<UvListener*>(handle->data);
      self.shard_.port().noteWork();
      uv_poll_stop(handle);
      self.waiting_->fulfiller_.fulfill();
    });
  }
  ~Waiter() {
    listener_.waiting_ = nullptr;
    uv_poll_stop(listener_.poll_);
  }

 private:
  kj::PromiseFulfiller<void>& fulfiller_;
  UvListener& listener_;
};

UvListener::UvListener(UvShard& shard, int descriptor, const Address& asked)
    : shard_(shard),
      fd_(descriptor),
      asked_(asked),
      poll_(new uv_poll_t),
      spare_(::open("/dev/null", O_RDONLY | O_CLOEXEC)) {
  int failed = uv_poll_init(shard.port().loop(), poll_, fd_);
  MQ_CHECK(failed == 0, failed);
  poll_->data = this;
  sockaddr_storage storage{};
  socklen_t length = sizeof storage;
  auto* address = reinterpret_cast<sockaddr*>(&storage);
  if (::getsockname(fd_, address, &length) == 0) local_ = numericAddress(address);
}

UvListener::~UvListener() {
  MQ_CHECK(waiting_ == nullptr);
  closeHandle(poll_);
  ::close(fd_);
  if (spare_ >= 0) ::close(spare_);
}

Co<int> UvListener::acceptNext() {
  if (!listening_) listen();
  for (;;) {
    int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) co_return fd;
    switch (errno) {
      case EAGAIN: co_await kj::newAdaptedPromise<void, Waiter>(*this); break;
      case EMFILE:
      case ENFILE:
        shard_.log().warning("out_of_descriptors", "no descriptor left for a connection to {}: closing it",
                             local_.toString());
        turnOneAway();
        co_await shard_.after(kPauseWithoutDescriptors);
        break;
      case ENOBUFS:
      case ENOMEM: co_await shard_.after(kPauseWithoutDescriptors); break;
      case EBADF:
      case EINVAL:
      case ENOTSOCK:
      case EOPNOTSUPP:
      case EFAULT: throw socketError("accept on", local_.toString(), errno);
      default: break;  // the connection failed before we took it: on to the next
    }
  }
}

void UvListener::turnOneAway() {
  if (spare_ >= 0) ::close(spare_);
  int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd >= 0) ::close(fd);
  spare_ = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
}

kj::Promise<kj::Own<Stream>> UvListener::accept() {
  return acceptNext().then([this](int fd) { return shard_.network().adopt(fd); });
}

}  // namespace mq
