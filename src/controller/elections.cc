#include "controller/elections.h"

#include <algorithm>

#include "base/check.h"

namespace mq::controller {
namespace {

using metadata::Partition;

bool has(const std::vector<NodeId>& nodes, NodeId node) { return std::ranges::find(nodes, node) != nodes.end(); }

void insert(std::vector<NodeId>& nodes, NodeId node) {
  if (!has(nodes, node)) nodes.push_back(node);
}

// While the ISR is large enough the high watermark moves on, and who is not in it falls behind.
void trimEligible(Partition& partition, const PartitionRules& rules) {
  if (partition.isr.size() >= rules.minInSync) partition.eligibleLeaders.clear();
  std::erase_if(partition.eligibleLeaders, [&](NodeId node) { return has(partition.isr, node); });
}

}  // namespace

bool mayLead(const metadata::Image& image, NodeId node) {
  const metadata::Broker* broker = image.broker(node);
  return broker && broker->mayLead();
}

void Elections::setLeader(Partition& partition, NodeId leader) {
  if (leader == kNoNode && partition.leader != kNoNode) partition.lastKnownEligible = {partition.leader};
  if (leader != kNoNode) partition.lastKnownEligible.clear();
  partition.leader = leader;
  partition.leaderEpoch = partition.leaderEpoch + 1;
}

void Elections::leave(Partition& partition, NodeId broker, const PartitionRules& rules) {
  if (has(partition.isr, broker) && partition.isr.size() > 1) {
    std::erase(partition.isr, broker);
    if (partition.isr.size() < rules.minInSync) insert(partition.eligibleLeaders, broker);
  }
  if (partition.leader == broker) setLeader(partition, kNoNode);
}

void Elections::doubt(Partition& partition, NodeId broker, bool lostAll) {
  if (partition.replicas.size() == 1 && !lostAll) return;  // what it has is all there is
  std::erase(partition.isr, broker);
  std::erase(partition.eligibleLeaders, broker);
  if (partition.leader == broker) setLeader(partition, kNoNode);
}

bool Elections::elect(Partition& partition, const MayLead& mayLead, const PartitionRules& rules) {
  if (partition.leader != kNoNode && mayLead(partition.leader)) return true;
  for (NodeId node : partition.replicas) {
    if (!has(partition.isr, node) || !mayLead(node)) continue;
    setLeader(partition, node);
    return true;
  }
  for (NodeId node : partition.replicas) {
    if (!has(partition.eligibleLeaders, node) || !mayLead(node)) continue;
    for (NodeId member : partition.isr) insert(partition.eligibleLeaders, member);
    partition.isr = {node};
    trimEligible(partition, rules);
    setLeader(partition, node);
    return true;
  }
  if (rules.unclean) {
    for (NodeId node : partition.replicas) {
      if (!mayLead(node)) continue;
      partition.isr = {node};
      partition.eligibleLeaders.clear();
      setLeader(partition, node);
      return true;
    }
  }
  if (partition.leader != kNoNode) setLeader(partition, kNoNode);
  return false;
}

bool Elections::electThis(Partition& partition, NodeId leader) {
  if (partition.leader == leader || !has(partition.isr, leader)) return false;
  setLeader(partition, leader);
  return true;
}

void Elections::setInSync(Partition& partition, std::vector<NodeId> isr, const PartitionRules& rules) {
  std::vector<NodeId> before = std::exchange(partition.isr, std::move(isr));
  // In the order of the replicas: equal states look equal.
  std::vector<NodeId> ordered;
  for (NodeId node : partition.replicas)
    if (has(partition.isr, node)) ordered.push_back(node);
  partition.isr = std::move(ordered);
  if (partition.isr.size() < rules.minInSync) {
    for (NodeId node : before)
      if (!has(partition.isr, node)) insert(partition.eligibleLeaders, node);
  }
  trimEligible(partition, rules);
}

bool Elections::finishReassignment(Partition& partition, const MayLead& mayLead, const PartitionRules& rules) {
  if (partition.adding.empty() && partition.removing.empty()) return false;
  std::vector<NodeId> target;
  for (NodeId node : partition.replicas)
    if (!has(partition.removing, node)) target.push_back(node);
  for (NodeId node : target)
    if (!has(partition.isr, node)) return false;
  partition.replicas = target;
  partition.adding.clear();
  partition.removing.clear();
  partition.directories.clear();
  PartitionRules fewer = rules;
  fewer.minInSync = std::min(rules.minInSync, target.size());
  setInSync(partition, partition.isr, fewer);
  std::erase_if(partition.eligibleLeaders, [&](NodeId node) { return !has(target, node); });
  std::erase_if(partition.lastKnownEligible, [&](NodeId node) { return !has(target, node); });
  if (!has(target, partition.leader)) {
    setLeader(partition, kNoNode);
    elect(partition, mayLead, rules);
  }
  return true;
}

config::TopicSettings Elections::settingsOf(const metadata::Topic& topic) const {
  auto overrides = image_.topicConfigs(topic.name);
  return overrides->empty() ? settings_.topicDefaults
                            : config::resolveTopic(settings_.topicDefaults, *overrides, nullptr);
}

PartitionRules Elections::rulesOf(const metadata::Topic& topic, size_t replicas) const {
  return rulesOf(settingsOf(topic), replicas);
}

PartitionRules Elections::rulesOf(const config::TopicSettings& settings, size_t replicas) {
  PartitionRules rules;
  rules.minInSync = config::inSyncNeeded(settings, replicas);
  rules.unclean = settings.uncleanLeaderElection;
  rules.isSynced = settings.durability == config::Durability::fsync;
  return rules;
}

std::vector<metadata::Record> Elections::change(const Wanted& wanted, const Edit& edit) const {
  PartitionChanges changes;
  for (const auto& [name, topic] : image_.topics()) {
    std::optional<config::TopicSettings> settings;
    for (int32_t i = 0; i < topic->partitionCount(); ++i) {
      const Partition& now = *topic->partition(i);
      if (!wanted(now)) continue;
      Partition next = now;
      if (!settings) settings = settingsOf(*topic);
      edit(next, rulesOf(*settings, now.replicas.size()));
      changes.add(*topic, i, std::move(next));
    }
  }
  return std::move(changes).take();
}

void PartitionChanges::add(const metadata::Topic& topic, int32_t index, Partition next, bool always) {
  const Partition& now = *topic.partition(index);
  if (next == now && !always) return;
  next.partitionEpoch = now.partitionEpoch + 1;
  if (next.leaderEpoch > now.leaderEpoch) next.leaderEpoch = now.leaderEpoch + 1;  // whoever led in between
  if (topic.id != topic_ || index != next_) {
    records_.push_back(metadata::PartitionsRecord{topic.id, index, {}, {}});
    topic_ = topic.id;
  }
  next_ = index + 1;
  std::get<metadata::PartitionsRecord>(records_.back()).partitions.push_back(metadata::recordOf(next));
}

}  // namespace mq::controller
