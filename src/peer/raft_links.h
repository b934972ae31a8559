// RaftLinks: the messages of one replica to all others of its quorum. Two links to each: what keeps a leader in office
// (votes, heartbeats, acknowledgements) never waits behind entries and snapshots. The controller is asked over the
// control link.
#pragma once
#include <functional>
#include <map>
#include <memory>

#include "peer/link.h"

namespace mq::peer {

class RaftLinks {
 public:
  // `self` outlives this.
  RaftLinks(Shard& shard, const Identity& self, LinkOptions options);

  // The others and where they are; what is not named any more is disconnected, what moved is reached anew.
  void setPeers(const std::map<NodeId, Address>& peers);
  // As Link::onChange of each control link, also of those to come.
  void onChange(std::function<void(NodeId)> call) { onChange_ = std::move(call); }
  // To a node that is not known, or away: dropped, as raft expects.
  void send(const raft::Message& message);
  Link* control(NodeId node);  // nullptr: not known. Gone with the next setPeers() that does not name it
  const Link* bulk(NodeId node) const;

 private:
  struct Pair {
    Pair(Shard& shard, const Identity& self, NodeId node, const Address& address, LinkOptions options);
    Link control, bulk;
  };

  Shard& shard_;
  const Identity& self_;
  LinkOptions options_;
  std::function<void(NodeId)> onChange_;
  std::map<NodeId, std::unique_ptr<Pair>> peers_;
};

}  // namespace mq::peer
