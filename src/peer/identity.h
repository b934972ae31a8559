// Who a node is to the other nodes, and whether two of them may talk.
#pragma once
#include <optional>
#include <string>

#include "base/types.h"

namespace mq::peer {

struct Identity {
  std::optional<Uuid> cluster;  // nullopt: not of a cluster yet
  NodeId node{kNoNode};
  Uuid directory;    // of its data: another one under the same node id is another replica
  Uuid incarnation;  // drawn at each start
  std::string version;
};

// What a connection carries. Apart, so that what keeps a leader in office never queues behind data.
enum class Channel : uint8_t {
  control = 0,      // small things that others wait for: votes, heartbeats, questions
  bulk = 1,         // entries and snapshots of raft
  replication = 2,  // records, between a shard of a follower and a shard of its leader
  inquiry = 3,      // of a node that looks for its cluster: does not get into the way of its control connection
};

inline constexpr int32_t kNoShard = -1;

struct Greeting {  // what a caller says first; in an answer only identity and shards mean something
  Identity identity;
  NodeId wanted{kNoNode};
  Channel channel = Channel::control;
  int32_t shard = 0;  // replication: of the answering node; beyond its count it wraps. kNoShard: the answer is all
                      // that is wanted
  int32_t callerShard = 0;  // replication: the caller's own
  uint32_t shards = 1;      // of the node that speaks
};

// Why `self` takes no connection that begins like this, as a sentence for the caller's log; nullopt: it does.
std::optional<std::string> refusalOf(const Identity& self, const Greeting& greeting);
// Why `self` does not stay with whom it has reached when it looked for `wanted`.
std::optional<std::string> mismatch(const Identity& self, NodeId wanted, const Identity& reached);

}  // namespace mq::peer
