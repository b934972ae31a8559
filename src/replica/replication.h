// What a follower and its leader say to each other, in plain values: replica/ decides, peer/ carries.
//
//   follower                                     leader
//   Follow {places that are new or moved}  --->  waits until there is news (bytes, another epoch), or atMost
//                                          <---  Followed {per partition: bytes, high watermark, or an error}
//   appends, syncs
//   Durable {how far}                      --->  the high watermark may move
//
// The leader keeps the places of one session, so that a request names only what has changed (as KIP-227 does for
// consumers). A session ends with its connection; the next one names everything anew. A place counts only after its
// leader epoch and last epoch were found right (KIP-101, KIP-279, KIP-903: the session is of one incarnation).
#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <kj/async.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "runtime/file.h"

namespace mq::replica {

// Where a follower reads a partition on. What it holds below `from` is in its page cache, below `durable` on its disk
// (durability=page-cache: the same).
struct FollowPlace {
  TopicIdPartition id;
  LeaderEpoch leaderEpoch = kNoLeaderEpoch;  // that it follows
  Offset from;                               // its log end
  LeaderEpoch lastEpoch = kNoLeaderEpoch;    // of its last batch; -1: it holds nothing
  Offset durable;
  Offset logStart;  // durable
};

struct FollowRequest {
  std::vector<FollowPlace> places;        // new, or moved since the last request of the session
  std::vector<TopicIdPartition> dropped;  // not followed here any more
  uint32_t bytesMax = 0;                  // of the answer; one batch may be more
  Duration atMost{0};                     // to wait for news
};

// Of a partition, how far it is durable at the follower, and from where. `durable` -1: nothing to say of it, but the
// leader answers the waiting follow() at once, since there are places to name.
struct DurableReport {
  TopicIdPartition id;
  LeaderEpoch leaderEpoch = kNoLeaderEpoch;
  Offset durable{-1};
  Offset logStart{0};
};

// News of one partition. `error`: notLeaderOrFollower, fencedLeaderEpoch, offsetOutOfRange (begin anew at logStart),
// kafkaStorageError. A partition or an epoch that the leader has not heard of yet waits in the session until it has.
// After bytes, an error or a divergence the leader says no more of the partition until its place is named again.
struct Followed {
  TopicIdPartition id;
  Error error = Error::none;
  LeaderEpoch leaderEpoch = kNoLeaderEpoch;
  Offset highWatermark{-1};
  Offset logStart{-1};
  struct {
    LeaderEpoch epoch = kNoLeaderEpoch;
    Offset end{-1};
  } diverging;   // end set: cut what lies at or above it, and of later epochs, then ask again
  FileRef file;  // the leader's side: whole batches [position, position + length) of it; null: none
  uint64_t position = 0;
  uint32_t length = 0;
  MutableBytes bytes;  // the follower's side: the same bytes, in the answer's buffer
};

struct FollowResponse {
  std::vector<Followed> partitions;
  std::shared_ptr<void> buffer;  // the follower's side: what `bytes` lie in
};

// The follower's way to one shard of its leader: implemented by peer/. Belongs to its shard. What is called arrives in
// the order of the calls.
class LeaderSession {
 public:
  virtual ~LeaderSession() = default;
  // One at a time. Rejected when the leader cannot be reached, or the session has ended: then all places are gone.
  virtual kj::Promise<FollowResponse> follow(FollowRequest request) = 0;
  // Overtakes a follow() that waits. Lost with the session.
  virtual void report(std::vector<DurableReport> reports) = 0;
};

// How a shard reaches the leaders of what it follows.
class LeaderSessions {
 public:
  virtual ~LeaderSessions() = default;
  // Shards of that node, by which its partitions are spread (shardOf). Rejected when it cannot be reached.
  virtual kj::Promise<uint32_t> shardsOf(NodeId node) = 0;
  virtual kj::Promise<kj::Own<LeaderSession>> open(NodeId node, uint32_t shard) = 0;
};

// A follower as its leader knows it: who it is in which life.
struct Follower {
  NodeId node = kNoNode;
  Uuid incarnation;
};

// The leader's side of a session: implemented by replica/ (Partitions::serveFollower), called by peer/ on the shard
// that the session is of, in the order in which the follower called. follow() rejects once the session is over (another
// one of the same node, another incarnation, silence, the end of the process); its promise must be gone before the
// session is.
class FollowerSession {
 public:
  virtual ~FollowerSession() = default;
  virtual kj::Promise<FollowResponse> follow(FollowRequest request) = 0;
  virtual void report(const std::vector<DurableReport>& reports) = 0;
};

}  // namespace mq::replica
