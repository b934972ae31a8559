// Requests, answers and states with every field filled by chance: one of each kind in turn.
#pragma once
#include "base/random.h"
#include "controller/requests.h"

namespace mq::peer {

class ControllerSamples {
 public:
  explicit ControllerSamples(uint64_t seed) : random_(seed) {}

  static constexpr size_t kRequests = std::variant_size_v<controller::Request>;
  static constexpr size_t kResponses = std::variant_size_v<controller::Response>;

  controller::Request request(size_t kind) {
    using namespace controller;
    switch (kind) {
      case 0:
        return CreateTopicsRequest{
            .topics = some<NewTopic>([&] {
              return NewTopic{
                  .name = text(),
                  .partitions = static_cast<int32_t>(random_.below(9)) - 1,
                  .replicationFactor = static_cast<int16_t>(static_cast<int16_t>(random_.below(5)) - 1),
                  .assignments = some<ReplicaAssignment>(
                      [&] { return ReplicaAssignment{.partition = small(), .replicas = nodes()}; }),
                  .configs = some<ConfigEntry>([&] { return ConfigEntry{.name = text(), .value = maybe()}; })};
            }),
            .validateOnly = flag()};
      case 1:
        return DeleteTopicsRequest{some<TopicSelector>([&] { return TopicSelector{.name = text(), .id = id()}; })};
      case 2:
        return CreatePartitionsRequest{.topics = some<NewPartitions>([&] {
                                         NewPartitions topic{.topic = text(), .count = small(), .assignments = {}};
                                         if (flag())
                                           topic.assignments = some<std::vector<NodeId>>([&] { return nodes(); });
                                         return topic;
                                       }),
                                       .validateOnly = flag()};
      case 3:
        return AlterConfigsRequest{
            .resources = some<AlterConfigsRequest::Resource>([&] {
              return AlterConfigsRequest::Resource{
                  .resource = resource(),
                  .changes = some<config::Alteration>([&] {
                    return config::Alteration{
                        .name = text(), .op = static_cast<config::AlterOp>(random_.below(4)), .value = maybe()};
                  })};
            }),
            .replaceAll = flag(),
            .validateOnly = flag()};
      case 4:
        return UpdateFeaturesRequest{.features = some<UpdateFeaturesRequest::Feature>([&] {
                                       return UpdateFeaturesRequest::Feature{
                                           .name = text(),
                                           .level = static_cast<int16_t>(small()),
                                           .kind = static_cast<UpdateFeaturesRequest::Kind>(random_.between(1, 3))};
                                     }),
                                     .validateOnly = flag()};
      case 5: return EnsureTopicsRequest{some<std::string>([&] { return text(); })};
      case 6: return AllocateProducerIdsRequest{};
      case 7:
        return BrokerRegistration{
            .id = node(),
            .clusterId = id(),
            .incarnation = id(),
            .listeners = some<metadata::Listener>([&] {
              return metadata::Listener{
                  .name = text(), .host = text(), .port = port(), .securityProtocol = static_cast<int16_t>(small())};
            }),
            .rack = maybe(),
            .directories = some<Uuid>([&] { return id(); }),
            .mayLack = flag(),
            .peer = address()};
      case 8: return BrokerHeartbeat{.id = node(), .epoch = number(), .offset = number(), .wantsStop = flag()};
      case 9:
        return AlterPartitionsRequest{
            .broker = node(),
            .brokerEpoch = number(),
            .partitions = some<AlterPartitionsRequest::Partition>([&] {
              return AlterPartitionsRequest::Partition{
                  .id = idPartition(),
                  .leaderEpoch = LeaderEpoch(small()),
                  .partitionEpoch = small(),
                  .isr = some<InSyncReplica>([&] { return InSyncReplica{.node = node(), .brokerEpoch = number()}; })};
            })};
      case 10:
        return ElectLeadersRequest{
            .partitions = some<TopicPartition>([&] { return partition(); }), .all = flag(), .unclean = flag()};
      case 11:
        return AlterReassignmentsRequest{.partitions = some<AlterReassignmentsRequest::Partition>([&] {
                                           AlterReassignmentsRequest::Partition one{.partition = partition(),
                                                                                    .replicas = {}};
                                           if (flag()) one.replicas = nodes();
                                           return one;
                                         }),
                                         .mayChangeFactor = flag()};
      case 12: return UnregisterBrokerRequest{node()};
      case 13: return DrainBrokerRequest{.id = node(), .drained = flag()};
      case 14: return ChangeVoterRequest{.id = node(), .directory = id(), .isVoter = flag()};
      default: return DescribeQuorumRequest{};
    }
  }

