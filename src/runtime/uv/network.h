// UvNetwork, UvListener: TCP over IPv4 and IPv6. Names are looked up on a thread of their own pool, since a resolver
// may take many seconds; only listen() blocks for one, at the start of a process.
#pragma once
#include <string>

#include "runtime/coro.h"
#include "runtime/socket.h"
#include "runtime/uv/event_port.h"

namespace mq {

class UvShard;

class UvNetwork final : public Network {
 public:
  explicit UvNetwork(UvShard& shard) : shard_(shard) {}

  kj::Own<Listener> listen(const Address& address) override;
  kj::Own<Listener> reserve(const Address& address) override;
  kj::Promise<kj::Own<Stream>> connect(const Address& address) override;
  kj::Own<Stream> adopt(int descriptor) override;

 private:
  UvShard& shard_;
};

class UvListener final : public Listener {
 public:
  UvListener(UvShard& shard, int descriptor, const Address& asked);  // of a bound socket
  ~UvListener();
  void listen();  // throws as Network::listen

  kj::Promise<kj::Own<Stream>> accept() override;
  kj::Promise<int> acceptDescriptor() override { return acceptNext(); }
  const Address& local() const override { return local_; }

 private:
  class Waiter;

  Co<int> acceptNext();
  void turnOneAway();

  UvShard& shard_;
  const int fd_;
  const Address asked_;
  bool listening_ = false;
  uv_poll_t* const poll_;
  Waiter* waiting_ = nullptr;
  // Kept open for when descriptors run out: giving it up lets us take the connection at the head of the queue and close
  // it, so that its client learns at once, instead of waiting for an accept that cannot come.
  int spare_ = -1;
  Address local_;
};

}  // namespace mq
