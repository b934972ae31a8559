#include "sim_network.h"

#include <kj/debug.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/check.h"
#include "runtime/coro.h"

namespace mq::sim {

namespace {

constexpr Duration kRetry = 200ms;  // of a segment that found the way cut or the host silent

kj::Exception socketError(const char* operation, const std::string& address, int errorNumber) {
  bool ours = errorNumber == ENODATA || errorNumber == EADDRINUSE || errorNumber == EADDRNOTAVAIL;
  return kj::Exception(ours ? kj::Exception::Type::FAILED : kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__,
                       kj::str("cannot ", operation, " ", address.c_str(), ": ", strerror(errorNumber)));
}

}  // namespace

// --- streams

class SimStream final : public Stream {
 public:
  SimStream(SimNetwork& network, SimNetwork::Endpoint& endpoint, std::shared_ptr<const bool> frozen)
      : network_(network), endpoint_(endpoint), frozen_(std::move(frozen)) {
    endpoint.stream = this;
  }
  ~SimStream() noexcept(false) {
    MQ_CHECK(reading_ == nullptr && writing_ == nullptr);  // a promise must not outlive its stream
    if (released_) return;
    endpoint_.stream = nullptr;
    endpoint_.closed = true;
    if (*frozen_) return;
    if (!endpoint_.received.empty()) {
      network_.send(endpoint_, SimNetwork::Kind::reset, {});  // the peer's bytes were thrown away: it must know
    } else if (!endpoint_.finSent && endpoint_.error == 0) {
      endpoint_.finSent = true;
      network_.send(endpoint_, SimNetwork::Kind::fin, {});
    }
    network_.dropIfOver(endpoint_.id);
  }

  kj::Promise<size_t> tryRead(void* buffer, size_t minBytes, size_t maxBytes) override {
    MQ_CHECK(reading_ == nullptr);
    size_t got = take(buffer, maxBytes);
    if (got >= minBytes || ended()) {
      if (got == 0 && endpoint_.error != 0) return socketError("read from", peer().toString(), endpoint_.error);
      return got;
    }
    return kj::newAdaptedPromise<size_t, Reader>(*this, static_cast<char*>(buffer), minBytes, maxBytes, got);
  }

  size_t readNow(MutableBytes into, bool* open) override {
    MQ_CHECK(reading_ == nullptr);
    size_t got = take(into.data(), into.size());
    *open = got > 0 || !ended();
    return got;
  }

  kj::Promise<void> write(const void* buffer, size_t size) override {
    kj::ArrayPtr<const kj::byte> piece(static_cast<const kj::byte*>(buffer), size);
    return write(kj::arrayPtr(&piece, 1));
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    std::string bytes;
    for (auto& piece : pieces) bytes.append(reinterpret_cast<const char*>(piece.begin()), piece.size());
    return start(std::move(bytes));
  }

  kj::Promise<void> sendFile(const File& file, uint64_t offset, uint64_t length) override {
    return sendRange(file, offset, length);
  }

  kj::Promise<void> whenWriteDisconnected() override {
    if (!whenBroken_) {
      auto pair = kj::newPromiseAndFulfiller<void>();
      if (endpoint_.error != 0) pair.fulfiller->fulfill();
      broken_ = kj::mv(pair.fulfiller);
      whenBroken_.emplace(pair.promise.fork());
    }
    return whenBroken_->addBranch();
  }
  void shutdownWrite() override {
    if (endpoint_.finSent || endpoint_.error != 0) return;
    endpoint_.finSent = true;
    network_.send(endpoint_, SimNetwork::Kind::fin, {});
  }
  void abortRead() override {
    endpoint_.finReceived = true;
    endpoint_.received.clear();
    onChange();
  }
  const Address& peer() const override { return endpoint_.remote; }
  const Address& local() const override { return endpoint_.local; }
  void cork(bool) override {}  // a delay nobody can rely on
  int release() override {
    MQ_CHECK(reading_ == nullptr && writing_ == nullptr && !released_);
    released_ = true;
    endpoint_.stream = nullptr;
    return static_cast<int>(endpoint_.id);
  }

