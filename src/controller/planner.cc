#include "controller/planner.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "config/group_settings.h"
#include "controller/dynamic_config.h"
#include "controller/elections.h"
#include "controller/placement.h"

namespace mq::controller {

using metadata::ConfigRecord;
using metadata::ConfigResource;
using metadata::Image;
using metadata::PartitionsRecord;
using metadata::Record;
using metadata::ResourceType;
using metadata::TopicRecord;
using metadata::TopicRef;

namespace {

constexpr size_t kTopicNameMax = 249;  // a directory name has 255, less "-" and the partition
constexpr size_t kConfigValueMax = 32767;
constexpr size_t kPlanBytesMax = 8 << 20;  // a decision is one log entry, which has a limit

// The records of one decision. What one item brings goes in as a whole or not at all.
class Records {
 public:
  explicit Records(const Now& now) : space_(now.space) {}

  // `grows`: refused already while only the reserve of the log is left.
  Result<void> add(std::vector<Record> item, bool grows) {
    if (item.empty()) return {};
    if (space_ == Space::none || (space_ == Space::low && grows)) return noSpace();
    size_t bytes = metadata::encodeRecords(item).size();
    if (bytes_ + bytes > kPlanBytesMax)
      return failure(Error::policyViolation, "too much for one request (over {} bytes of metadata): split it",
                     kPlanBytesMax);
    bytes_ += bytes;
    std::move(item.begin(), item.end(), std::back_inserter(records_));
    return {};
  }
  std::vector<Record> take() && { return std::move(records_); }

 private:
  Space space_;
  size_t bytes_ = 0;
  std::vector<Record> records_;
};

PartitionsRecord partitionsRecord(const Image& image, const TopicId& topic, int32_t first,
                                  const std::vector<std::vector<NodeId>>& placed) {
  PartitionsRecord record;
  record.topicId = topic;
  record.first = first;
  for (auto& replicas : placed) {
    PartitionsRecord::Partition partition;
    for (NodeId id : replicas) partition.replicas.push_back(id.value());
    partition.isr = partition.replicas;
    auto leader = std::ranges::find_if(replicas, [&](NodeId id) { return mayLead(image, id); });
    partition.leader = leader == replicas.end() ? replicas.front().value() : leader->value();
    record.partitions.push_back(std::move(partition));
  }
  return record;
}

ConfigRecord configRecord(const ConfigResource& resource, std::string name, std::optional<std::string> value) {
  ConfigRecord record;
  record.resourceType = static_cast<int8_t>(resource.type);
  record.resourceName = resource.name;
  record.name = std::move(name);
  record.value = std::move(value);
  return record;
}

Result<void> checkValueSize(std::string_view name, std::string_view value) {
  if (value.size() <= kConfigValueMax) return {};
  return failure(Error::invalidConfig, "the value of {} has {} bytes, over {}", name, value.size(), kConfigValueMax);
}

// The replicas of one partition, chosen by hand.
Result<void> checkReplicas(const Placement& placement, const std::vector<NodeId>& replicas) {
  if (replicas.empty())
    return failure(Error::invalidReplicaAssignment, "The manual partition assignment includes an empty replica list.");
  std::set<NodeId> seen;
  for (NodeId id : replicas) {
    if (!seen.insert(id).second)
      return failure(Error::invalidReplicaAssignment,
                     "The manual partition assignment includes the broker {} more than once.", id);
    if (!placement.isUsable(id))
      return failure(
          Error::invalidReplicaAssignment,
          "The manual partition assignment includes broker {}, but no such broker is registered and not fenced.", id);
  }
  return {};
}

// The topics of one CreateTopics as they come to be: later ones see earlier ones.
class TopicMaker {
 public:
  TopicMaker(const Now& now, const config::BrokerSettings& settings)
      : now_(now), settings_(settings), placement_(now.image, settings.partitionsMax), records_(now) {}

