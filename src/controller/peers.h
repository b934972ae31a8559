// Peers: how the controller of this node reaches the other nodes. On shard 0; made by broker/ out of peer/.
#pragma once
#include <map>
#include <optional>

#include <kj/async.h>

#include "controller/requests.h"
#include "raft/messages.h"

namespace mq::controller {

class Peers {
 public:
  virtual ~Peers() noexcept(false) {}
  // All other nodes, and where they are.
  virtual void setPeers(const std::map<NodeId, Address>& peers) = 0;
  virtual void send(const raft::Message& message) = 0;  // dropped when it cannot go now
  // Rejected when the node cannot be reached, or does not answer in time.
  virtual kj::Promise<NodeStatus> status(NodeId node, Duration limit) = 0;
  virtual kj::Promise<NodeStatus> join(NodeId node, JoinRequest request, Duration limit) = 0;
  // notController: it does not lead, or was not reached, so nothing was done; requestTimedOut: it may have been done.
  virtual kj::Promise<Result<Answered>> ask(NodeId node, const Request& request, Duration limit) = 0;
  // Whose metadata log answers there now; nullopt: it is away.
  virtual std::optional<Uuid> directoryOf(NodeId node) const = 0;
  // Its process has ended: the connection closed, and its host refused another one at that time; nullopt: not so.
  virtual std::optional<Instant> refusedAt(NodeId node) const = 0;
};

}  // namespace mq::controller