  // The endpoint has received, been broken, or may send more.
  void onChange() {
    if (broken_.get() != nullptr && endpoint_.error != 0) {
      broken_->fulfill();
      broken_ = nullptr;
    }
    if (reading_ != nullptr) reading_->onChange();
    if (writing_ != nullptr) writing_->onChange();
  }

 private:
  class Reader {
   public:
    Reader(kj::PromiseFulfiller<size_t>& fulfiller, SimStream& stream, char* buffer, size_t minBytes, size_t maxBytes,
           size_t got)
        : fulfiller_(fulfiller), stream_(stream), buffer_(buffer), minBytes_(minBytes), maxBytes_(maxBytes), got_(got) {
      stream.reading_ = this;
    }
    ~Reader() {
      if (stream_.reading_ == this) stream_.reading_ = nullptr;
    }
    void onChange() {
      got_ += stream_.take(buffer_ + got_, maxBytes_ - got_);
      if (got_ < minBytes_ && !stream_.ended()) return;
      stream_.reading_ = nullptr;
      if (got_ < minBytes_ && stream_.endpoint_.error != 0) {
        fulfiller_.reject(socketError("read from", stream_.peer().toString(), stream_.endpoint_.error));
      } else {
        fulfiller_.fulfill(kj::mv(got_));
      }
    }

   private:
    kj::PromiseFulfiller<size_t>& fulfiller_;
    SimStream& stream_;
    char* buffer_;
    size_t minBytes_, maxBytes_, got_;
  };

  class Writer {
   public:
    Writer(kj::PromiseFulfiller<void>& fulfiller, SimStream& stream, std::string bytes)
        : fulfiller_(fulfiller), stream_(stream), bytes_(std::move(bytes)) {
      stream.writing_ = this;
    }
    ~Writer() {
      if (stream_.writing_ == this) stream_.writing_ = nullptr;
    }
    void onChange() {
      if (stream_.endpoint_.error != 0) {
        stream_.writing_ = nullptr;
        fulfiller_.reject(socketError("write to", stream_.peer().toString(), stream_.endpoint_.error));
        return;
      }
      sent_ += stream_.sendSome(bytes_, sent_);
      if (sent_ < bytes_.size()) return;
      stream_.writing_ = nullptr;
      fulfiller_.fulfill();
    }

   private:
    kj::PromiseFulfiller<void>& fulfiller_;
    SimStream& stream_;
    std::string bytes_;
    size_t sent_ = 0;
  };

  bool ended() const { return endpoint_.finReceived || endpoint_.error != 0; }

  size_t take(void* into, size_t max) {
    size_t count = std::min(max, endpoint_.received.size());
    if (count == 0) return 0;
    std::memcpy(into, endpoint_.received.data(), count);
    endpoint_.received.erase(0, count);
    if (auto* other = network_.find(endpoint_.peer); other != nullptr && other->stream != nullptr) {
      // There is room again. Through the loop: a write must not go on inside the other's read.
      network_.loop_.after(0ns, &network_, [&network = network_, id = other->id] {
        auto* waiting = network.find(id);
        if (waiting != nullptr && waiting->stream != nullptr) waiting->stream->onChange();
      });
    }
    return count;
  }

  size_t sendSome(const std::string& bytes, size_t from) {
    size_t count = std::min<uint64_t>(network_.room(endpoint_), bytes.size() - from);
    for (size_t at = 0; at < count;) {
      size_t most = std::min<uint64_t>(network_.options_.segmentBytesMax, count - at);
      size_t segment = network_.random_.chance(1, 2) ? most : network_.random_.between(1, most);
      endpoint_.inFlight += segment;
      network_.send(endpoint_, SimNetwork::Kind::data, bytes.substr(from + at, segment));
      at += segment;
    }
    return count;
  }