  Result<CreatedTopic> make(const NewTopic& topic) {
    if (auto ok = checkName(topic.name); !ok) return ok.failure();
    CreatedTopic created;
    for (auto& entry : topic.configs) {
      if (!entry.value)
        return failure(Error::invalidConfig, "Null value not supported for topic configs: {}", entry.name);
      if (auto ok = checkValueSize(entry.name, *entry.value); !ok) return ok.failure();
      created.configs[entry.name] = *entry.value;
    }
    if (auto ok = config::checkTopic(settings_.topicDefaults, created.configs); !ok) return ok.failure();

    auto placed = place(topic);
    if (!placed) return placed.failure();
    created.id = newId(now_.random);
    created.partitions = static_cast<int32_t>(placed->size());
    created.replicationFactor = static_cast<int16_t>(placed->front().size());
    std::vector<Record> item;
    item.push_back(TopicRecord{created.id, topic.name, {}});
    item.push_back(partitionsRecord(now_.image, created.id, 0, *placed));
    for (auto& [name, value] : created.configs)
      item.push_back(configRecord({ResourceType::topic, topic.name}, name, value));
    if (auto ok = records_.add(std::move(item), true); !ok) return ok.failure();
    made_[metadata::metricName(topic.name)] = topic.name;
    return created;
  }
  std::vector<Record> take() && { return std::move(records_).take(); }

 private:
  Result<void> checkName(const std::string& name) const {
    if (auto ok = checkTopicName(name); !ok) return ok.failure();
    if (name == "__cluster_metadata")
      return failure(Error::invalidRequest, "Creation of internal topic {} is prohibited.", name);
    if (now_.image.topic(name)) return failure(Error::topicAlreadyExists, "Topic '{}' already exists.", name);
    std::string other;
    if (auto topic = now_.image.collidingTopic(name)) other = topic->name;
    if (auto made = made_.find(metadata::metricName(name)); made != made_.end()) other = made->second;
    if (other.empty()) return {};
    return failure(Error::invalidTopicException,
                   "Topic '{}' collides with existing topic: {} ('.' and '_' are one character in metric names).", name,
                   other);
  }

  Result<std::vector<std::vector<NodeId>>> place(const NewTopic& topic) {
    if (!topic.assignments.empty()) return placeByHand(topic);
    if (topic.partitions == 0 || topic.partitions < -1)
      return failure(Error::invalidPartitions, "Number of partitions was set to an invalid non-positive value.");
    if (topic.replicationFactor == 0 || topic.replicationFactor < -1)
      return failure(Error::invalidReplicationFactor,
                     "Replication factor must be larger than 0, or -1 to use the default value.");
    return placement_.place(
        topic.partitions == -1 ? settings_.partitionsDefault : topic.partitions,
        topic.replicationFactor == -1 ? settings_.replicationFactorDefault : topic.replicationFactor);
  }

  Result<std::vector<std::vector<NodeId>>> placeByHand(const NewTopic& topic) {
    if (topic.partitions != -1)
      return failure(Error::invalidRequest,
                     "A manual partition assignment was specified, but numPartitions was not set to -1.");
    if (topic.replicationFactor != -1)
      return failure(Error::invalidRequest,
                     "A manual partition assignment was specified, but replication factor was not set to -1.");
    std::vector<std::vector<NodeId>> placed(topic.assignments.size());
    for (auto& assignment : topic.assignments) {
      if (auto ok = checkReplicas(placement_, assignment.replicas); !ok) return ok.failure();
      if (assignment.replicas.size() != topic.assignments.front().replicas.size())
        return failure(Error::invalidReplicaAssignment,
                       "The manual partition assignment gives partitions different numbers of replicas.");
      if (assignment.partition < 0 || assignment.partition >= static_cast<int64_t>(placed.size()) ||
          !placed[static_cast<size_t>(assignment.partition)].empty())
        return failure(Error::invalidReplicaAssignment, "partitions should be a consecutive 0-based integer sequence");
      placed[static_cast<size_t>(assignment.partition)] = assignment.replicas;
    }
    if (auto ok = placement_.take(placed); !ok) return ok.failure();
    return placed;
  }

