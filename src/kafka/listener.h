// Acceptor: the listening sockets, on shard 0. Spreads new connections over the shards in turn; refuses those over the
// limits, politely (closed at once, one rate-limited line, a metric) and without touching the ones that are there.
//
//   accept on shard 0 -> count -> adopt on shard n -> Server::serve -> (ends) -> count down on shard 0
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kafka/server.h"
#include "runtime/socket.h"
#include "runtime/tasks.h"

namespace mq::kafka {

// Has the addresses, so that a port in use is found before anything else is done; clients are refused until
// Acceptor::start(). A port of 0 becomes the real one. Throws kj::Exception that names the address and the reason.
std::vector<kj::Own<Listener>> reserveListeners(Shard& shard, std::vector<ListenerOptions>& listeners);

class Acceptor {
 public:
  struct Options {
    size_t connectionsMax = SIZE_MAX;  // of the node
    size_t connectionsPerAddressMax = SIZE_MAX;
  };

  // `sockets` are those of reserveListeners(). Nobody is served before start(). `listeners` outlive the acceptor and
  // the servers' connections.
  Acceptor(Shard& shard, Options options, std::vector<kj::Own<Listener>> sockets,
           const std::vector<ListenerOptions>& listeners, std::vector<Server*> servers);
  KJ_DISALLOW_COPY(Acceptor);

  void start();
  // Takes no more connections and gives the ports back.
  void stop();

  size_t connectionCount() const { return count_; }

 private:
  // One accepted connection; counts down on shard 0 when it goes, wherever that is.
  class Ticket;
  Co<void> accept(Listener& listener, const ListenerOptions& options);
  void handOver(int descriptor, const ListenerOptions& options);
  void greet(Server& server, int descriptor, const ListenerOptions& options);  // on the server's shard
  bool admit(const std::string& host);
  void release(const std::string& host);

  Shard& shard_;
  Options options_;
  std::vector<Server*> servers_;
  struct Bound {
    kj::Own<Listener> listener;
    const ListenerOptions* options;
  };
  std::vector<Bound> bound_;
  size_t count_ = 0;
  std::map<std::string, size_t> perAddress_;  // kept only when there is a limit
  uint32_t nextShard_ = 0;
  Tasks tasks_;
};

}  // namespace mq::kafka