  kj::Promise<void> start(std::string bytes) {
    MQ_CHECK(writing_ == nullptr);
    if (*frozen_) return socketError("write to", peer().toString(), EPIPE);
    if (endpoint_.error != 0 || endpoint_.finSent) {
      return socketError("write to", peer().toString(), endpoint_.error != 0 ? endpoint_.error : EPIPE);
    }
    size_t sent = sendSome(bytes, 0);
    if (sent == bytes.size()) return kj::READY_NOW;
    return kj::newAdaptedPromise<void, Writer>(*this, bytes.substr(sent));
  }

  Co<void> sendRange(const File& file, uint64_t offset, uint64_t length) {
    std::vector<uint8_t> block(std::min<uint64_t>(length, 64_KiB));
    while (length > 0) {
      size_t count = file.read(offset, MutableBytes(block).first(std::min<uint64_t>(block.size(), length)));
      if (count > 0) co_await start(std::string(asText(Bytes(block).first(count))));
      offset += count;
      length -= count;
      if (count < block.size() && length > 0) throw socketError("send a file to", peer().toString(), ENODATA);
    }
  }

  SimNetwork& network_;
  SimNetwork::Endpoint& endpoint_;
  std::shared_ptr<const bool> frozen_;
  Reader* reading_ = nullptr;
  Writer* writing_ = nullptr;
  bool released_ = false;  // the endpoint is another stream's, or gone
  kj::Own<kj::PromiseFulfiller<void>> broken_;
  std::optional<kj::ForkedPromise<void>> whenBroken_;
};

// --- listeners

class SimListener final : public Listener {
 public:
  SimListener(SimNetwork& network, SimNetwork::Host host, std::shared_ptr<const bool> frozen, Address local,
              bool listening)
      : network_(network), host_(host), frozen_(std::move(frozen)), local_(std::move(local)), listening_(listening) {
    network_.listeners_[{host, local_.port}] = this;
  }
  ~SimListener() override {
    MQ_CHECK(waiting_ == nullptr);
    if (*frozen_) return;  // the crash has taken it off the network
    network_.listeners_.erase({host_, local_.port});
    for (uint64_t id : waitingConnections_) {
      if (auto* endpoint = network_.find(id)) network_.send(*endpoint, SimNetwork::Kind::reset, {});
    }
  }

  kj::Promise<kj::Own<Stream>> accept() override {
    return next().then([this](uint64_t id) { return network_.adopt(id, frozen_); });
  }
  kj::Promise<int> acceptDescriptor() override {
    return next().then([](uint64_t id) { return static_cast<int>(id); });
  }
  const Address& local() const override { return local_; }

  bool listening() const { return listening_; }

  void arrived(uint64_t endpoint) {
    if (waiting_ == nullptr) {
      waitingConnections_.push_back(endpoint);
    } else {
      std::exchange(waiting_, nullptr)->fulfill(endpoint);
    }
  }

 private:
  class Waiter {
   public:
    Waiter(kj::PromiseFulfiller<uint64_t>& fulfiller, SimListener& listener)
        : fulfiller_(fulfiller), listener_(listener) {
      MQ_CHECK(listener.waiting_ == nullptr);
      listener.waiting_ = this;
    }
    ~Waiter() {
      if (listener_.waiting_ == this) listener_.waiting_ = nullptr;
    }
    void fulfill(uint64_t endpoint) { fulfiller_.fulfill(kj::mv(endpoint)); }

   private:
    kj::PromiseFulfiller<uint64_t>& fulfiller_;
    SimListener& listener_;
  };

  kj::Promise<uint64_t> next() {
    listening_ = true;
    if (waitingConnections_.empty()) return kj::newAdaptedPromise<uint64_t, Waiter>(*this);
    uint64_t id = waitingConnections_.front();
    waitingConnections_.pop_front();
    return id;
  }

  SimNetwork& network_;
  const SimNetwork::Host host_;
  std::shared_ptr<const bool> frozen_;
  const Address local_;
  bool listening_;
  std::deque<uint64_t> waitingConnections_;
  Waiter* waiting_ = nullptr;
};

// --- one process's view

class HostNetwork final : public Network {
 public:
  HostNetwork(SimNetwork& network, SimNetwork::Host host, std::shared_ptr<const bool> frozen)
      : network_(network), host_(host), frozen_(std::move(frozen)) {}

