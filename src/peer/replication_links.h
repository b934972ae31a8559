// ReplicationLinks: how one shard reaches the leaders of what it follows. A session is a connection: it does not come
// back by itself, since its leader has forgotten with it what it knew of this follower.
//
// Belongs to its shard, and outlives the promises that it has given.
#pragma once
#include <map>

#include "peer/identity.h"
#include "replica/replication.h"
#include "runtime/shard.h"

namespace mq::peer {

struct ReplicationOptions {
  Duration openTimeout = 3s;         // for connecting and greeting
  Duration answerTimeout = 10s;      // beyond what a follow() was to wait: then its leader counts as gone
  Duration pingInterval = 5s;        // shorter than the other side's patience with who says nothing
  size_t messageBytesMax = 160_MiB;  // of an answer: bytesMax of a request, and one batch of the largest size
};

class ReplicationLinks final : public replica::LeaderSessions {
 public:
  ReplicationLinks(Shard& shard, Identity self, ReplicationOptions options);

  // Who this node is to those it calls from now on.
  void setIdentity(Identity self) { self_ = std::move(self); }
  // Where the other nodes are. Sessions that are open stay.
  void setPeers(std::map<NodeId, Address> peers);

  // Known from the last session with that node, else asked.
  kj::Promise<uint32_t> shardsOf(NodeId node) override;
  // Also rejected when the node has another number of shards than shardsOf() told, as after a restart: ask that again,
  // partitions have moved between them. Dropping the promise of a follow() ends its session.
  kj::Promise<kj::Own<replica::LeaderSession>> open(NodeId node, uint32_t shard) override;

 private:
  class Session;
  struct Opened {
    kj::Own<Stream> stream;
    uint32_t shards = 0;
  };
  Co<Opened> connect(NodeId node, int32_t shard);
  Co<uint32_t> askShards(NodeId node);
  Co<kj::Own<replica::LeaderSession>> openSession(NodeId node, uint32_t shard);

  Shard& shard_;
  Identity self_;
  ReplicationOptions options_;
  std::map<NodeId, Address> peers_;
  std::map<NodeId, uint32_t> shards_;  // of those that told
};

}  // namespace mq::peer
