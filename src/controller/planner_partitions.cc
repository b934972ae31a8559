// Decisions about single partitions: proposals of their leaders, elections that somebody asks for, reassignments.
#include <algorithm>
#include <map>
#include <set>

#include "controller/elections.h"
#include "controller/placement.h"
#include "controller/planner.h"

namespace mq::controller {

using metadata::Broker;
using metadata::Image;
using metadata::Partition;
using metadata::TopicRef;

namespace {

bool has(const std::vector<NodeId>& nodes, NodeId node) { return std::ranges::find(nodes, node) != nodes.end(); }

// In the order of topics and partitions, whatever the order of a request: what is decided of each.
using Decided = std::map<std::pair<std::string, int32_t>, Partition>;

std::vector<metadata::Record> recordsOf(const Image& image, Decided decided, bool always = false) {
  PartitionChanges changes;
  for (auto& [name, next] : decided) changes.add(*image.topic(name.first), name.second, std::move(next), always);
  return std::move(changes).take();
}

Result<void> checkProposal(const Image& image, NodeId leader, const Partition& now,
                           const AlterPartitionsRequest::Partition& asked) {
  if (now.leader != leader || asked.leaderEpoch < now.leaderEpoch)
    return failure(Error::fencedLeaderEpoch, "node {} leads in epoch {}", now.leader, now.leaderEpoch);
  if (asked.leaderEpoch > now.leaderEpoch || asked.partitionEpoch > now.partitionEpoch)
    return failure(Error::notController, "this controller knows leader epoch {}, partition epoch {}", now.leaderEpoch,
                   now.partitionEpoch);
  if (asked.partitionEpoch < now.partitionEpoch)
    return failure(Error::invalidUpdateVersion, "the partition epoch is {}", now.partitionEpoch);
  std::set<NodeId> seen;
  for (const InSyncReplica& member : asked.isr) {
    if (!has(now.replicas, member.node) || !seen.insert(member.node).second)
      return failure(Error::invalidRequest, "node {} is no replica, or named twice", member.node);
    if (member.node == leader) continue;
    const Broker* broker = image.broker(member.node);
    if (!broker || !broker->mayHold() || broker->epoch != member.brokerEpoch)
      return failure(Error::ineligibleReplica, "node {} is fenced, stopping, or registered anew", member.node);
  }
  if (!seen.contains(leader)) return failure(Error::invalidRequest, "the leader is missing in its own ISR");
  return {};
}

}  // namespace

Plan<AlterPartitionsResponse> Planner::alterPartitions(Now now, const AlterPartitionsRequest& request) const {
  Plan<AlterPartitionsResponse> plan;
  config::BrokerSettings settings = effective(now.image).settings();
  Elections elections(now.image, settings);
  const Broker* broker = now.image.broker(request.broker);
  Decided decided;
  for (const AlterPartitionsRequest::Partition& asked : request.partitions) {
    auto decide = [&]() -> Result<void> {
      if (!broker || broker->epoch != request.brokerEpoch || broker->fenced)
        return failure(Error::staleBrokerEpoch, "broker {} is not registered with epoch {}, or fenced", request.broker,
                       request.brokerEpoch);
      TopicRef topic = now.image.topic(asked.id.topic);
      const Partition* present = topic ? topic->partition(asked.id.partition) : nullptr;
      if (!present) return failure(Error::unknownTopicId, "there is no such partition");
      std::pair key(topic->name, asked.id.partition);
      if (decided.contains(key)) return failure(Error::invalidRequest, "named twice");
      if (auto ok = checkProposal(now.image, request.broker, *present, asked); !ok) return ok;
      if (now.space == Space::none) return noSpace();
      Partition next = *present;
      PartitionRules rules = elections.rulesOf(*topic, next.replicas.size());
      std::vector<NodeId> isr;
      for (const InSyncReplica& member : asked.isr) isr.push_back(member.node);
      Elections::setInSync(next, std::move(isr), rules);
      Elections::finishReassignment(next, [&](NodeId node) { return mayLead(now.image, node); }, rules);
      decided.emplace(std::move(key), std::move(next));
      return {};
    };
    plan.response.partitions.push_back({asked.id, decide()});
  }
  // Also where nothing changes: with the new partition epoch the leader knows that no earlier proposal can be taken.
  plan.records = recordsOf(now.image, std::move(decided), true);
  return plan;
}

Plan<ElectLeadersResponse> Planner::electLeaders(Now now, const ElectLeadersRequest& request) const {
  Plan<ElectLeadersResponse> plan;
  config::BrokerSettings settings = effective(now.image).settings();
  Elections elections(now.image, settings);
  Decided decided;
  auto elect = [&](const metadata::Topic& topic, int32_t index) -> Result<void> {
    const Partition& present = *topic.partition(index);
    Partition next = present;
    PartitionRules rules = elections.rulesOf(topic, next.replicas.size());
    if (request.unclean) {
      if (present.leader != kNoNode)
        return failure(Error::electionNotNeeded, "Leader election not needed for topic partition.");
      rules.unclean = true;
      if (!Elections::elect(next, [&](NodeId node) { return mayLead(now.image, node); }, rules))
        return failure(Error::eligibleLeadersNotAvailable, "None of the replicas {} is alive.",
                       fmt::join(present.replicas, ", "));
    } else {
      NodeId preferred = present.replicas.front();
      if (present.leader == preferred)
        return failure(Error::electionNotNeeded, "Leader election not needed for topic partition.");
      if (!mayLead(now.image, preferred) || !Elections::electThis(next, preferred))
        return failure(Error::preferredLeaderNotAvailable,
                       "The preferred leader {} is not alive, drained, or not in sync.", preferred);
    }
    if (now.space == Space::none) return noSpace();
    decided[{topic.name, index}] = std::move(next);
    return {};
  };
  if (request.all) {
    for (const auto& [name, topic] : now.image.topics()) {
      for (int32_t i = 0; i < topic->partitionCount(); ++i) {
        Result<void> result = elect(*topic, i);
        if (result.errorCode() != Error::electionNotNeeded)
          plan.response.partitions.push_back({{topic->name, i}, std::move(result)});
      }
    }
  }
  for (const TopicPartition& asked : request.partitions) {
    TopicRef topic = now.image.topic(asked.topic);
    if (!topic || !topic->partition(asked.partition)) {
      plan.response.partitions.push_back(
          {asked, failure(Error::unknownTopicOrPartition, "There is no such partition.")});
    } else {
      plan.response.partitions.push_back({asked, elect(*topic, asked.partition)});
    }
  }
  plan.records = recordsOf(now.image, std::move(decided));
  return plan;
}

Plan<AlterReassignmentsResponse> Planner::alterReassignments(Now now, const AlterReassignmentsRequest& request) const {
  Plan<AlterReassignmentsResponse> plan;
  config::BrokerSettings settings = effective(now.image).settings();
  Elections elections(now.image, settings);
  Placement placement(now.image, settings.partitionsMax);
  auto alive = [&](NodeId node) { return mayLead(now.image, node); };
  Decided decided;

  auto cancel = [&](Partition& next, const PartitionRules& rules) -> Result<void> {
    if (next.adding.empty() && next.removing.empty())
      return failure(Error::noReassignmentInProgress, "No partition reassignment is in progress.");
    // What was added goes again, so what is left must be able to lead.
    std::vector<NodeId> back, isr;
    for (NodeId node : next.replicas)
      if (!has(next.adding, node)) back.push_back(node);
    for (NodeId node : next.isr)
      if (has(back, node)) isr.push_back(node);
    if (isr.empty() && next.eligibleLeaders.empty())
      return failure(Error::invalidReplicaAssignment,
                     "Of the replicas before the reassignment none is in sync: it cannot be cancelled now.");
    next.replicas = back;
    next.adding.clear();
    next.removing.clear();
    next.directories.clear();
    std::erase_if(next.eligibleLeaders, [&](NodeId node) { return !has(back, node); });
    Elections::setInSync(next, isr, rules);
    if (next.leader != kNoNode && !has(back, next.leader)) Elections::setLeader(next, kNoNode);
    Elections::elect(next, alive, rules);
    return {};
  };
  auto reassign = [&](Partition& next, const std::vector<NodeId>& target, const PartitionRules& rules) -> Result<void> {
    std::vector<NodeId> present;  // without one that is under way
    for (NodeId node : next.replicas)
      if (!has(next.adding, node)) present.push_back(node);
    if (target.empty()) return failure(Error::invalidReplicaAssignment, "The replica list is empty.");
    std::set<NodeId> seen;
    for (NodeId node : target) {
      if (!seen.insert(node).second)
        return failure(Error::invalidReplicaAssignment, "Broker {} is named more than once.", node);
      if (!has(next.replicas, node) && !placement.isUsable(node))
        return failure(Error::invalidReplicaAssignment, "Broker {} is not registered, or fenced.", node);
    }
    if (!request.mayChangeFactor && target.size() != present.size())
      return failure(Error::invalidReplicationFactor,
                     "The replication factor is changed from {} to {}, which was not allowed.", present.size(),
                     target.size());
    std::vector<NodeId> added;
    for (NodeId node : target)
      if (!has(next.replicas, node)) added.push_back(node);
    if (auto ok = placement.take({added}); !ok) return ok;
    std::vector<NodeId> all = target, adding, removing;
    for (NodeId node : target)
      if (!has(present, node)) adding.push_back(node);
    for (NodeId node : present) {
      if (has(target, node)) continue;
      removing.push_back(node);
      all.push_back(node);
    }
    // What an earlier reassignment had added and this one does not want goes at once.
    std::vector<NodeId> isr;
    for (NodeId node : next.isr)
      if (has(all, node)) isr.push_back(node);
    if (isr.empty()) return failure(Error::invalidReplicaAssignment, "None of the replicas that stay is in sync.");
    next.replicas = all;
    next.adding = adding;
    next.removing = removing;
    next.directories.clear();
    std::erase_if(next.eligibleLeaders, [&](NodeId node) { return !has(all, node); });
    Elections::setInSync(next, isr, rules);
    if (next.leader != kNoNode && !has(all, next.leader)) Elections::setLeader(next, kNoNode);
    Elections::elect(next, alive, rules);
    if (adding.empty() && removing.empty()) return {};  // another order only
    Elections::finishReassignment(next, alive, rules);
    return {};
  };

  for (const AlterReassignmentsRequest::Partition& asked : request.partitions) {
    auto decide = [&]() -> Result<void> {
      TopicRef topic = now.image.topic(asked.partition.topic);
      const Partition* present = topic ? topic->partition(asked.partition.partition) : nullptr;
      if (!present) return failure(Error::unknownTopicOrPartition, "There is no such partition.");
      std::pair key(topic->name, asked.partition.partition);
      if (decided.contains(key)) return failure(Error::invalidRequest, "The partition is named twice.");
      if (now.space != Space::plenty && asked.replicas) return noSpace();
      Partition next = *present;
      PartitionRules rules = elections.rulesOf(*topic, next.replicas.size());
      if (auto ok = asked.replicas ? reassign(next, *asked.replicas, rules) : cancel(next, rules); !ok) return ok;
      decided.emplace(std::move(key), std::move(next));
      return {};
    };
    plan.response.partitions.push_back({asked.partition, decide()});
  }
  plan.records = recordsOf(now.image, std::move(decided));
  return plan;
}

}  // namespace mq::controller