  kj::Own<Listener> listen(const Address& address) override { return open(address, true); }
  kj::Own<Listener> reserve(const Address& address) override { return open(address, false); }
  kj::Promise<kj::Own<Stream>> connect(const Address& address) override {
    return network_.connect(host_, frozen_, address);
  }
  kj::Own<Stream> adopt(int descriptor) override { return network_.adopt(static_cast<uint64_t>(descriptor), frozen_); }

 private:
  kj::Own<Listener> open(const Address& address, bool listening) {
    auto host = network_.resolve(host_, address.host);
    if (!host || *host != host_) throw socketError("listen on", address.toString(), EADDRNOTAVAIL);
    Address local{.host = SimNetwork::hostName(host_), .port = address.port};
    while (local.port == 0 || (address.port == 0 && network_.listeners_.contains({host_, local.port}))) {
      local.port = ++network_.nextPort_;
    }
    if (network_.listeners_.contains({host_, local.port}))
      throw socketError("listen on", address.toString(), EADDRINUSE);
    return kj::heap<SimListener>(network_, host_, frozen_, local, listening);
  }

  SimNetwork& network_;
  const SimNetwork::Host host_;
  std::shared_ptr<const bool> frozen_;
};

// --- the network

SimNetwork::SimNetwork(SimLoop& loop, Prng random, NetworkOptions options)
    : loop_(loop), random_(random), options_(options) {}

SimNetwork::~SimNetwork() { loop_.takeBack(this); }

std::unique_ptr<Network> SimNetwork::attach(Host host, std::shared_ptr<const bool> frozen) {
  return std::make_unique<HostNetwork>(*this, host, std::move(frozen));
}

SimNetwork::Endpoint* SimNetwork::find(uint64_t id) {
  auto found = endpoints_.find(id);
  return found == endpoints_.end() ? nullptr : &found->second;
}

std::optional<SimNetwork::Host> SimNetwork::resolve(Host from, const std::string& name) const {
  if (name == "localhost" || name == "0.0.0.0" || name == "::" || name.starts_with("127.") || name == "::1")
    return from;
  for (const char* prefix : {"10.0.0.", "node-"}) {
    if (!name.starts_with(prefix)) continue;
    Host host = 0;
    for (char c : name.substr(std::strlen(prefix))) {
      if (c < '0' || c > '9') return std::nullopt;
      host = host * 10 + static_cast<Host>(c - '0');
    }
    return host;
  }
  return std::nullopt;
}

Duration SimNetwork::delay(Host from, Host to) {
  if (from == to) return Duration(static_cast<int64_t>(random_.between(1'000, 50'000)));
  auto low = static_cast<uint64_t>(options_.delayMin.count()), high = static_cast<uint64_t>(options_.delayMax.count());
  auto extra = slow_.find({from, to});
  return Duration(static_cast<int64_t>(random_.between(low, std::max(low, high)))) +
         (extra == slow_.end() ? Duration{0} : extra->second);
}

void SimNetwork::cutOneWay(Host from, Host to) {
  loop_.tell("net cut {}>{}", from, to);
  cuts_.insert({from, to});
}

void SimNetwork::isolate(Host host) {
  for (Host other : up_) {
    if (other != host) cut(host, other);
  }
}

void SimNetwork::heal() {
  loop_.tell("net heal");
  cuts_.clear();
}

void SimNetwork::heal(Host a, Host b) {
  loop_.tell("net heal {}-{}", a, b);
  cuts_.erase({a, b});
  cuts_.erase({b, a});
}

void SimNetwork::slow(Host a, Host b, Duration extra) {
  loop_.tell("net slow {}-{} {}us", a, b, extra / 1us);
  slow_[{a, b}] = slow_[{b, a}] = extra;
}

void SimNetwork::reset(Host a, Host b) {
  loop_.tell("net reset {}-{}", a, b);
  for (auto& [id, endpoint] : endpoints_) {
    Endpoint* other = find(endpoint.peer);
    if (other == nullptr) continue;
    bool between = (endpoint.host == a && other->host == b) || (endpoint.host == b && other->host == a);
    if (between) breakEndpoint(endpoint, ECONNRESET);
  }
}

void SimNetwork::hostUp(Host host) { up_.insert(host); }

void SimNetwork::hostDown(Host host, bool powerLost) {
  if (powerLost) up_.erase(host);  // else the machine is there, and refuses
  std::erase_if(listeners_, [host](auto& entry) { return entry.first.first == host; });
  for (auto& [id, endpoint] : endpoints_) {
    if (endpoint.host != host || endpoint.closed) continue;
    endpoint.closed = true;
    endpoint.vanished = powerLost;
    if (powerLost) continue;
    send(endpoint, endpoint.received.empty() && !endpoint.finSent ? Kind::fin : Kind::reset, {});
  }
}

uint64_t SimNetwork::room(const Endpoint& endpoint) {
  Endpoint* other = find(endpoint.peer);
  uint64_t unread = other == nullptr ? 0 : other->received.size();
  uint64_t taken = endpoint.inFlight + unread;
  return taken >= options_.windowBytes ? 0 : options_.windowBytes - taken;
}

void SimNetwork::send(Endpoint& from, Kind kind, std::string bytes) {
  Endpoint* to = find(from.peer);
  if (to == nullptr) return;
  Instant arrival = std::max(from.lastArrival, loop_.now() + delay(from.host, to->host));
  from.lastArrival = arrival;
  loop_.at(arrival, this,
           [this, id = from.id, peer = from.peer, segment = Segment{kind, std::move(bytes), loop_.now()}]() mutable {
             arrive(id, peer, std::move(segment));
           });
}

bool SimNetwork::isBarred(const Endpoint& sender, const Endpoint& receiver) const {
  return isCut(sender.host, receiver.host) || (receiver.vanished && !up_.contains(receiver.host));
}

void SimNetwork::arrive(uint64_t from, uint64_t to, Segment segment) {
  Endpoint* sender = find(from);
  Endpoint* receiver = find(to);
  if (sender == nullptr || receiver == nullptr) return;
  if (sender->held.empty() && !isBarred(*sender, *receiver)) return deliver(from, to, std::move(segment));
  sender->held.push_back(std::move(segment));
  if (sender->held.size() == 1) loop_.after(kRetry, this, [this, from, to] { tryAgain(from, to); });
}

void SimNetwork::tryAgain(uint64_t from, uint64_t to) {
  Endpoint* sender = find(from);
  Endpoint* receiver = find(to);
  if (sender == nullptr || receiver == nullptr) return;
  if (isBarred(*sender, *receiver)) {
    if (loop_.now() - sender->held.front().sent > options_.patience) return breakEndpoint(*sender, ETIMEDOUT);
    return loop_.after(kRetry, this, [this, from, to] { tryAgain(from, to); });
  }
  for (Segment& segment : std::exchange(sender->held, {})) deliver(from, to, std::move(segment));
}

void SimNetwork::deliver(uint64_t from, uint64_t to, Segment segment) {
  auto& [kind, bytes, sent] = segment;
  Endpoint* sender = find(from);
  Endpoint* receiver = find(to);
  if (sender == nullptr || receiver == nullptr) return;
  if (receiver->error != 0) return dropIfOver(to);
  if (options_.resetOneIn > 0 && random_.chance(1, options_.resetOneIn)) kind = Kind::reset;
  loop_.tell("net {}>{} {} {}", sender->local.toString(), receiver->local.toString(),
             kind == Kind::data  ? "data"
             : kind == Kind::fin ? "fin"
                                 : "reset",
             bytes.size());
  if (kind == Kind::data) sender->inFlight -= std::min<uint64_t>(sender->inFlight, bytes.size());
  if (kind == Kind::reset) {
    breakEndpoint(*receiver, ECONNRESET);
    dropIfOver(to);
    return;
  }
  if (receiver->closed) {
    // Data for somebody who has left is answered with a reset; the end of an ended conversation is not.
    if (kind == Kind::data) {
      send(*receiver, Kind::reset, {});
    } else {
      receiver->finReceived = true;
      dropIfOver(to);
    }
    return;
  }
  if (kind == Kind::fin) {
    receiver->finReceived = true;
  } else if (!receiver->finReceived) {
    receiver->received += bytes;
  }
  if (receiver->stream != nullptr) receiver->stream->onChange();
  if (Endpoint* again = find(from); again != nullptr && again->stream != nullptr) again->stream->onChange();
}

void SimNetwork::breakEndpoint(Endpoint& endpoint, int error) {
  if (endpoint.error != 0) return;
  endpoint.error = error;
  endpoint.received.clear();
  if (endpoint.stream != nullptr) endpoint.stream->onChange();
}

void SimNetwork::dropIfOver(uint64_t id) {
  Endpoint* one = find(id);
  if (one == nullptr) return;
  Endpoint* other = find(one->peer);
  bool over = one->closed && one->stream == nullptr;
  bool otherOver = other == nullptr || (other->closed && other->stream == nullptr);
  // With both gone nobody can tell what still travels between them.
  if (!over || !otherOver) return;
  uint64_t peer = one->peer;
  endpoints_.erase(id);
  endpoints_.erase(peer);
}

uint64_t SimNetwork::makePair(Host client, Host server, uint16_t serverPort) {
  uint64_t a = nextEndpoint_++, b = nextEndpoint_++;
  if (++nextPort_ < 32768) nextPort_ = 32768;
  Address from{.host = hostName(client), .port = nextPort_}, to{.host = hostName(server), .port = serverPort};
  endpoints_[a] = {.id = a, .peer = b, .host = client, .local = from, .remote = to};
  endpoints_[b] = {.id = b, .peer = a, .host = server, .local = to, .remote = from};
  return a;
}

kj::Own<Stream> SimNetwork::adopt(uint64_t endpoint, std::shared_ptr<const bool> frozen) {
  Endpoint* found = find(endpoint);
  MQ_CHECK(found != nullptr && found->stream == nullptr, endpoint);
  return kj::heap<SimStream>(*this, *found, std::move(frozen));
}

kj::Promise<kj::Own<Stream>> SimNetwork::connect(Host from, std::shared_ptr<const bool> frozen, Address address) {
  // A coroutine over members is safe: the network outlives all processes.
  struct Run {
    static Co<kj::Own<Stream>> connect(SimNetwork& network, Host from, std::shared_ptr<const bool> frozen,
                                       Address address) {
      auto host = network.resolve(from, address.host);
      auto wait = [&](Duration duration) {
        return network.loop_.timer().atTime(
            kj::origin<kj::TimePoint>() +
            static_cast<int64_t>((network.loop_.now() + duration).time_since_epoch().count()) * kj::NANOSECONDS);
      };
      if (!host) {
        co_await wait(network.delay(from, from));
        throw kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__,
                            kj::str("cannot resolve ", address.host.c_str(), ": Name or service not known"));
      }
      Instant begin = network.loop_.now();
      co_await wait(network.delay(from, *host));
      while (network.isCut(from, *host) || network.isCut(*host, from) || !network.up_.contains(*host)) {
        if (network.loop_.now() - begin > network.options_.patience) {
          throw socketError("connect to", address.toString(), ETIMEDOUT);
        }
        co_await wait(kRetry);
      }
      auto listener = network.listeners_.find({*host, address.port});
      if (listener == network.listeners_.end() || !listener->second->listening()) {
        co_await wait(network.delay(*host, from));
        throw socketError("connect to", address.toString(), ECONNREFUSED);
      }
      uint64_t client = network.makePair(from, *host, address.port);
      network.loop_.tell("net connect {}", network.find(client)->local.toString());
      kj::Own<Stream> stream = network.adopt(client, frozen);
      listener->second->arrived(network.find(client)->peer);
      co_await wait(network.delay(*host, from));
      co_return kj::mv(stream);
    }
  };
  return Run::connect(*this, from, std::move(frozen), std::move(address));
}

}  // namespace mq::sim
