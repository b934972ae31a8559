// Decisions about brokers, and about who leads when they come and go.
#include <algorithm>
#include <map>
#include <set>

#include "controller/elections.h"
#include "controller/planner.h"

namespace mq::controller {

using metadata::Broker;
using metadata::Image;
using metadata::Partition;
using metadata::Record;

namespace {

constexpr size_t kBalancedAtOnce = 1000;  // partitions; each is without a leader for a moment

bool has(const std::vector<NodeId>& nodes, NodeId node) { return std::ranges::find(nodes, node) != nodes.end(); }

void append(std::vector<Record>& records, std::vector<Record> more) {
  std::ranges::move(more, std::back_inserter(records));
}

Result<void> check(const Image& image, const BrokerRegistration& registration) {
  if (!registration.clusterId.isZero() && registration.clusterId != image.clusterId())
    return failure(Error::inconsistentClusterId, "broker {} belongs to cluster {}, and this is cluster {}",
                   registration.id, registration.clusterId, image.clusterId());
  if (registration.id.value() < 0 || registration.incarnation.isZero() || registration.listeners.empty())
    return failure(Error::invalidRegistration, "broker {}: a registration needs an id, an incarnation and a listener",
                   registration.id);
  std::set<std::string_view> names;
  for (const metadata::Listener& listener : registration.listeners) {
    if (!names.insert(listener.name).second)
      return failure(Error::invalidRegistration, "broker {}: two listeners have one name", registration.id);
  }
  return {};
}

// What a new life of a broker means for one of its partitions.
class Comeback {
 public:
  Comeback(const Image& image, const Broker& broker, const Broker* before, bool mayLack)
      : image_(image),
        id_(broker.id),
        isMoved_(before && !before->directories.empty() && before->directories != broker.directories),
        isAlive_(!broker.fenced),
        mayLack_(mayLack) {}

  bool concerns(const Partition& partition) const { return has(partition.replicas, id_); }

  void operator()(Partition& partition, const PartitionRules& rules) const {
    bool lacks = isMoved_ || (mayLack_ && !rules.isSynced);
    if (lacks) Elections::doubt(partition, id_, isMoved_);
    if (partition.leader == id_) {
      // Its high watermark begins anew, so somebody who kept his goes on; and readers that saw what is lost now learn
      // from the end of the old epoch where it was cut (KIP-320).
      if (partition.isr.size() > 1)
        Elections::leave(partition, id_, rules);
      else if (partition.replicas.size() > 1 || mayLack_ || isMoved_)
        Elections::setLeader(partition, id_);
    }
    const bool goesOn = partition.leader == id_;  // nobody else can
    Elections::elect(
        partition, [&](NodeId node) { return node == id_ ? isAlive_ || goesOn : mayLead(image_, node); }, rules);
  }

