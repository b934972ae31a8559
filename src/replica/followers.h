// Followers: what the leader of a partition knows of the other replicas in its present leader epoch, and what follows
// from it: how far everybody who counts is durable, and who should be in sync. Pure; one per Partition.
//
// A follower counts from its first place that was found to lie in our log. Until then it is durable nowhere. What an
// earlier session of it says is not heard any more (KIP-903).
//
// The in-sync replicas (ISR) are what the metadata says. A proposal that was sent may come to be at any time, so until
// its outcome is known the high watermark waits for the union of both (KIP-497):
//
//              propose()                answered(refused): as if nothing was sent
//   (none) ───────────────▶ in flight ─ answered(unknown): the union stays ─▶ another try ─▶ ...
//                                       answered(taken):   likewise, and the metadata will say so soon
//
//   A partition epoch above that of the proposal ends all of it: nothing of an earlier one can be taken any more.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "base/types.h"
#include "base/uuid.h"

namespace mq::replica {

// One session of a follower, in one life of its process.
struct FollowerId {
  NodeId node = kNoNode;
  Uuid incarnation;
  uint64_t session = 0;  // a later session has a larger number
};

class Followers {
 public:
  explicit Followers(NodeId self) : self_(self) {}

  // A new leader epoch, in which nothing is known of anybody. Members of the ISR have their time to be heard of.
  void begin(const std::vector<NodeId>& replicas, const std::vector<NodeId>& isr, int32_t partitionEpoch, Offset end,
             Instant now);
  // The metadata has changed within the leader epoch.
  void commit(const std::vector<NodeId>& replicas, const std::vector<NodeId>& isr, int32_t partitionEpoch, Instant now);

  // What followers say; `position` has been validated. False: not heard, since it is no replica or the session is old.
  bool placed(const FollowerId& who, Offset position, OffsetRange durable, Instant now);
  bool reported(const FollowerId& who, OffsetRange durable, Instant now);
  void gone(const FollowerId& who, Instant now);  // its session has ended
  void grown(Offset end, Instant now);            // the log has

  const std::vector<NodeId>& inSync() const { return isr_; }
  int32_t partitionEpoch() const { return partitionEpoch_; }
  bool isReplica(NodeId node) const { return node == self_ || others_.contains(node); }
  bool isAlone() const { return others_.empty(); }
  // The least durable end over all that count, `own` being ours; -1 while one of them has not been heard of.
  Offset durableEnd(Offset own) const;
  // Whether all of them would begin there, or later, if they led.
  bool beginAt(Offset start) const;

  // The ISR as it should be, in the order of the present one: without those that lag, with those that hold all of
  // `log`, begin where it does and mayEnter(node, incarnation) admits.
  template <class Admit>
  std::vector<NodeId> wanted(Instant now, Duration lagMax, OffsetRange log, Admit mayEnter) const {
    std::vector<NodeId> list;
    for (NodeId node : isr_) {
      auto other = others_.find(node);
      if (node == self_ || (other != others_.end() && !lags(other->second, now, lagMax))) list.push_back(node);
    }
    for (NodeId node : replicas_) {
      auto other = others_.find(node);
      if (other != others_.end() && enters(node, other->second, log) && mayEnter(node, other->second.incarnation))
        list.push_back(node);
    }
    return list;
  }
  bool someoneMayEnter(OffsetRange log) const;
  // Somebody in the ISR is behind: time may put it out.
  bool someoneLags() const;

  // --- proposals
  bool mayPropose() const { return !inFlight_; }
  bool isUndecided() const { return inFlight_ || !maybe_.empty(); }
  void propose(const std::vector<NodeId>& isr);
  enum class Outcome { taken, refused, unknown };
  // To the proposal that was made at that partition epoch.
  void answered(int32_t partitionEpoch, Outcome outcome);

  struct Row {  // for tests and tools
    NodeId node;
    Offset position;
    Offset durable;
    bool isInSync;
  };
  std::vector<Row> rows() const;

 private:
  struct Other {
    uint64_t session = 0;
    bool isLive = false;  // the session has not ended
    Uuid incarnation;
    Offset position{-1};
    Offset durable{-1};
    Offset start{-1};
    Instant caughtUp;  // the last moment of which it holds all that was here then
    // Of this moment it will, once it is durable up to here.
    Offset nextEnd{0};
    Instant nextAt;
  };
  bool isCurrent(const Other& other) const { return other.isLive && other.durable >= end_; }
  bool lags(const Other& other, Instant now, Duration lagMax) const {
    return !isCurrent(other) && now - other.caughtUp > lagMax;
  }
  bool isInSync(NodeId node) const;
  bool enters(NodeId node, const Other& other, OffsetRange log) const {
    return other.isLive && other.durable >= log.end && other.start >= log.first && !isInSync(node);
  }
  template <class Look>
  void forThoseThatCount(Look look) const;  // look(const Other&), of the ISR and what is proposed
  void noteProgress(Other& other, Instant now);
  void setReplicas(const std::vector<NodeId>& replicas, Instant now);

  const NodeId self_;
  std::vector<NodeId> replicas_;
  std::vector<NodeId> isr_;
  int32_t partitionEpoch_ = -1;
  std::map<NodeId, Other> others_;  // of all replicas but ourselves
  Offset end_{0};

  std::vector<NodeId> proposed_;  // while in flight
  bool inFlight_ = false;
  std::set<NodeId> maybe_;  // of proposals whose outcome nobody told, and of the one that was taken
};

}  // namespace mq::replica
