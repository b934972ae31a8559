// Server: answers the links of other nodes. A stranger gets a greeting's deadline and 4 KiB of memory, a sentence that
// says why it is refused, and the close; a node of the cluster gets RPC until it goes or falls silent.
//
// A node has one connection for each channel, but replication, which is ReplicationServer's: a new one ends the one
// before, which its caller has given up. But not one of another data directory: two nodes with one id are told apart
// here, and the later one is refused while the first one lives.
#pragma once
#include <functional>
#include <memory>

#include <vector>

#include "controller/requests.h"
#include "coordinator/remote.h"
#include "peer/replication_server.h"
#include "peer/server_options.h"
#include "raft/messages.h"
#include "runtime/shard.h"

namespace mq::peer {

// What other nodes may ask of this one. What is not set is refused as not known.
struct Handlers {
  std::function<void(raft::Message)> raft = {};  // from the replica that the connection is of, which is checked
  std::function<controller::NodeStatus()> status = {};
  // Of the replica that calls, which is checked. Answered by status().
  std::function<void(controller::JoinRequest)> join = {};
  // Registration, heartbeat and in-sync replicas are the caller's own, which is checked; anything else may be of a
  // client of the caller. Runs to its end, also when the caller has gone. A rejection is told as an open outcome.
  std::function<kj::Promise<Result<controller::Answered>>(NodeId caller, controller::Request request)> ask = {};
  // As ask(): run to their end, a rejection is an open outcome.
  std::function<kj::Promise<Result<void>>(coordinator::MarkerRequest)> writeMarker = {};
  std::function<kj::Promise<Result<void>>(coordinator::EntryRequest)> mayEnter = {};
  std::vector<ReplicationServer*> replication = {};  // by shard; they outlive the server. Empty: not served
};

class Server {
 public:
  struct Figures {
    uint64_t accepted = 0;
    uint64_t refused = 0;  // with a reason: of another cluster, not the one it looks for, ...
    uint64_t broken = 0;   // sent no greeting, or not in time
    uint64_t ended = 0;    // of those accepted
  };

  // `self` is read at each greeting and outlives the server.
  Server(Shard& shard, kj::Own<Listener> listener, const Identity& self, Handlers handlers, ServerOptions options);
  ~Server() noexcept(false);
  KJ_DISALLOW_COPY(Server);

  const Address& local() const;  // with the real port when 0 was asked
  size_t connectionCount() const;
  const Figures& figures() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace mq::peer