 private:
  const Image& image_;
  NodeId id_;
  bool isMoved_;  // its data lies elsewhere, or was wiped
  bool isAlive_;
  bool mayLack_;
};

}  // namespace

Plan<Result<RegisteredBroker>> Planner::registerBroker(Now now, const BrokerRegistration& registration) const {
  if (auto ok = check(now.image, registration); !ok) return {ok.failure(), {}};
  const Broker* present = now.image.broker(registration.id);
  Broker next;
  next.id = registration.id;
  next.incarnation = registration.incarnation;
  next.epoch = now.index;
  next.listeners = registration.listeners;
  next.rack = registration.rack;
  next.directories = registration.directories;
  next.peer = registration.peer;
  next.fenced = !registration.isAlone;
  if (present) next.drained = present->drained;
  // Asked again by one that has not seen our answer.
  if (present && present->incarnation == registration.incarnation) {
    next.epoch = present->epoch;
    next.fenced = present->fenced;
    next.stopping = present->stopping;
    if (*present == next) return {RegisteredBroker{next.epoch}, {}};
  }
  if (now.space == Space::none) return {noSpace(), {}};
  Plan<Result<RegisteredBroker>> plan;
  plan.response = RegisteredBroker{next.epoch};
  plan.records.push_back(metadata::recordOf(next));
  config::BrokerSettings settings = effective(now.image).settings();
  Elections elections(now.image, settings);
  Comeback comeback(now.image, next, present, registration.mayLack);
  append(plan.records,
         elections.change([&](const Partition& partition) { return comeback.concerns(partition); }, comeback));
  return plan;
}

Plan<std::monostate> Planner::fence(Now now, const std::vector<NodeId>& brokers) const {
  Plan<std::monostate> plan;
  std::set<NodeId> gone;
  for (NodeId id : brokers) {
    const Broker* broker = now.image.broker(id);
    if (!broker || broker->fenced) continue;
    gone.insert(id);
    Broker next = *broker;
    next.fenced = true;
    plan.records.push_back(metadata::recordOf(next));
  }
  if (gone.empty() || now.space == Space::none) return {};
  config::BrokerSettings settings = effective(now.image).settings();
  Elections elections(now.image, settings);
  auto alive = [&](NodeId node) { return !gone.contains(node) && mayLead(now.image, node); };
  append(plan.records, elections.change(
                           [&](const Partition& partition) {
                             return gone.contains(partition.leader) ||
                                    std::ranges::any_of(partition.isr,
                                                        [&](NodeId node) { return gone.contains(node); });
                           },
                           [&](Partition& partition, const PartitionRules& rules) {
                             for (NodeId node : gone) Elections::leave(partition, node, rules);
                             Elections::elect(partition, alive, rules);
                           }));
  return plan;
}

Plan<Result<BrokerState>> Planner::heartbeat(Now now, const BrokerHeartbeat& beat) const {
  const Broker* broker = now.image.broker(beat.id);
  if (!broker || broker->epoch != beat.epoch)
    return {failure(Error::staleBrokerEpoch, "broker {} is not registered with epoch {}", beat.id, beat.epoch), {}};
  bool comesBack = broker->fenced && !beat.wantsStop && beat.offset >= beat.epoch;
  bool beginsStop = beat.wantsStop && !broker->stopping;
  Plan<Result<BrokerState>> plan;
  if ((comesBack || beginsStop) && now.space != Space::none) {
    config::BrokerSettings settings = effective(now.image).settings();
    Elections elections(now.image, settings);
    Broker next = *broker;
    next.fenced = !comesBack && broker->fenced;
    next.stopping = beat.wantsStop;
    plan.records.push_back(metadata::recordOf(next));
    auto alive = [&](NodeId node) { return node == beat.id ? next.mayLead() : mayLead(now.image, node); };
    append(plan.records, elections.change([&](const Partition& partition) { return has(partition.replicas, beat.id); },
                                          [&](Partition& partition, const PartitionRules& rules) {
                                            // Where nobody else can lead it goes on until its very end.
                                            if (beginsStop) {
                                              Partition without = partition;
                                              Elections::leave(without, beat.id, rules);
                                              if (Elections::elect(without, alive, rules))
                                                partition = std::move(without);
                                            } else {
                                              Elections::elect(partition, alive, rules);
                                            }
                                          }));
    plan.response = BrokerState{.isFenced = next.fenced, .mayStop = beat.wantsStop};
    return plan;
  }
  plan.response = BrokerState{.isFenced = broker->fenced, .mayStop = beat.wantsStop && broker->stopping};
  return plan;
}

Plan<Result<void>> Planner::unregisterBroker(Now now, const UnregisterBrokerRequest& request) const {
  const Broker* broker = now.image.broker(request.id);
  if (!broker)
    return {failure(Error::brokerIdNotRegistered, "Broker ID {} is not currently registered.", request.id), {}};
  if (!broker->fenced)
    return {failure(Error::invalidRequest, "broker {} is alive: stop it first, or it would register again", request.id),
            {}};
  if (int64_t count = now.image.replicaCount(request.id); count > 0) {
    return {failure(Error::invalidRequest, "broker {} is to hold {} replicas: move them first (mq reassign)",
                    request.id, count),
            {}};
  }
  if (now.space == Space::none) return {noSpace(), {}};
  return {{}, {metadata::RemoveBrokerRecord{request.id.value(), {}}}};
}

Plan<Result<void>> Planner::drainBroker(Now now, const DrainBrokerRequest& request) const {
  const Broker* broker = now.image.broker(request.id);
  if (!broker)
    return {failure(Error::brokerIdNotRegistered, "Broker ID {} is not currently registered.", request.id), {}};
  if (broker->drained == request.drained) return {{}, {}};
  if (now.space == Space::none) return {noSpace(), {}};
  Plan<Result<void>> plan;
  Broker next = *broker;
  next.drained = request.drained;
  plan.records.push_back(metadata::recordOf(next));
  config::BrokerSettings settings = effective(now.image).settings();
  Elections elections(now.image, settings);
  auto alive = [&](NodeId node) { return node == request.id ? next.mayLead() : mayLead(now.image, node); };
  append(plan.records, elections.change(
                           [&](const Partition& partition) {
                             return partition.leader == request.id ||
                                    (partition.leader == kNoNode && has(partition.replicas, request.id));
                           },
                           [&](Partition& partition, const PartitionRules& rules) {
                             // In sync it stays: it only leads no more, where another can.
                             Partition moved = partition;
                             if (Elections::elect(moved, alive, rules)) partition = std::move(moved);
                           }));
  return plan;
}

Plan<std::monostate> Planner::balance(Now now) const {
  if (now.space != Space::plenty) return {};
  config::BrokerSettings settings = effective(now.image).settings();
  Elections elections(now.image, settings);
  size_t moved = 0;
  Plan<std::monostate> plan;
  plan.records = elections.change(
      [&](const Partition& partition) {
        NodeId preferred = partition.replicas.front();
        if (partition.leader == preferred || partition.leader == kNoNode || !partition.adding.empty() ||
            !has(partition.isr, preferred) || !mayLead(now.image, preferred))
          return false;
        return ++moved <= kBalancedAtOnce;
      },
      [](Partition& partition, const PartitionRules&) { Elections::electThis(partition, partition.replicas.front()); });
  return plan;
}

}  // namespace mq::controller