  const Now& now_;
  const config::BrokerSettings& settings_;
  Placement placement_;
  Records records_;
  std::map<std::string, std::string> made_;  // by metric name
};

// How often each key occurs: an item given twice is refused.
template <class Items, class KeyOf>
auto countOf(const Items& items, KeyOf keyOf) {
  std::map<decltype(keyOf(*items.begin())), int> counts;
  for (auto& item : items) ++counts[keyOf(item)];
  return counts;
}

}  // namespace

Failure noSpace() {
  return failure(Error::kafkaStorageError, "the disk of the metadata log is full: free some space, then try again");
}

Result<void> checkTopicName(std::string_view name) {
  auto invalid = [](std::string why) { return Failure(Error::invalidTopicException, "Topic name is invalid: " + why); };
  if (name.empty()) return invalid("the empty string is not allowed");
  if (name == "." || name == "..") return invalid(fmt::format("'{}' is not allowed", name));
  if (name.size() > kTopicNameMax)
    return invalid(fmt::format("it has {} characters, over {}", name.size(), kTopicNameMax));
  for (char c : name) {
    bool fine =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
    if (!fine)
      return invalid(
          fmt::format("'{}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'", name));
  }
  return {};
}

Uuid newId(Prng& random) {
  for (;;) {
    Uuid id = random.uuid();
    if (id.toString().front() != '-') return id;
  }
}

config::BrokerConfig Planner::effective(const Image& image) const {
  return configOf(options_.node, options_.config, image);
}

Plan<CreateTopicsResponse> Planner::createTopics(Now now, const CreateTopicsRequest& request) const {
  Plan<CreateTopicsResponse> plan;
  config::BrokerSettings settings = effective(now.image).settings();
  TopicMaker maker(now, settings);
  auto counts = countOf(request.topics, [](const NewTopic& t) { return std::string_view(t.name); });
  std::set<std::string_view> answered;
  for (auto& topic : request.topics) {
    if (!answered.insert(topic.name).second) continue;
    if (counts[topic.name] > 1)
      plan.response.topics.push_back({topic.name, failure(Error::invalidRequest, "Duplicate topic name.")});
    else
      plan.response.topics.push_back({topic.name, maker.make(topic)});
  }
  if (!request.validateOnly) plan.records = std::move(maker).take();
  return plan;
}

Plan<EnsureTopicsResponse> Planner::ensureTopics(Now now, const EnsureTopicsRequest& request) const {
  Plan<EnsureTopicsResponse> plan;
  config::BrokerSettings settings = effective(now.image).settings();
  TopicMaker maker(now, settings);
  std::set<std::string_view> answered;
  for (auto& name : request.names) {
    if (!answered.insert(name).second) continue;
    if (TopicRef topic = now.image.topic(name)) {
      plan.response.topics.push_back({name, topic->id});
      continue;
    }
    NewTopic topic;
    topic.name = name;
    auto created = maker.make(topic);
    plan.response.topics.push_back({name, created ? Result<TopicId>(created->id) : Result<TopicId>(created.failure())});
  }
  plan.records = std::move(maker).take();
  return plan;
}

Plan<DeleteTopicsResponse> Planner::deleteTopics(Now now, const DeleteTopicsRequest& request) const {
  Plan<DeleteTopicsResponse> plan;
  Records records(now);
  bool enabled = effective(now.image).settings().deleteTopics;
  auto names = countOf(request.topics, [](const TopicSelector& t) { return std::string_view(t.name); });
  auto ids = countOf(request.topics, [](const TopicSelector& t) { return t.id; });
  std::set<std::pair<std::string_view, TopicId>> answered;
  // By id, once each; a topic asked for by name and by id is asked for twice.
  std::map<TopicId, int> asked;
  auto find = [&](const TopicSelector& selector) {
    return selector.id.isZero() ? now.image.topic(selector.name) : now.image.topic(selector.id);
  };
  for (auto& selector : request.topics)
    if (TopicRef topic = find(selector)) ++asked[topic->id];

  for (auto& selector : request.topics) {
    if (!answered.insert({selector.name, selector.id}).second) continue;
    bool byId = !selector.id.isZero();
    DeleteTopicsResponse::Topic answer;
    if (!byId) answer.name = selector.name;
    answer.id = selector.id;
    TopicRef topic = find(selector);
    answer.result = [&]() -> Result<void> {
      if (byId && !selector.name.empty()) return failure(Error::invalidRequest, "Topic name and id were both given.");
      if (byId && ids[selector.id] > 1) return failure(Error::invalidRequest, "Duplicate topic id.");
      if (!byId && names[selector.name] > 1) return failure(Error::invalidRequest, "Duplicate topic name.");
      if (!topic && byId) return failure(Error::unknownTopicId, "This server does not host this topic ID.");
      if (!topic) return failure(Error::unknownTopicOrPartition, "This server does not host this topic-partition.");
      answer.name = topic->name;
      answer.id = topic->id;
      if (asked[topic->id] > 1) return failure(Error::invalidRequest, "The topic was given both by name and by id.");
      if (!enabled) return failure(Error::topicDeletionDisabled, "Topic deletion is disabled (delete.topic.enable).");
      return records.add({metadata::RemoveTopicRecord{topic->id, {}}}, false);
    }();
    plan.response.topics.push_back(std::move(answer));
  }
  plan.records = std::move(records).take();
  return plan;
}

Plan<CreatePartitionsResponse> Planner::createPartitions(Now now, const CreatePartitionsRequest& request) const {
  Plan<CreatePartitionsResponse> plan;
  Records records(now);
  Placement placement(now.image, effective(now.image).settings().partitionsMax);
  auto counts = countOf(request.topics, [](const NewPartitions& t) { return std::string_view(t.topic); });
  std::set<std::string_view> answered;
  for (auto& asked : request.topics) {
    if (!answered.insert(asked.topic).second) continue;
    auto result = [&]() -> Result<void> {
      if (counts[asked.topic] > 1) return failure(Error::invalidRequest, "Duplicate topic name.");
      TopicRef topic = now.image.topic(asked.topic);
      if (!topic) return failure(Error::unknownTopicOrPartition, "This server does not host this topic-partition.");
      int32_t present = topic->partitionCount();
      if (asked.count == present)
        return failure(Error::invalidPartitions, "Topic already has {} partition(s).", present);
      if (asked.count < present)
        return failure(Error::invalidPartitions,
                       "The topic {} currently has {} partition(s); {} would not be an increase.", asked.topic, present,
                       asked.count);
      int32_t added = asked.count - present;
      size_t replicationFactor = present > 0 ? topic->partitions.front()->replicas.size() : 1;
      std::vector<std::vector<NodeId>> placed;
      if (asked.assignments) {
        if (static_cast<int64_t>(asked.assignments->size()) != added)
          return failure(Error::invalidReplicaAssignment,
                         "Attempted to add {} additional partition(s), but only {} assignment(s) were specified.",
                         added, asked.assignments->size());
        for (auto& replicas : *asked.assignments) {
          if (auto ok = checkReplicas(placement, replicas); !ok) return ok.failure();
          if (replicas.size() != replicationFactor)
            return failure(Error::invalidReplicaAssignment,
                           "The manual partition assignment has {} replica(s), but the topic's partitions have {}.",
                           replicas.size(), replicationFactor);
        }
        placed = *asked.assignments;
        if (auto ok = placement.take(placed); !ok) return ok.failure();
      } else {
        auto chosen = placement.place(added, static_cast<int32_t>(replicationFactor));
        if (!chosen) return chosen.failure();
        placed = std::move(*chosen);
      }
      return records.add({partitionsRecord(now.image, topic->id, present, placed)}, true);
    }();
    plan.response.topics.push_back({asked.topic, std::move(result)});
  }
  if (!request.validateOnly) plan.records = std::move(records).take();
  return plan;
}

namespace {

// Whether there is such a thing to configure. A group need not exist yet.
Result<void> checkResource(const Image& image, const ConfigResource& resource) {
  switch (resource.type) {
    case ResourceType::topic:
      if (auto ok = checkTopicName(resource.name); !ok) return ok;
      if (image.topic(resource.name)) return {};
      return failure(Error::unknownTopicOrPartition, "The topic '{}' does not exist.", resource.name);
    case ResourceType::broker: {
      if (resource.name.empty()) return {};
      int32_t id = 0;
      auto end = resource.name.data() + resource.name.size();
      auto parsed = std::from_chars(resource.name.data(), end, id);
      if (parsed.ec != std::errc() || parsed.ptr != end || fmt::to_string(id) != resource.name)
        return failure(Error::invalidRequest, "Node id must be an integer, but it is: {}", resource.name);
      if (image.broker(NodeId(id))) return {};
      return failure(Error::invalidRequest, "No broker {} is registered.", id);
    }
    case ResourceType::group:
      if (!resource.name.empty()) return {};
      return failure(Error::invalidRequest, "Default group resources are not allowed.");
    default: break;
  }
  return failure(Error::invalidRequest, "Configs of resource type {} cannot be altered.",
                 static_cast<int>(resource.type));
}

Result<config::Overrides> alteredConfigs(const config::BrokerConfig& broker, const ConfigResource& resource,
                                         const config::Overrides& now, std::span<const config::Alteration> changes) {
  const config::BrokerSettings& settings = broker.settings();
  switch (resource.type) {
    case ResourceType::topic: return config::alterTopic(settings.topicDefaults, now, changes);
    case ResourceType::group: return config::alterGroup(config::GroupLimits::of(settings), now, changes);
    default: return config::alterBroker(broker, now, changes);
  }
}

Result<void> checkConfigs(const config::BrokerConfig& broker, const ConfigResource& resource,
                          const config::Overrides& next) {
  const config::BrokerSettings& settings = broker.settings();
  switch (resource.type) {
    case ResourceType::topic: return config::checkTopic(settings.topicDefaults, next);
    case ResourceType::group: return config::checkGroup(config::GroupLimits::of(settings), next);
    default: return config::checkBroker(next);
  }
}

}  // namespace

Plan<AlterConfigsResponse> Planner::alterConfigs(Now now, const AlterConfigsRequest& request) const {
  Plan<AlterConfigsResponse> plan;
  Records records(now);
  config::BrokerConfig config = effective(now.image);
  auto counts = countOf(request.resources, [](const AlterConfigsRequest::Resource& r) { return r.resource; });
  std::set<ConfigResource> answered;
  for (auto& asked : request.resources) {
    const ConfigResource& resource = asked.resource;
    if (!answered.insert(resource).second) continue;
    const metadata::Configs& present = *now.image.configs(resource);

    auto alter = [&]() -> Result<config::Overrides> {
      if (counts[resource] > 1) return failure(Error::invalidRequest, "Each resource must appear at most once.");
      if (auto ok = checkResource(now.image, resource); !ok) return ok.failure();
      for (auto& change : asked.changes)
        if (auto ok = checkValueSize(change.name, change.value.value_or("")); !ok) return ok.failure();
      if (!request.replaceAll) return alteredConfigs(config, resource, present, asked.changes);
      config::Overrides next;
      for (auto& change : asked.changes)
        if (change.value) next[change.name] = *change.value;
      if (auto ok = checkConfigs(config, resource, next); !ok) return ok.failure();
      return next;
    };
    auto store = [&](const config::Overrides& next) {
      std::vector<Record> item;
      for (auto& [name, value] : present)
        if (!next.contains(name)) item.push_back(configRecord(resource, name, std::nullopt));
      for (auto& [name, value] : next) {
        auto was = present.find(name);
        if (was == present.end() || was->second != value) item.push_back(configRecord(resource, name, value));
      }
      return records.add(std::move(item), false);
    };
    auto next = alter();
    plan.response.resources.push_back({resource, next ? store(*next) : Result<void>(next.failure())});
  }
  if (!request.validateOnly) plan.records = std::move(records).take();
  return plan;
}

namespace {

Result<void> checkFeature(const Image& image, const UpdateFeaturesRequest::Feature& wish) {
  using Kind = UpdateFeaturesRequest::Kind;
  if (wish.kind < Kind::upgrade || wish.kind > Kind::unsafeDowngrade)
    return failure(Error::invalidRequest, "The upgrade type of {} is invalid.", wish.name);
  if (wish.level < 0)
    return failure(Error::invalidUpdateVersion, "Invalid update version {} for feature {}: it cannot be below 0.",
                   wish.level, wish.name);
  auto known = std::ranges::find(metadata::kFeatures, wish.name, &metadata::Feature::name);
  if (known == std::end(metadata::kFeatures)) {
    return failure(Error::invalidUpdateVersion,
                   "Invalid update version {} for feature {}: the controller does not support the feature.", wish.level,
                   wish.name);
  }
  if (wish.level > known->levelMax) {
    return failure(Error::invalidUpdateVersion,
                   "Invalid update version {} for feature {}: the controller supports versions 0-{}.", wish.level,
                   wish.name, known->levelMax);
  }
  auto at = image.features().find(wish.name);
  int16_t now = at == image.features().end() ? int16_t{0} : at->second;
  if (wish.level < now && wish.kind == Kind::upgrade) {
    return failure(Error::invalidUpdateVersion,
                   "Invalid update version {} for feature {}: it is at {}, and going back has to be asked for as a "
                   "downgrade.",
                   wish.level, wish.name, now);
  }
  if (wish.level > now && wish.kind != Kind::upgrade) {
    return failure(Error::invalidUpdateVersion,
                   "Invalid update version {} for feature {}: it is at {}, and a downgrade was asked for.", wish.level,
                   wish.name, now);
  }
  return {};
}

}  // namespace

Plan<Result<void>> Planner::updateFeatures(Now now, const UpdateFeaturesRequest& request) const {
  Plan<Result<void>> plan;
  auto counts = countOf(request.features, [](const UpdateFeaturesRequest::Feature& f) { return f.name; });
  for (const auto& wish : request.features) {
    auto ok = counts[wish.name] > 1 ? failure(Error::invalidRequest, "Feature {} is named more than once.", wish.name)
                                    : checkFeature(now.image, wish);
    if (!ok) return {ok.failure(), {}};
    auto at = now.image.features().find(wish.name);
    if (wish.level == (at == now.image.features().end() ? 0 : at->second)) continue;
    plan.records.push_back(metadata::FeatureRecord{wish.name, wish.level, {}});
  }
  if (!plan.records.empty() && now.space == Space::none) return {noSpace(), {}};
  if (request.validateOnly) plan.records.clear();
  return plan;
}

Plan<Result<ProducerIdBlock>> Planner::allocateProducerIds(Now now) const {
  int64_t first = now.image.nextProducerId();
  if (now.space == Space::none) return {noSpace(), {}};
  if (first > std::numeric_limits<int64_t>::max() - options_.producerIdBlock)
    return {failure(Error::unknownServerError, "all producer ids are used up"), {}};
  Plan<Result<ProducerIdBlock>> plan;
  plan.response = ProducerIdBlock{first, options_.producerIdBlock};
  plan.records.push_back(metadata::ProducerIdsRecord{first + options_.producerIdBlock, {}});
  return plan;
}

std::vector<Record> Planner::bootstrap(const Uuid& clusterId, const Image& image) const {
  std::vector<Record> records;
  metadata::ClusterRecord cluster;
  cluster.clusterId = clusterId;
  for (auto& voter : image.voters()) cluster.voters.push_back({voter.id.value(), voter.directory, {}});
  for (auto& observer : image.observers()) cluster.observers.push_back({observer.id.value(), observer.directory, {}});
  records.push_back(std::move(cluster));
  for (const auto& feature : metadata::kFeatures)
    records.push_back(metadata::FeatureRecord{std::string(feature.name), feature.levelMax, {}});
  return records;
}

}  // namespace mq::controller
