// RaftLinks: the messages of one replica to all others of its quorum. Two links to each: what keeps a leader in office
// (votes, heartbeats, acknowledgements) never waits behind entries and snapshots.
#pragma once
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
  // To a node that is not known, or away: dropped, as raft expects.
  void send(const raft::Message& message);
  const Link* control(NodeId node) const;  // nullptr: not known
  const Link* bulk(NodeId node) const;

 private:
  struct Pair {
    Pair(Shard& shard, const Identity& self, NodeId node, const Address& address, LinkOptions options);
    Link control, bulk;
  };

  Shard& shard_;
  const Identity& self_;
  LinkOptions options_;
  std::map<NodeId, std::unique_ptr<Pair>> peers_;
};

}  // namespace mq::peer
