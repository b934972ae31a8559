#include "metadata/image.h"

#include <algorithm>
#include <set>

#include "metadata/record.h"

namespace mq::metadata {
namespace {

constexpr size_t kPartitionsPerRecord = 1000;  // in snapshots

std::vector<NodeId> toNodes(const std::vector<int32_t>& numbers) { return {numbers.begin(), numbers.end()}; }

std::vector<int32_t> toNumbers(const std::vector<NodeId>& nodes) {
  std::vector<int32_t> numbers;
  for (NodeId node : nodes) numbers.push_back(node.value());
  return numbers;
}

PartitionRef toPartition(const PartitionsRecord::Partition& from) {
  auto partition = std::make_shared<Partition>();
  partition->replicas = toNodes(from.replicas);
  partition->isr = toNodes(from.isr);
  partition->leader = NodeId(from.leader);
  partition->leaderEpoch = LeaderEpoch(from.leaderEpoch);
  partition->partitionEpoch = from.partitionEpoch;
  partition->eligibleLeaders = toNodes(from.eligibleLeaders);
  partition->lastKnownEligible = toNodes(from.lastKnownEligible);
  partition->adding = toNodes(from.adding);
  partition->removing = toNodes(from.removing);
  partition->directories = from.directories;
  return partition;
}

BrokerRef toBroker(const BrokerRecord& from) {
  auto broker = std::make_shared<Broker>();
  broker->id = NodeId(from.nodeId);
  broker->incarnation = from.incarnation;
  broker->epoch = from.epoch;
  for (auto& l : from.listeners) broker->listeners.push_back({l.name, l.host, l.port, l.securityProtocol});
  broker->rack = from.rack;
  broker->fenced = from.fenced;
  broker->directories = from.directories;
  broker->peer = {from.peerHost, from.peerPort};
  broker->stopping = from.stopping;
  broker->drained = from.drained;
  return broker;
}

// Indexes whose state differs, those past `before`'s end included.
std::vector<int32_t> changedPartitions(const Topic& before, const Topic& after) {
  std::vector<int32_t> changed;
  for (int32_t i = 0; i < after.partitionCount(); ++i) {
    auto* old = before.partition(i);
    if (old != after.partition(i) && !(old && *old == *after.partition(i))) changed.push_back(i);
  }
  return changed;
}

bool sameBroker(const Image& a, const Image& b, NodeId id) {
  auto *before = a.broker(id), *after = b.broker(id);
  return before == after || (before && after && *before == *after);
}

}  // namespace

const Listener* Broker::listener(std::string_view name) const {
  for (auto& l : listeners)
    if (l.name == name) return &l;
  return nullptr;
}

TopicRef Image::topic(std::string_view name) const {
  auto found = topics_.find(name);
  return found ? *found : nullptr;
}

TopicRef Image::topic(const TopicId& id) const {
  auto found = topicsById_.find(id);
  return found ? *found : nullptr;
}

TopicRef Image::collidingTopic(std::string_view name) const {
  auto id = topicsByMetricName_.find(metricName(name));
  TopicRef found = id ? topic(*id) : nullptr;
  return found && found->name != name ? found : nullptr;
}

const Partition* Image::partition(const TopicIdPartition& id) const {
  auto found = topicsById_.find(id.topic);
  return found ? (*found)->partition(id.partition) : nullptr;
}

int64_t Image::replicaCount(NodeId node) const {
  auto found = replicaCounts_.find(node);
  return found == replicaCounts_.end() ? 0 : found->second;
}

ConfigsRef Image::configs(const ConfigResource& resource) const {
  auto found = configs_.find(resource);
  return found ? *found : none_;
}

ConfigsRef Image::topicConfigs(std::string_view topic) const {
  return configs({ResourceType::topic, std::string(topic)});
}

const Broker* Image::broker(NodeId id) const {
  auto found = brokers_.find(id);
  return found == brokers_.end() ? nullptr : found->second.get();
}

bool Image::wasDeleted(const TopicId& id) const {
  return std::find(deletedTopics_->begin(), deletedTopics_->end(), id) != deletedTopics_->end();
}

std::string metricName(std::string_view topic) {
  std::string name(topic);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

ImageRef emptyImage() { return std::make_shared<const Image>(); }

// One image in the making. What a record touches is copied once and then changed in place until the end; meanwhile
// nobody else sees it, and `before_` keeps alive whatever is still shared (SortedMap counts on that).
class Applier {
 public:
  Applier(ImageRef before, int64_t offset, int64_t epoch)
      : before_(std::move(before)), now_(std::make_shared<Image>(*before_)) {
    now_->offset_ = offset;
    now_->epoch_ = epoch;
  }

  void operator()(const ClusterRecord& record) {
    now_->clusterId_ = record.clusterId;
    now_->voters_.clear();
    for (auto& voter : record.voters) now_->voters_.push_back({NodeId(voter.nodeId), voter.directoryId});
    now_->observers_.clear();
    for (auto& observer : record.observers) now_->observers_.push_back({NodeId(observer.nodeId), observer.directoryId});
  }

  void operator()(const TopicRecord& record) {
    if (now_->topics_.find(record.name) || now_->topicsById_.find(record.topicId)) return;
    auto topic = std::make_shared<Topic>();
    topic->id = record.topicId;
    topic->name = record.name;
    if (std::string name = metricName(record.name); name.find('_') != name.npos)
      now_->topicsByMetricName_.set(std::move(name), record.topicId);
    put(std::move(topic));
  }

  void operator()(const PartitionsRecord& record) {
    Topic* topic = edit(record.topicId);
    if (!topic || record.first < 0 || record.first > topic->partitionCount()) return;
    for (size_t i = 0; i < record.partitions.size(); ++i) {
      size_t index = static_cast<size_t>(record.first) + i;
      PartitionRef next = toPartition(record.partitions[i]);
      count(*next, 1);
      if (index == topic->partitions.size()) {
        topic->partitions.push_back(std::move(next));
        ++now_->partitionCount_;
      } else {
        count(*topic->partitions[index], -1);
        topic->partitions[index] = std::move(next);
      }
    }
  }

  void operator()(const RemoveTopicRecord& record) {
    remember(record.topicId);
    auto found = now_->topicsById_.find(record.topicId);
    if (!found) return;
    TopicRef topic = *found;
    for (auto& partition : topic->partitions) count(*partition, -1);
    now_->partitionCount_ -= topic->partitionCount();
    now_->topics_.erase(topic->name);
    now_->topicsById_.erase(topic->id);
    std::string name = metricName(topic->name);
    if (auto holder = now_->topicsByMetricName_.find(name); holder && *holder == topic->id)
      now_->topicsByMetricName_.erase(name);
    topicsTouched_.insert(topic->id);
    topicsMade_.erase(topic->id);
    ConfigResource resource{ResourceType::topic, topic->name};
    if (now_->configs_.erase(resource)) {
      configsTouched_.insert(resource);
      configsMade_.erase(resource);
    }
  }

  void operator()(const ConfigRecord& record) {
    ConfigResource resource{static_cast<ResourceType>(record.resourceType), record.resourceName};
    auto& configs = configsMade_[resource];
    if (!configs) {
      configs = std::make_shared<Configs>(*now_->configs(resource));
      configsTouched_.insert(resource);
    }
    if (record.value)
      (*configs)[record.name] = *record.value;
    else
      configs->erase(record.name);
    if (!configs->empty()) {
      now_->configs_.set(resource, configs);
    } else {
      now_->configs_.erase(resource);
      configsMade_.erase(resource);
    }
  }

  void operator()(const BrokerRecord& record) {
    now_->brokers_[NodeId(record.nodeId)] = toBroker(record);
    brokersTouched_.insert(NodeId(record.nodeId));
  }

  void operator()(const RemoveBrokerRecord& record) {
    if (now_->brokers_.erase(NodeId(record.nodeId)) > 0) brokersTouched_.insert(NodeId(record.nodeId));
  }

  void operator()(const ProducerIdsRecord& record) { now_->nextProducerId_ = record.nextProducerId; }

  void operator()(const FeatureRecord& record) {
    if (record.level == 0)
      now_->features_.erase(record.name);
    else
      now_->features_[record.name] = record.level;
  }

  Applied finish() && {
    auto delta = std::make_shared<Delta>();
    for (auto& id : topicsTouched_) {
      TopicRef was = before_->topic(id), is = now_->topic(id);
      if (!was && is) delta->created.push_back(is);
      if (was && !is) delta->deleted.push_back(was);
      if (!was || !is) continue;
      if (auto partitions = changedPartitions(*was, *is); !partitions.empty())
        delta->changed.push_back({was, is, std::move(partitions)});
    }
    auto byName = [](const TopicRef& a, const TopicRef& b) { return a->name < b->name; };
    std::sort(delta->created.begin(), delta->created.end(), byName);
    std::sort(delta->deleted.begin(), delta->deleted.end(), byName);
    std::sort(delta->changed.begin(), delta->changed.end(),
              [](auto& a, auto& b) { return a.after->name < b.after->name; });
    for (auto& resource : configsTouched_)
      if (*before_->configs(resource) != *now_->configs(resource)) delta->configs.push_back(resource);
    for (auto id : brokersTouched_)
      if (!sameBroker(*before_, *now_, id)) delta->brokers.push_back(id);
    delta->features = before_->features_ != now_->features_;
    return {std::move(now_), std::move(delta)};
  }

 private:
  // The topic, as a copy of our own from the first change on; null: not there.
  Topic* edit(const TopicId& id) {
    if (auto made = topicsMade_.find(id); made != topicsMade_.end()) return made->second;
    auto found = now_->topicsById_.find(id);
    return found ? put(std::make_shared<Topic>(**found)) : nullptr;
  }
  Topic* put(std::shared_ptr<Topic> topic) {
    Topic* editable = topic.get();
    topicsTouched_.insert(topic->id);
    topicsMade_[topic->id] = editable;
    now_->topicsById_.set(topic->id, topic);
    now_->topics_.set(topic->name, topic);
    return editable;
  }
  void remember(const TopicId& deleted) {
    if (now_->wasDeleted(deleted)) return;
    if (!deletedMade_) {
      deletedMade_ = std::make_shared<std::vector<TopicId>>(now_->deletedTopics());
      now_->deletedTopics_ = deletedMade_;
    }
    if (deletedMade_->size() == Image::kDeletedTopicsMax) deletedMade_->erase(deletedMade_->begin());
    deletedMade_->push_back(deleted);
  }
  void count(const Partition& partition, int64_t by) {
    for (NodeId node : partition.replicas)
      if ((now_->replicaCounts_[node] += by) == 0) now_->replicaCounts_.erase(node);
  }

  ImageRef before_;
  std::shared_ptr<Image> now_;
  std::set<TopicId> topicsTouched_;
  std::map<TopicId, Topic*> topicsMade_;  // owned by now_
  std::set<ConfigResource> configsTouched_;
  std::map<ConfigResource, std::shared_ptr<Configs>> configsMade_;
  std::set<NodeId> brokersTouched_;
  std::shared_ptr<std::vector<TopicId>> deletedMade_;
};

Applied apply(const ImageRef& image, std::span<const Record> records, int64_t offset, int64_t epoch) {
  Applier applier(image, offset, epoch);
  for (auto& record : records) std::visit(applier, static_cast<const AnyRecord&>(record));
  return std::move(applier).finish();
}

Delta difference(const Image& before, const Image& after) {
  Delta delta;
  auto was = before.topics().begin(), wasEnd = before.topics().end();
  auto is = after.topics().begin(), isEnd = after.topics().end();
  while (was != wasEnd || is != isEnd) {
    if (is == isEnd || (was != wasEnd && was->first < is->first)) {
      delta.deleted.push_back((was++)->second);
    } else if (was == wasEnd || is->first < was->first) {
      delta.created.push_back((is++)->second);
    } else {
      const TopicRef &a = (was++)->second, &b = (is++)->second;
      if (a == b) continue;
      if (a->id != b->id) {
        delta.deleted.push_back(a);
        delta.created.push_back(b);
      } else if (auto partitions = changedPartitions(*a, *b); !partitions.empty()) {
        delta.changed.push_back({a, b, std::move(partitions)});
      }
    }
  }
  std::set<ConfigResource> resources;
  for (auto* image : {&before, &after})
    for (auto& [resource, configs] : image->allConfigs()) resources.insert(resource);
  for (auto& resource : resources)
    if (*before.configs(resource) != *after.configs(resource)) delta.configs.push_back(resource);
  std::set<NodeId> brokers;
  for (auto* image : {&before, &after})
    for (auto& [id, broker] : image->brokers()) brokers.insert(id);
  for (auto id : brokers)
    if (!sameBroker(before, after, id)) delta.brokers.push_back(id);
  delta.features = before.features() != after.features();
  return delta;
}

PartitionsRecord::Partition recordOf(const Partition& from) {
  PartitionsRecord::Partition record;
  record.replicas = toNumbers(from.replicas);
  record.isr = toNumbers(from.isr);
  record.leader = from.leader.value();
  record.leaderEpoch = from.leaderEpoch.value();
  record.partitionEpoch = from.partitionEpoch;
  record.eligibleLeaders = toNumbers(from.eligibleLeaders);
  record.lastKnownEligible = toNumbers(from.lastKnownEligible);
  record.adding = toNumbers(from.adding);
  record.removing = toNumbers(from.removing);
  record.directories = from.directories;
  return record;
}

Record recordOf(const Broker& broker) {
  BrokerRecord record;
  record.nodeId = broker.id.value();
  record.incarnation = broker.incarnation;
  record.epoch = broker.epoch;
  for (auto& l : broker.listeners) record.listeners.push_back({l.name, l.host, l.port, l.securityProtocol, {}});
  record.rack = broker.rack;
  record.fenced = broker.fenced;
  record.directories = broker.directories;
  record.peerHost = broker.peer.host;
  record.peerPort = broker.peer.port;
  record.stopping = broker.stopping;
  record.drained = broker.drained;
  return record;
}

std::vector<Record> recordsOf(const Image& image) {
  std::vector<Record> records;
  if (!image.clusterId().isZero() || !image.voters().empty()) {
    ClusterRecord cluster;
    cluster.clusterId = image.clusterId();
    for (auto& voter : image.voters()) cluster.voters.push_back({voter.id.value(), voter.directory, {}});
    for (auto& observer : image.observers()) cluster.observers.push_back({observer.id.value(), observer.directory, {}});
    records.push_back(std::move(cluster));
  }
  for (auto& [name, level] : image.features()) records.push_back(FeatureRecord{name, level, {}});
  if (image.nextProducerId() != 0) records.push_back(ProducerIdsRecord{image.nextProducerId(), {}});
  for (auto& [id, broker] : image.brokers()) records.push_back(recordOf(*broker));
  for (auto& id : image.deletedTopics()) records.push_back(RemoveTopicRecord{id, {}});
  for (auto& [name, topic] : image.topics()) {
    records.push_back(TopicRecord{topic->id, name, {}});
    for (size_t first = 0; first < topic->partitions.size(); first += kPartitionsPerRecord) {
      PartitionsRecord partitions;
      partitions.topicId = topic->id;
      partitions.first = static_cast<int32_t>(first);
      for (size_t i = first; i < std::min(first + kPartitionsPerRecord, topic->partitions.size()); ++i)
        partitions.partitions.push_back(recordOf(*topic->partitions[i]));
      records.push_back(std::move(partitions));
    }
  }
  for (auto& [resource, configs] : image.allConfigs())
    for (auto& [name, value] : *configs)
      records.push_back(ConfigRecord{static_cast<int8_t>(resource.type), resource.name, name, value, {}});
  return records;
}

}  // namespace mq::metadata
