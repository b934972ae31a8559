// Discovery: how a node with an empty metadata log finds its quorum. A new cluster begins only when every listed node
// is reachable, empty, and lists the same nodes; if one of them knows a cluster, this node belongs to that one.
#pragma once
#include <vector>

#include "config/broker_settings.h"
#include "controller/peers.h"
#include "runtime/coro.h"
#include "runtime/shard.h"

namespace mq::controller {

struct FoundQuorum {
  bool isNew = false;        // this node writes its first entry, as each of the others does
  raft::Membership members;  // of a new one
};

// Waits until it is decided, and says every few seconds for whom. `peers` outlive the promise.
Co<FoundQuorum> findQuorum(Shard& shard, Peers& peers, raft::Replica self, std::vector<config::Voter> controllers);

}  // namespace mq::controller
