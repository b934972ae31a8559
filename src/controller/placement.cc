#include "controller/placement.h"

#include <algorithm>

namespace mq::controller {

Placement::Placement(const metadata::Image& image, int64_t replicasMax) : replicasMax_(replicasMax) {
  for (auto& [id, broker] : image.brokers())
    if (broker->mayHold()) loads_[id] = image.replicaCount(id);
}

Failure Placement::overBudget(int64_t asked, NodeId broker, int64_t has) const {
  return failure(Error::policyViolation,
                 "{} more replicas do not fit on broker {}, which holds {} of at most {}: delete topics, add brokers "
                 "or raise max.partitions",
                 asked, broker, has, replicasMax_);
}

Result<std::vector<std::vector<NodeId>>> Placement::place(int32_t count, int32_t replicationFactor) {
  int64_t brokers = static_cast<int64_t>(loads_.size());
  if (replicationFactor > brokers)
    return failure(Error::invalidReplicationFactor,
                   "Unable to replicate the partition {} time(s): only {} broker(s) are registered and not fenced",
                   replicationFactor, brokers);
  std::vector<NodeId> row;
  for (auto& [id, load] : loads_) row.push_back(id);
  std::sort(row.begin(), row.end(),
            [&](NodeId a, NodeId b) { return std::pair(loads_[a], a) < std::pair(loads_[b], b); });
  // Even in the best distribution somebody gets this many: said before a list of billions is made.
  int64_t most = (int64_t{count} * replicationFactor + brokers - 1) / brokers;
  if (loads_[row[0]] + most > replicasMax_) return overBudget(most, row[0], loads_[row[0]]);

  std::vector<std::vector<NodeId>> placed(static_cast<size_t>(count));
  std::map<NodeId, int64_t> added;
  for (int64_t p = 0; p < count; ++p) {
    auto& replicas = placed[static_cast<size_t>(p)];
    int64_t gap = brokers > 1 ? p / brokers % (brokers - 1) : 0;
    for (int64_t r = 0; r < replicationFactor; ++r) {
      int64_t behind = r == 0 ? 0 : 1 + (gap + r - 1) % (brokers - 1);
      replicas.push_back(row[static_cast<size_t>((p + behind) % brokers)]);
      ++added[replicas.back()];
    }
  }
  for (auto& [id, more] : added)
    if (loads_[id] + more > replicasMax_) return overBudget(more, id, loads_[id]);
  for (auto& [id, more] : added) loads_[id] += more;
  return placed;
}

Result<void> Placement::take(const std::vector<std::vector<NodeId>>& replicas) {
  std::map<NodeId, int64_t> added;
  for (auto& list : replicas)
    for (NodeId id : list) ++added[id];
  for (auto& [id, more] : added)
    if (loads_[id] + more > replicasMax_) return overBudget(more, id, loads_[id]);
  for (auto& [id, more] : added) loads_[id] += more;
  return {};
}

}  // namespace mq::controller
