#include "peer/controller_messages.h"

#include <kj/debug.h>

#include <cstring>
#include <utility>

#include "peer/raft_messages.h"

namespace mq::peer {
namespace {

using namespace controller;

constexpr unsigned kItemsMax = 1 << 20;  // of one list

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

// --- words

kj::ArrayPtr<const kj::byte> asData(const Uuid& id) { return kj::arrayPtr(id.bytes.data(), id.bytes.size()); }
Uuid asUuid(capnp::Data::Reader data) {
  KJ_REQUIRE(data.size() == 16, "an id that has not 16 bytes", data.size());
  Uuid id;
  std::memcpy(id.bytes.data(), data.begin(), 16);
  return id;
}

kj::StringPtr asText(const std::string& text) { return {text.c_str(), text.size()}; }
std::string asString(capnp::Text::Reader text) { return std::string(text.begin(), text.size()); }

template <class T>
unsigned countOf(const T& items) {
  KJ_REQUIRE(items.size() <= kItemsMax, "more items than a message may have", items.size());
  return static_cast<unsigned>(items.size());
}
template <class List, class Items, class Each>
void fill(List list, const Items& items, Each each) {
  unsigned at = 0;
  for (const auto& item : items) each(list[at++], item);
}
template <class List, class Each>
auto listOf(List list, Each each) {
  KJ_REQUIRE(list.size() <= kItemsMax, "a list of too many items", list.size());
  std::vector<decltype(each(list[0]))> items;
  items.reserve(list.size());
  for (auto item : list) items.push_back(each(item));
  return items;
}

int32_t atLeast(int32_t least, int32_t value) {
  KJ_REQUIRE(value >= least, "a number below its range", value);
  return value;
}
int64_t atLeast(int64_t least, int64_t value) {
  KJ_REQUIRE(value >= least, "a number below its range", value);
  return value;
}

template <class List>
void writeNodes(List into, const std::vector<NodeId>& nodes) {
  for (unsigned i = 0; i < into.size(); ++i) into.set(i, nodes[i].value());
}
std::vector<NodeId> readNodes(capnp::List<int32_t>::Reader nodes) {
  return listOf(nodes, [](int32_t node) { return NodeId(node); });
}

void write(schema::Status::Builder into, const Failure& failure) {
  into.setError(static_cast<int16_t>(failure.error));
  if (!failure.message.empty()) into.setMessage(asText(failure.message));
}
void write(schema::Status::Builder into, const Result<void>& result) {
  if (!result) write(into, result.failure());
}
Failure readFailure(schema::Status::Reader status) {
  KJ_REQUIRE(status.getError() != 0, "a failure without an error");
  // One that a newer node has: its message still says what is wrong.
  Error error = isKnownError(status.getError()) ? static_cast<Error>(status.getError()) : Error::unknownServerError;
  return {error, asString(status.getMessage())};
}
Result<void> readResult(schema::Status::Reader status) {
  if (status.getError() == 0) return {};
  return readFailure(status);
}

void write(schema::Address::Builder into, const Address& address) {
  into.setHost(asText(address.host));
  into.setPort(address.port);
}
Address read(schema::Address::Reader address) {
  return {.host = asString(address.getHost()), .port = address.getPort()};
}

void write(schema::TopicPartition::Builder into, const TopicPartition& partition) {
  into.setTopic(asText(partition.topic));
  into.setPartition(partition.partition);
}
TopicPartition read(schema::TopicPartition::Reader partition) {
  return {.topic = asString(partition.getTopic()), .partition = partition.getPartition()};
}

void write(schema::TopicIdPartition::Builder into, const TopicIdPartition& partition) {
  into.setTopic(asData(partition.topic));
  into.setPartition(partition.partition);
}
TopicIdPartition read(schema::TopicIdPartition::Reader partition) {
  return {.topic = asUuid(partition.getTopic()), .partition = atLeast(0, partition.getPartition())};
}

void write(schema::ConfigEntry::Builder into, const ConfigEntry& entry) {
  into.setName(asText(entry.name));
  if (entry.value) into.setValue(asText(*entry.value));
}
ConfigEntry read(schema::ConfigEntry::Reader entry) {
  ConfigEntry result{.name = asString(entry.getName()), .value = {}};
  if (entry.hasValue()) result.value = asString(entry.getValue());
  return result;
}

void write(schema::ConfigResource::Builder into, const metadata::ConfigResource& resource) {
  into.setType(static_cast<int8_t>(resource.type));
  into.setName(asText(resource.name));
}
metadata::ConfigResource read(schema::ConfigResource::Reader resource) {
  return {.type = static_cast<metadata::ResourceType>(resource.getType()), .name = asString(resource.getName())};
}

// --- topics

void write(schema::NewTopic::Builder into, const NewTopic& topic) {
  into.setName(asText(topic.name));
  into.setPartitions(topic.partitions);
  into.setReplicationFactor(topic.replicationFactor);
  fill(into.initAssignments(countOf(topic.assignments)), topic.assignments,
       [](schema::ReplicaAssignment::Builder item, const ReplicaAssignment& assignment) {
         item.setPartition(assignment.partition);
         writeNodes(item.initReplicas(countOf(assignment.replicas)), assignment.replicas);
       });
  fill(into.initConfigs(countOf(topic.configs)), topic.configs,
       [](auto item, const auto& value) { write(item, value); });
}
NewTopic read(schema::NewTopic::Reader topic) {
  return {.name = asString(topic.getName()),
          .partitions = topic.getPartitions(),
          .replicationFactor = topic.getReplicationFactor(),
          .assignments = listOf(topic.getAssignments(),
                                [](schema::ReplicaAssignment::Reader item) {
                                  return ReplicaAssignment{.partition = item.getPartition(),
                                                           .replicas = readNodes(item.getReplicas())};
                                }),
          .configs = listOf(topic.getConfigs(), [](schema::ConfigEntry::Reader item) { return read(item); })};
}

void write(schema::CreatedTopic::Builder into, const CreatedTopic& topic) {
  into.setId(asData(topic.id));
  into.setPartitions(topic.partitions);
  into.setReplicationFactor(topic.replicationFactor);
  fill(into.initConfigs(countOf(topic.configs)), topic.configs,
       [](schema::ConfigEntry::Builder item, const auto& config) {
         item.setName(asText(config.first));
         item.setValue(asText(config.second));
       });
}
CreatedTopic read(schema::CreatedTopic::Reader topic) {
  CreatedTopic result{.id = asUuid(topic.getId()),
                      .partitions = topic.getPartitions(),
                      .replicationFactor = topic.getReplicationFactor(),
                      .configs = {}};
  for (auto config : topic.getConfigs()) result.configs[asString(config.getName())] = asString(config.getValue());
  return result;
}

void write(schema::CreateTopicsRequest::Builder into, const CreateTopicsRequest& request) {
  fill(into.initTopics(countOf(request.topics)), request.topics,
       [](auto item, const auto& value) { write(item, value); });
  into.setValidateOnly(request.validateOnly);
}
CreateTopicsRequest read(schema::CreateTopicsRequest::Reader request) {
  return {.topics = listOf(request.getTopics(), [](schema::NewTopic::Reader topic) { return read(topic); }),
          .validateOnly = request.getValidateOnly()};
}
void write(schema::CreateTopicsResponse::Builder into, const CreateTopicsResponse& response) {
  fill(into.initTopics(countOf(response.topics)), response.topics,
       [](schema::CreateTopicsResponse::Topic::Builder item, const CreateTopicsResponse::Topic& topic) {
         item.setName(asText(topic.name));
         if (topic.result) {
           write(item.getResult().initCreated(), *topic.result);
         } else {
           write(item.getResult().initFailed(), topic.result.failure());
         }
       });
}
CreateTopicsResponse read(schema::CreateTopicsResponse::Reader response) {
  return {listOf(response.getTopics(), [](schema::CreateTopicsResponse::Topic::Reader item) {
    CreateTopicsResponse::Topic topic{.name = asString(item.getName()), .result = {}};
    auto result = item.getResult();
    using Result = schema::CreateTopicsResponse::Topic::Result;
    switch (result.which()) {
      case Result::CREATED: topic.result = read(result.getCreated()); return topic;
      case Result::FAILED: topic.result = readFailure(result.getFailed()); return topic;
    }
    KJ_FAIL_REQUIRE("an answer of a kind that is not known");
  })};
}

void write(schema::DeleteTopicsRequest::Builder into, const DeleteTopicsRequest& request) {
  fill(into.initTopics(countOf(request.topics)), request.topics,
       [](schema::TopicSelector::Builder item, const TopicSelector& topic) {
         item.setName(asText(topic.name));
         item.setId(asData(topic.id));
       });
}
DeleteTopicsRequest read(schema::DeleteTopicsRequest::Reader request) {
  return {listOf(request.getTopics(), [](schema::TopicSelector::Reader item) {
    return TopicSelector{.name = asString(item.getName()), .id = asUuid(item.getId())};
  })};
}
void write(schema::DeleteTopicsResponse::Builder into, const DeleteTopicsResponse& response) {
  fill(into.initTopics(countOf(response.topics)), response.topics,
       [](schema::DeleteTopicsResponse::Topic::Builder item, const DeleteTopicsResponse::Topic& topic) {
         if (topic.name) item.setName(asText(*topic.name));
         item.setId(asData(topic.id));
         write(item.initStatus(), topic.result);
       });
}
DeleteTopicsResponse read(schema::DeleteTopicsResponse::Reader response) {
  return {listOf(response.getTopics(), [](schema::DeleteTopicsResponse::Topic::Reader item) {
    DeleteTopicsResponse::Topic topic{.name = {}, .id = asUuid(item.getId()), .result = readResult(item.getStatus())};
    if (item.hasName()) topic.name = asString(item.getName());
    return topic;
  })};
}

void write(schema::CreatePartitionsRequest::Builder into, const CreatePartitionsRequest& request) {
  fill(into.initTopics(countOf(request.topics)), request.topics,
       [](schema::NewPartitions::Builder item, const NewPartitions& topic) {
         item.setTopic(asText(topic.topic));
         item.setCount(topic.count);
         if (!topic.assignments) return;
         auto assignments = item.initAssignments(countOf(*topic.assignments));
         for (unsigned i = 0; i < assignments.size(); ++i) {
           const auto& replicas = (*topic.assignments)[i];
           writeNodes(assignments.init(i, countOf(replicas)), replicas);
         }
       });
  into.setValidateOnly(request.validateOnly);
}
CreatePartitionsRequest read(schema::CreatePartitionsRequest::Reader request) {
  return {.topics = listOf(request.getTopics(),
                           [](schema::NewPartitions::Reader item) {
                             NewPartitions topic{
                                 .topic = asString(item.getTopic()), .count = item.getCount(), .assignments = {}};
                             if (item.hasAssignments()) topic.assignments = listOf(item.getAssignments(), readNodes);
                             return topic;
                           }),
          .validateOnly = request.getValidateOnly()};
}
void write(schema::CreatePartitionsResponse::Builder into, const CreatePartitionsResponse& response) {
  fill(into.initTopics(countOf(response.topics)), response.topics,
       [](schema::CreatePartitionsResponse::Topic::Builder item, const CreatePartitionsResponse::Topic& topic) {
         item.setName(asText(topic.name));
         write(item.initStatus(), topic.result);
       });
}
CreatePartitionsResponse read(schema::CreatePartitionsResponse::Reader response) {
  return {listOf(response.getTopics(), [](schema::CreatePartitionsResponse::Topic::Reader item) {
    return CreatePartitionsResponse::Topic{.name = asString(item.getName()), .result = readResult(item.getStatus())};
  })};
}

void write(schema::EnsureTopicsRequest::Builder into, const EnsureTopicsRequest& request) {
  auto names = into.initNames(countOf(request.names));
  for (unsigned i = 0; i < names.size(); ++i) names.set(i, asText(request.names[i]));
}
EnsureTopicsRequest read(schema::EnsureTopicsRequest::Reader request) { return {listOf(request.getNames(), asString)}; }
void write(schema::EnsureTopicsResponse::Builder into, const EnsureTopicsResponse& response) {
  fill(into.initTopics(countOf(response.topics)), response.topics,
       [](schema::EnsureTopicsResponse::Topic::Builder item, const EnsureTopicsResponse::Topic& topic) {
         item.setName(asText(topic.name));
         if (topic.result) {
           item.getResult().setId(asData(*topic.result));
         } else {
           write(item.getResult().initFailed(), topic.result.failure());
         }
       });
}
EnsureTopicsResponse read(schema::EnsureTopicsResponse::Reader response) {
  return {listOf(response.getTopics(), [](schema::EnsureTopicsResponse::Topic::Reader item) {
    EnsureTopicsResponse::Topic topic{.name = asString(item.getName()), .result = {}};
    auto result = item.getResult();
    using Result = schema::EnsureTopicsResponse::Topic::Result;
    switch (result.which()) {
      case Result::ID: topic.result = asUuid(result.getId()); return topic;
      case Result::FAILED: topic.result = readFailure(result.getFailed()); return topic;
    }
    KJ_FAIL_REQUIRE("an answer of a kind that is not known");
  })};
}

// --- settings, features, producer ids

void write(schema::AlterConfigsRequest::Builder into, const AlterConfigsRequest& request) {
  fill(into.initResources(countOf(request.resources)), request.resources,
       [](schema::AlterConfigsRequest::Resource::Builder item, const AlterConfigsRequest::Resource& resource) {
         write(item.initResource(), resource.resource);
         fill(item.initChanges(countOf(resource.changes)), resource.changes,
              [](schema::Alteration::Builder change, const config::Alteration& alteration) {
                change.setName(asText(alteration.name));
                change.setOp(static_cast<int8_t>(alteration.op));
                if (alteration.value) change.setValue(asText(*alteration.value));
              });
       });
  into.setReplaceAll(request.replaceAll);
  into.setValidateOnly(request.validateOnly);
}
config::Alteration read(schema::Alteration::Reader change) {
  KJ_REQUIRE(change.getOp() >= 0 && change.getOp() <= static_cast<int8_t>(config::AlterOp::subtract),
             "a change of an unknown kind", change.getOp());
  config::Alteration alteration{
      .name = asString(change.getName()), .op = static_cast<config::AlterOp>(change.getOp()), .value = {}};
  if (change.hasValue()) alteration.value = asString(change.getValue());
  return alteration;
}
AlterConfigsRequest read(schema::AlterConfigsRequest::Reader request) {
  return {.resources = listOf(request.getResources(),
                              [](schema::AlterConfigsRequest::Resource::Reader item) {
                                return AlterConfigsRequest::Resource{
                                    .resource = read(item.getResource()),
                                    .changes = listOf(item.getChanges(),
                                                      [](schema::Alteration::Reader change) { return read(change); })};
                              }),
          .replaceAll = request.getReplaceAll(),
          .validateOnly = request.getValidateOnly()};
}
void write(schema::AlterConfigsResponse::Builder into, const AlterConfigsResponse& response) {
  fill(into.initResources(countOf(response.resources)), response.resources,
       [](schema::AlterConfigsResponse::Resource::Builder item, const AlterConfigsResponse::Resource& resource) {
         write(item.initResource(), resource.resource);
         write(item.initStatus(), resource.result);
       });
}
AlterConfigsResponse read(schema::AlterConfigsResponse::Reader response) {
  return {listOf(response.getResources(), [](schema::AlterConfigsResponse::Resource::Reader item) {
    return AlterConfigsResponse::Resource{.resource = read(item.getResource()), .result = readResult(item.getStatus())};
  })};
}

void write(schema::UpdateFeaturesRequest::Builder into, const UpdateFeaturesRequest& request) {
  fill(into.initFeatures(countOf(request.features)), request.features,
       [](schema::UpdateFeaturesRequest::Feature::Builder item, const UpdateFeaturesRequest::Feature& feature) {
         item.setName(asText(feature.name));
         item.setLevel(feature.level);
         item.setKind(static_cast<int8_t>(feature.kind));
       });
  into.setValidateOnly(request.validateOnly);
}
UpdateFeaturesRequest read(schema::UpdateFeaturesRequest::Reader request) {
  using Kind = UpdateFeaturesRequest::Kind;
  return {.features = listOf(request.getFeatures(),
                             [](schema::UpdateFeaturesRequest::Feature::Reader item) {
                               int8_t kind = item.getKind();
                               KJ_REQUIRE(kind >= static_cast<int8_t>(Kind::upgrade) &&
                                              kind <= static_cast<int8_t>(Kind::unsafeDowngrade),
                                          "an update of an unknown kind", kind);
                               return UpdateFeaturesRequest::Feature{.name = asString(item.getName()),
                                                                     .level = item.getLevel(),
                                                                     .kind = static_cast<Kind>(kind)};
                             }),
          .validateOnly = request.getValidateOnly()};
}

void write(schema::ProducerIdBlock::Builder into, const ProducerIdBlock& block) {
  into.setFirst(block.first);
  into.setCount(block.count);
}
ProducerIdBlock read(schema::ProducerIdBlock::Reader block) {
  ProducerIdBlock result{.first = atLeast(int64_t{0}, block.getFirst()), .count = atLeast(0, block.getCount())};
  KJ_REQUIRE(result.first <= INT64_MAX - result.count, "producer ids that do not exist", result.first);
  return result;
}

// --- brokers and partitions

void write(schema::BrokerRegistration::Builder into, const BrokerRegistration& broker) {
  into.setId(broker.id.value());
  into.setClusterId(asData(broker.clusterId));
  into.setIncarnation(asData(broker.incarnation));
  fill(into.initListeners(countOf(broker.listeners)), broker.listeners,
       [](schema::BrokerListener::Builder item, const metadata::Listener& listener) {
         item.setName(asText(listener.name));
         item.setHost(asText(listener.host));
         item.setPort(listener.port);
         item.setSecurityProtocol(listener.securityProtocol);
       });
  if (broker.rack) into.setRack(asText(*broker.rack));
  auto directories = into.initDirectories(countOf(broker.directories));
  for (unsigned i = 0; i < directories.size(); ++i) directories.set(i, asData(broker.directories[i]));
  into.setMayLack(broker.mayLack);
  write(into.initPeer(), broker.peer);
}
BrokerRegistration read(schema::BrokerRegistration::Reader broker) {
  BrokerRegistration result{.id = NodeId(atLeast(0, broker.getId())),
                            .clusterId = asUuid(broker.getClusterId()),
                            .incarnation = asUuid(broker.getIncarnation()),
                            .listeners = listOf(broker.getListeners(),
                                                [](schema::BrokerListener::Reader item) {
                                                  return metadata::Listener{
                                                      .name = asString(item.getName()),
                                                      .host = asString(item.getHost()),
                                                      .port = item.getPort(),
                                                      .securityProtocol = item.getSecurityProtocol()};
                                                }),
                            .rack = {},
                            .directories = listOf(broker.getDirectories(), asUuid),
                            .mayLack = broker.getMayLack(),
                            .peer = read(broker.getPeer())};
  if (broker.hasRack()) result.rack = asString(broker.getRack());
  return result;
}

void write(schema::BrokerHeartbeat::Builder into, const BrokerHeartbeat& beat) {
  into.setId(beat.id.value());
  into.setEpoch(beat.epoch);
  into.setOffset(beat.offset);
  into.setWantsStop(beat.wantsStop);
}
BrokerHeartbeat read(schema::BrokerHeartbeat::Reader beat) {
  return {.id = NodeId(atLeast(0, beat.getId())),
          .epoch = beat.getEpoch(),
          .offset = beat.getOffset(),
          .wantsStop = beat.getWantsStop()};
}

void write(schema::AlterPartitionsRequest::Builder into, const AlterPartitionsRequest& request) {
  into.setBroker(request.broker.value());
  into.setBrokerEpoch(request.brokerEpoch);
  fill(into.initPartitions(countOf(request.partitions)), request.partitions,
       [](schema::AlterPartitionsRequest::Partition::Builder item, const AlterPartitionsRequest::Partition& partition) {
         write(item.initId(), partition.id);
         item.setLeaderEpoch(partition.leaderEpoch.value());
         item.setPartitionEpoch(partition.partitionEpoch);
         fill(item.initIsr(countOf(partition.isr)), partition.isr,
              [](schema::InSyncReplica::Builder member, const InSyncReplica& replica) {
                member.setNode(replica.node.value());
                member.setBrokerEpoch(replica.brokerEpoch);
              });
       });
}
AlterPartitionsRequest read(schema::AlterPartitionsRequest::Reader request) {
  return {.broker = NodeId(atLeast(0, request.getBroker())),
          .brokerEpoch = request.getBrokerEpoch(),
          .partitions = listOf(request.getPartitions(), [](schema::AlterPartitionsRequest::Partition::Reader item) {
            return AlterPartitionsRequest::Partition{
                .id = read(item.getId()),
                .leaderEpoch = LeaderEpoch(atLeast(-1, item.getLeaderEpoch())),
                .partitionEpoch = atLeast(-1, item.getPartitionEpoch()),
                .isr = listOf(item.getIsr(), [](schema::InSyncReplica::Reader member) {
                  return InSyncReplica{.node = NodeId(atLeast(0, member.getNode())),
                                       .brokerEpoch = member.getBrokerEpoch()};
                })};
          })};
}
void write(schema::AlterPartitionsResponse::Builder into, const AlterPartitionsResponse& response) {
  fill(into.initPartitions(countOf(response.partitions)), response.partitions,
       [](schema::AlterPartitionsResponse::Partition::Builder item,
          const AlterPartitionsResponse::Partition& partition) {
         write(item.initId(), partition.id);
         write(item.initStatus(), partition.result);
       });
}
AlterPartitionsResponse read(schema::AlterPartitionsResponse::Reader response) {
  return {listOf(response.getPartitions(), [](schema::AlterPartitionsResponse::Partition::Reader item) {
    return AlterPartitionsResponse::Partition{.id = read(item.getId()), .result = readResult(item.getStatus())};
  })};
}

template <class Partition>
void writeStatuses(schema::PartitionStatuses::Builder into, const std::vector<Partition>& partitions) {
  fill(into.initPartitions(countOf(partitions)), partitions,
       [](schema::PartitionStatus::Builder item, const Partition& partition) {
         write(item.initPartition(), partition.partition);
         write(item.initStatus(), partition.result);
       });
}
template <class Partition>
std::vector<Partition> readStatuses(schema::PartitionStatuses::Reader statuses) {
  return listOf(statuses.getPartitions(), [](schema::PartitionStatus::Reader item) {
    return Partition{.partition = read(item.getPartition()), .result = readResult(item.getStatus())};
  });
}

void write(schema::ElectLeadersRequest::Builder into, const ElectLeadersRequest& request) {
  fill(into.initPartitions(countOf(request.partitions)), request.partitions,
       [](auto item, const auto& value) { write(item, value); });
  into.setAll(request.all);
  into.setUnclean(request.unclean);
}
ElectLeadersRequest read(schema::ElectLeadersRequest::Reader request) {
  return {.partitions = listOf(request.getPartitions(), [](schema::TopicPartition::Reader item) { return read(item); }),
          .all = request.getAll(),
          .unclean = request.getUnclean()};
}

void write(schema::AlterReassignmentsRequest::Builder into, const AlterReassignmentsRequest& request) {
  fill(into.initPartitions(countOf(request.partitions)), request.partitions,
       [](schema::AlterReassignmentsRequest::Partition::Builder item,
          const AlterReassignmentsRequest::Partition& partition) {
         write(item.initPartition(), partition.partition);
         if (partition.replicas) writeNodes(item.initReplicas(countOf(*partition.replicas)), *partition.replicas);
       });
  into.setMayChangeFactor(request.mayChangeFactor);
}
AlterReassignmentsRequest read(schema::AlterReassignmentsRequest::Reader request) {
  return {.partitions = listOf(request.getPartitions(),
                               [](schema::AlterReassignmentsRequest::Partition::Reader item) {
                                 AlterReassignmentsRequest::Partition partition{.partition = read(item.getPartition()),
                                                                                .replicas = {}};
                                 if (item.hasReplicas()) partition.replicas = readNodes(item.getReplicas());
                                 return partition;
                               }),
          .mayChangeFactor = request.getMayChangeFactor()};
}

// --- the quorum

void write(schema::QuorumState::Replica::Builder into, const QuorumState::Replica& replica) {
  into.setId(replica.id.value());
  into.setDirectory(asData(replica.directory));
  into.setLogEnd(replica.logEnd);
  into.setLastFetch(replica.lastFetch.value());
  into.setLastCaughtUp(replica.lastCaughtUp.value());
}
QuorumState::Replica read(schema::QuorumState::Replica::Reader replica) {
  return {.id = NodeId(replica.getId()),
          .directory = asUuid(replica.getDirectory()),
          .logEnd = replica.getLogEnd(),
          .lastFetch = WallMs(replica.getLastFetch()),
          .lastCaughtUp = WallMs(replica.getLastCaughtUp())};
}
void write(schema::QuorumState::Builder into, const QuorumState& state) {
  into.setLeader(state.leader.value());
  into.setTerm(state.term);
  into.setHighWatermark(state.highWatermark);
  fill(into.initVoters(countOf(state.voters)), state.voters, [](auto item, const auto& value) { write(item, value); });
  fill(into.initObservers(countOf(state.observers)), state.observers,
       [](auto item, const auto& value) { write(item, value); });
}
QuorumState read(schema::QuorumState::Reader state) {
  auto replica = [](schema::QuorumState::Replica::Reader item) { return read(item); };
  return {.leader = NodeId(state.getLeader()),
          .term = state.getTerm(),
          .highWatermark = state.getHighWatermark(),
          .voters = listOf(state.getVoters(), replica),
          .observers = listOf(state.getObservers(), replica)};
}

// --- answers

void write(schema::Answered::Builder into, const Answered& answered) {
  into.setOffset(answered.offset);
  auto response = into.getResponse();
  std::visit(
      Overloaded{
          [&](const std::monostate&) { response.setDone(); },
          [&](const CreateTopicsResponse& answer) { write(response.initCreateTopics(), answer); },
          [&](const DeleteTopicsResponse& answer) { write(response.initDeleteTopics(), answer); },
          [&](const CreatePartitionsResponse& answer) { write(response.initCreatePartitions(), answer); },
          [&](const AlterConfigsResponse& answer) { write(response.initAlterConfigs(), answer); },
          [&](const EnsureTopicsResponse& answer) { write(response.initEnsureTopics(), answer); },
          [&](const ProducerIdBlock& block) { write(response.initProducerIds(), block); },
          [&](const RegisteredBroker& broker) { response.setRegistered(broker.epoch); },
          [&](const BrokerState& state) {
            auto broker = response.initBrokerState();
            broker.setIsFenced(state.isFenced);
            broker.setMayStop(state.mayStop);
          },
          [&](const AlterPartitionsResponse& answer) { write(response.initAlterPartitions(), answer); },
          [&](const ElectLeadersResponse& answer) { writeStatuses(response.initElectLeaders(), answer.partitions); },
          [&](const AlterReassignmentsResponse& answer) {
            writeStatuses(response.initAlterReassignments(), answer.partitions);
          },
          [&](const QuorumState& state) { write(response.initQuorum(), state); },
      },
      answered.response);
}

controller::Response readResponse(schema::Answered::Response::Reader response) {
  using Kind = schema::Answered::Response;
  switch (response.which()) {
    case Kind::DONE: return std::monostate{};
    case Kind::CREATE_TOPICS: return read(response.getCreateTopics());
    case Kind::DELETE_TOPICS: return read(response.getDeleteTopics());
    case Kind::CREATE_PARTITIONS: return read(response.getCreatePartitions());
    case Kind::ALTER_CONFIGS: return read(response.getAlterConfigs());
    case Kind::ENSURE_TOPICS: return read(response.getEnsureTopics());
    case Kind::PRODUCER_IDS: return read(response.getProducerIds());
    case Kind::REGISTERED: return RegisteredBroker{.epoch = response.getRegistered()};
    case Kind::BROKER_STATE: {
      auto state = response.getBrokerState();
      return BrokerState{.isFenced = state.getIsFenced(), .mayStop = state.getMayStop()};
    }
    case Kind::ALTER_PARTITIONS: return read(response.getAlterPartitions());
    case Kind::ELECT_LEADERS:
      return ElectLeadersResponse{readStatuses<ElectLeadersResponse::Partition>(response.getElectLeaders())};
    case Kind::ALTER_REASSIGNMENTS:
      return AlterReassignmentsResponse{
          readStatuses<AlterReassignmentsResponse::Partition>(response.getAlterReassignments())};
    case Kind::QUORUM: return read(response.getQuorum());
  }
  KJ_FAIL_REQUIRE("an answer of a kind that is not known");
}

}  // namespace

void write(schema::Request::Builder into, const controller::Request& request) {
  std::visit(Overloaded{
                 [&](const CreateTopicsRequest& asked) { write(into.initCreateTopics(), asked); },
                 [&](const DeleteTopicsRequest& asked) { write(into.initDeleteTopics(), asked); },
                 [&](const CreatePartitionsRequest& asked) { write(into.initCreatePartitions(), asked); },
                 [&](const AlterConfigsRequest& asked) { write(into.initAlterConfigs(), asked); },
                 [&](const UpdateFeaturesRequest& asked) { write(into.initUpdateFeatures(), asked); },
                 [&](const EnsureTopicsRequest& asked) { write(into.initEnsureTopics(), asked); },
                 [&](const AllocateProducerIdsRequest&) { into.setAllocateProducerIds(); },
                 [&](const BrokerRegistration& broker) { write(into.initRegisterBroker(), broker); },
                 [&](const BrokerHeartbeat& beat) { write(into.initHeartbeat(), beat); },
                 [&](const AlterPartitionsRequest& asked) { write(into.initAlterPartitions(), asked); },
                 [&](const ElectLeadersRequest& asked) { write(into.initElectLeaders(), asked); },
                 [&](const AlterReassignmentsRequest& asked) { write(into.initAlterReassignments(), asked); },
                 [&](const UnregisterBrokerRequest& asked) { into.initUnregisterBroker().setId(asked.id.value()); },
                 [&](const DrainBrokerRequest& asked) {
                   auto drain = into.initDrainBroker();
                   drain.setId(asked.id.value());
                   drain.setDrained(asked.drained);
                 },
                 [&](const ChangeVoterRequest& asked) {
                   auto change = into.initChangeVoter();
                   change.setId(asked.id.value());
                   change.setDirectory(asData(asked.directory));
                   change.setIsVoter(asked.isVoter);
                 },
                 [&](const DescribeQuorumRequest&) { into.setDescribeQuorum(); },
             },
             request);
}

controller::Request read(schema::Request::Reader request) {
  using Kind = schema::Request;
  switch (request.which()) {
    case Kind::CREATE_TOPICS: return read(request.getCreateTopics());
    case Kind::DELETE_TOPICS: return read(request.getDeleteTopics());
    case Kind::CREATE_PARTITIONS: return read(request.getCreatePartitions());
    case Kind::ALTER_CONFIGS: return read(request.getAlterConfigs());
    case Kind::UPDATE_FEATURES: return read(request.getUpdateFeatures());
    case Kind::ENSURE_TOPICS: return read(request.getEnsureTopics());
    case Kind::ALLOCATE_PRODUCER_IDS: return AllocateProducerIdsRequest{};
    case Kind::REGISTER_BROKER: return read(request.getRegisterBroker());
    case Kind::HEARTBEAT: return read(request.getHeartbeat());
    case Kind::ALTER_PARTITIONS: return read(request.getAlterPartitions());
    case Kind::ELECT_LEADERS: return read(request.getElectLeaders());
    case Kind::ALTER_REASSIGNMENTS: return read(request.getAlterReassignments());
    case Kind::UNREGISTER_BROKER: return UnregisterBrokerRequest{NodeId(request.getUnregisterBroker().getId())};
    case Kind::DRAIN_BROKER: {
      auto drain = request.getDrainBroker();
      return DrainBrokerRequest{.id = NodeId(drain.getId()), .drained = drain.getDrained()};
    }
    case Kind::CHANGE_VOTER: {
      auto change = request.getChangeVoter();
      return ChangeVoterRequest{
          .id = NodeId(change.getId()), .directory = asUuid(change.getDirectory()), .isVoter = change.getIsVoter()};
    }
    case Kind::DESCRIBE_QUORUM: return DescribeQuorumRequest{};
  }
  KJ_FAIL_REQUIRE("a request of a kind that is not known");
}

void write(schema::Answer::Builder into, const Result<controller::Answered>& answer) {
  if (answer) {
    write(into.initAnswered(), *answer);
  } else {
    write(into.initFailed(), answer.failure());
  }
}

Result<controller::Answered> read(schema::Answer::Reader answer) {
  switch (answer.which()) {
    case schema::Answer::ANSWERED: {
      auto answered = answer.getAnswered();
      return Answered{.offset = answered.getOffset(), .response = readResponse(answered.getResponse())};
    }
    case schema::Answer::FAILED: return readFailure(answer.getFailed());
  }
  KJ_FAIL_REQUIRE("an answer of a kind that is not known");
}

void write(schema::NodeStatus::Builder into, const controller::NodeStatus& status) {
  write(into.initReplica(), status.replica);
  if (status.cluster) into.setCluster(asData(*status.cluster));
  into.setIsEmpty(status.isEmpty);
  write(into.initMembers(countOf(status.members.members)), status.members);
  into.setLeader(status.leader.value());
  into.setTerm(status.term);
  fill(into.initControllers(countOf(status.controllers)), status.controllers,
       [](schema::NodeStatus::Controller::Builder item, const auto& controller) {
         item.setNode(controller.first.value());
         write(item.initAddress(), controller.second);
       });
}

controller::NodeStatus read(schema::NodeStatus::Reader status) {
  NodeStatus result{.replica = read(status.getReplica()),
                    .cluster = {},
                    .isEmpty = status.getIsEmpty(),
                    .members = read(status.getMembers()),
                    .leader = NodeId(atLeast(-1, status.getLeader())),
                    .term = atLeast(int64_t{0}, status.getTerm()),
                    .controllers = listOf(status.getControllers(), [](schema::NodeStatus::Controller::Reader item) {
                      return std::pair(NodeId(atLeast(0, item.getNode())), read(item.getAddress()));
                    })};
  if (status.hasCluster()) result.cluster = asUuid(status.getCluster());
  // As everybody who looks a member up expects them.
  for (size_t i = 1; i < result.members.members.size(); ++i) {
    KJ_REQUIRE(result.members.members[i - 1].replica.id < result.members.members[i].replica.id,
               "members that are not in their order");
  }
  return result;
}

void writeStatus(schema::Status::Builder into, const Result<void>& result) { write(into, result); }

Result<void> readStatus(schema::Status::Reader status) { return readResult(status); }

void write(schema::JoinRequest::Builder into, const controller::JoinRequest& request) {
  write(into.initReplica(), request.replica);
  write(into.initAddress(), request.address);
}

controller::JoinRequest read(schema::JoinRequest::Reader request) {
  JoinRequest result{.replica = read(request.getReplica()), .address = read(request.getAddress())};
  KJ_REQUIRE(result.replica.id >= NodeId(0), "a node id that is none", result.replica.id.value());
  return result;
}

}  // namespace mq::peer
