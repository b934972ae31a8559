// Placement: which brokers hold the replicas of new partitions. Pure.
//
// Brokers stand in a row, the least loaded first (then by id). Partition p begins one place further than p - 1, and its
// followers stand behind its leader with a gap that grows each time the row has been gone through, so that the
// partitions of a dead leader spread over all others. Fenced brokers get nothing.
#pragma once
#include <map>
#include <vector>

#include "base/error.h"
#include "metadata/image.h"

namespace mq::controller {

class Placement {
 public:
  // A replica may not be put on a broker that has `replicasMax` already.
  Placement(const metadata::Image& image, int64_t replicasMax);

  // Replicas of `count` new partitions, and takes them into account from now on. Refusals change nothing:
  // invalidReplicationFactor (not enough brokers), policyViolation (the budget).
  Result<std::vector<std::vector<NodeId>>> place(int32_t count, int32_t replicationFactor);
  // The same for replicas chosen by hand, which are all usable: checks the budget only.
  Result<void> take(const std::vector<std::vector<NodeId>>& replicas);

  bool isUsable(NodeId broker) const { return loads_.contains(broker); }

 private:
  Failure overBudget(int64_t asked, NodeId broker, int64_t has) const;
  int64_t replicasMax_;
  std::map<NodeId, int64_t> loads_;  // of the usable brokers
};

}  // namespace mq::controller
