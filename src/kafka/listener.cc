#include "kafka/listener.h"

namespace mq::kafka {

class Acceptor::Ticket {
 public:
  Ticket(Shard& here, Acceptor& acceptor) : here_(here), acceptor_(acceptor) {}
  ~Ticket() {
    here_.post(acceptor_.shard_.index(), [&acceptor = acceptor_, host = std::move(host)] { acceptor.release(host); });
  }
  KJ_DISALLOW_COPY(Ticket);

  std::string host;  // set: counted for this address too

 private:
  Shard& here_;
  Acceptor& acceptor_;
};

std::vector<kj::Own<Listener>> reserveListeners(Shard& shard, std::vector<ListenerOptions>& listeners) {
  std::vector<kj::Own<Listener>> sockets;
  for (ListenerOptions& listener : listeners) {
    sockets.push_back(shard.network().reserve(listener.listen));
    listener.listen.port = sockets.back()->local().port;
  }
  return sockets;
}

Acceptor::Acceptor(Shard& shard, Options options, std::vector<kj::Own<Listener>> sockets,
                   const std::vector<ListenerOptions>& listeners, std::vector<Server*> servers)
    : shard_(shard), options_(options), servers_(std::move(servers)), tasks_(shard.log(), "accept-failed") {
  for (size_t i = 0; i < listeners.size(); ++i) bound_.push_back({kj::mv(sockets[i]), &listeners[i]});
}

void Acceptor::start() {
  for (Bound& bound : bound_) tasks_.add(accept(*bound.listener, *bound.options));
}

void Acceptor::stop() {
  tasks_.cancelAll();
  bound_.clear();
}

Co<void> Acceptor::accept(Listener& listener, const ListenerOptions& options) {
  for (;;) handOver(co_await listener.acceptDescriptor(), options);
}

void Acceptor::handOver(int descriptor, const ListenerOptions& options) {
  uint32_t target = nextShard_;
  nextShard_ = (nextShard_ + 1) % static_cast<uint32_t>(servers_.size());
  if (count_ >= options_.connectionsMax) {
    servers_[shard_.index()]->metrics().connectionsRefused.add();
    kj::runCatchingExceptions([&] {
      auto refused = shard_.network().adopt(descriptor);
      shard_.log().warning("connection-refused", "{}: {} connections are open, as many as max.connections allows",
                           refused->peer().toString(), count_);
    });
    return;
  }
  ++count_;
  Server& server = *servers_[target];
  auto adopt = [this, &server, &options, descriptor] {
    // A client that is gone already has no address any more. The ticket counts it down all the same.
    auto failed = kj::runCatchingExceptions([&] { greet(server, descriptor, options); });
    KJ_IF_MAYBE (e, failed) server.shard().log().debug("connection-failed", "on accept: {}", describe(*e));
  };
  if (target == shard_.index()) {
    adopt();
  } else {
    shard_.post(target, std::move(adopt));
  }
}

void Acceptor::greet(Server& server, int descriptor, const ListenerOptions& options) {
  Shard& here = server.shard();
  auto ticket = kj::heap<Ticket>(here, *this);
  auto stream = here.network().adopt(descriptor);
  if (options_.connectionsPerAddressMax == SIZE_MAX) {
    server.serve(kj::mv(stream), options, kj::mv(ticket));
    return;
  }
  std::string host = plainHost(stream->peer().host);
  server.tasks().add(here.call(shard_.index(), [this, host] { return admit(host); })
                         .then([this, &server, &options, host, ticket = kj::mv(ticket),
                                stream = kj::mv(stream)](bool admitted) mutable {
                           if (admitted) {
                             ticket->host = host;
                             server.serve(kj::mv(stream), options, kj::mv(ticket));
                             return;
                           }
                           server.metrics().connectionsRefused.add();
                           server.shard().log().warning(
                               "connection-refused",
                               "{}: {} connections from there are open, as many as max.connections.per.ip allows",
                               stream->peer().toString(), options_.connectionsPerAddressMax);
                         }));
}

bool Acceptor::admit(const std::string& host) {
  size_t& count = perAddress_[host];
  if (count >= options_.connectionsPerAddressMax) return false;
  ++count;
  return true;
}

void Acceptor::release(const std::string& host) {
  --count_;
  if (host.empty()) return;
  auto found = perAddress_.find(host);
  if (--found->second == 0) perAddress_.erase(found);
}

}  // namespace mq::kafka
