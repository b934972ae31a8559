#include "kafka/listener.h"

namespace mq::kafka {

class Acceptor::Ticket {
 public:
  Ticket(Shard& here, Acceptor& acceptor, std::string host)
      : here_(here), acceptor_(acceptor), host_(std::move(host)) {}
  ~Ticket() {
    here_.post(acceptor_.shard_.index(), [&acceptor = acceptor_, host = std::move(host_)] { acceptor.release(host); });
  }

 private:
  Shard& here_;
  Acceptor& acceptor_;
  std::string host_;
};

Acceptor::Acceptor(Shard& shard, Options options, std::vector<ListenerOptions>& listeners, std::vector<Server*> servers)
    : shard_(shard), options_(options), servers_(std::move(servers)), tasks_(shard.log(), "accept-failed") {
  for (ListenerOptions& listener : listeners) {
    auto socket = shard_.network().listen(listener.listen);
    listener.listen.port = socket->local().port;
    bound_.push_back({kj::mv(socket), &listener});
  }
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
    auto refused = shard_.network().adopt(descriptor);
    servers_[shard_.index()]->metrics().connectionsRefused.add();
    shard_.log().warning("connection-refused", "{}: {} connections are open, as many as max.connections allows",
                         refused->peer().toString(), count_);
    return;
  }
  ++count_;
  Server& server = *servers_[target];
  auto adopt = [this, &server, &options, descriptor] {
    Shard& here = server.shard();
    auto stream = here.network().adopt(descriptor);
    std::string host = plainHost(stream->peer().host);
    if (options_.connectionsPerAddressMax == SIZE_MAX) {
      server.serve(kj::mv(stream), options, kj::heap<Ticket>(here, *this, ""));
      return;
    }
    server.tasks().add(here.call(shard_.index(), [this, host] { return admit(host); })
                           .then([this, &server, &options, host, stream = kj::mv(stream)](bool admitted) mutable {
                             Shard& here = server.shard();
                             auto ticket = kj::heap<Ticket>(here, *this, admitted ? host : "");
                             if (admitted) {
                               server.serve(kj::mv(stream), options, kj::mv(ticket));
                               return;
                             }
                             server.metrics().connectionsRefused.add();
                             here.log().warning(
                                 "connection-refused",
                                 "{}: {} connections from there are open, as many as max.connections.per.ip allows",
                                 stream->peer().toString(), options_.connectionsPerAddressMax);
                           }));
  };
  if (target == shard_.index()) {
    adopt();
  } else {
    shard_.post(target, std::move(adopt));
  }
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