  controller::Response response(size_t kind) {
    using namespace controller;
    switch (kind) {
      case 0:
        return CreateTopicsResponse{some<CreateTopicsResponse::Topic>([&] {
          CreateTopicsResponse::Topic topic{.name = text(), .result = failure()};
          if (flag())
            topic.result = CreatedTopic{
                .id = id(), .partitions = small(), .replicationFactor = 3, .configs = {{text(), text()}, {"x", ""}}};
          return topic;
        })};
      case 1:
        return DeleteTopicsResponse{some<DeleteTopicsResponse::Topic>(
            [&] { return DeleteTopicsResponse::Topic{.name = maybe(), .id = id(), .result = status()}; })};
      case 2:
        return CreatePartitionsResponse{some<CreatePartitionsResponse::Topic>(
            [&] { return CreatePartitionsResponse::Topic{.name = text(), .result = status()}; })};
      case 3:
        return AlterConfigsResponse{some<AlterConfigsResponse::Resource>(
            [&] { return AlterConfigsResponse::Resource{.resource = resource(), .result = status()}; })};
      case 4:
        return EnsureTopicsResponse{some<EnsureTopicsResponse::Topic>([&] {
          EnsureTopicsResponse::Topic topic{.name = text(), .result = failure()};
          if (flag()) topic.result = id();
          return topic;
        })};
      case 5: return ProducerIdBlock{.first = number(), .count = small()};
      case 6: return RegisteredBroker{number()};
      case 7: return BrokerState{.isFenced = flag(), .mayStop = flag()};
      case 8:
        return AlterPartitionsResponse{some<AlterPartitionsResponse::Partition>(
            [&] { return AlterPartitionsResponse::Partition{.id = idPartition(), .result = status()}; })};
      case 9:
        return ElectLeadersResponse{some<ElectLeadersResponse::Partition>(
            [&] { return ElectLeadersResponse::Partition{.partition = partition(), .result = status()}; })};
      case 10:
        return AlterReassignmentsResponse{some<AlterReassignmentsResponse::Partition>(
            [&] { return AlterReassignmentsResponse::Partition{.partition = partition(), .result = status()}; })};
      case 11: {
        auto replica = [&] {
          return QuorumState::Replica{.id = node(),
                                      .directory = id(),
                                      .logEnd = number(),
                                      .lastFetch = WallMs(number()),
                                      .lastCaughtUp = WallMs(-1)};
        };
        return QuorumState{.leader = node(),
                           .term = number(),
                           .highWatermark = number(),
                           .voters = some<QuorumState::Replica>(replica),
                           .observers = some<QuorumState::Replica>(replica)};
      }
      default: return std::monostate{};
    }
  }

  controller::NodeStatus nodeStatus() {
    controller::NodeStatus status{
        .replica = {node(), id()},
        .cluster = {},
        .isEmpty = flag(),
        .members = {},
        .leader = flag() ? kNoNode : node(),
        .term = number(),
        .controllers = some<std::pair<NodeId, Address>>([&] { return std::pair(node(), address()); })};
    if (flag()) status.cluster = id();
    for (int32_t i = 0; i < small() % 5; ++i)
      status.members.members.push_back({.replica = {NodeId(i), id()}, .isVoter = flag()});
    return status;
  }
  controller::JoinRequest joinRequest() { return {.replica = {node(), id()}, .address = address()}; }

  Failure failure() {
    const Error errors[] = {Error::notController, Error::unknownServerError, Error::invalidRequest};
    return Failure(errors[random_.below(3)], flag() ? text() : "");
  }

 private:
  bool flag() { return random_.chance(1, 2); }
  int32_t small() { return static_cast<int32_t>(random_.below(1000)); }
  int64_t number() { return static_cast<int64_t>(random_.next() >> random_.between(2, 63)); }
  uint16_t port() { return static_cast<uint16_t>(random_.next()); }
  NodeId node() { return NodeId(small()); }
  Uuid id() { return Uuid::random(random_.next(), random_.next()); }
  std::string text() {
    std::string result(random_.below(20), '\0');
    for (char& c : result) c = static_cast<char>(random_.next());
    return result;
  }
  std::optional<std::string> maybe() { return flag() ? std::optional(text()) : std::nullopt; }
  Address address() { return {.host = text(), .port = port()}; }
  TopicPartition partition() { return {text(), small()}; }
  TopicIdPartition idPartition() { return {id(), small()}; }
  metadata::ConfigResource resource() { return {static_cast<metadata::ResourceType>(random_.next()), text()}; }
  std::vector<NodeId> nodes() {
    return some<NodeId>([&] { return node(); });
  }
  Result<void> status() {
    if (flag()) return {};
    return failure();
  }
  template <class T, class Make>
  std::vector<T> some(Make make) {
    std::vector<T> result(random_.below(6));
    for (T& one : result) one = make();
    return result;
  }

  Prng random_;
};

}  // namespace mq::peer
