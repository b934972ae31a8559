// Elections, moves of replicas, the quorum and its members, asked of a node that is alone.
#include <doctest/doctest.h>

#include "batches.h"
#include "wire/add_raft_voter_request.h"
#include "wire/add_raft_voter_response.h"
#include "wire/alter_partition_reassignments_request.h"
#include "wire/alter_partition_reassignments_response.h"
#include "wire/describe_cluster_request.h"
#include "wire/describe_cluster_response.h"
#include "wire/describe_quorum_request.h"
#include "wire/describe_quorum_response.h"
#include "wire/elect_leaders_request.h"
#include "wire/elect_leaders_response.h"
#include "wire/list_partition_reassignments_request.h"
#include "wire/list_partition_reassignments_response.h"
#include "wire/remove_raft_voter_request.h"
#include "wire/remove_raft_voter_response.h"
#include "wire/unregister_broker_request.h"
#include "wire/unregister_broker_response.h"

namespace mq::kafka::test {
namespace {

constexpr int32_t kNode = 1;
constexpr int32_t kNobody = 9;

using Quorum = wire::DescribeQuorumResponse;

Quorum describeQuorum(Client& client, int16_t version, std::string topic = "__cluster_metadata",
                      int32_t partition = 0) {
  wire::DescribeQuorumRequest request;
  request.topics = {{.topicName = std::move(topic), .partitions = {{.partitionIndex = partition}}}};
  return client.call(request, version);
}

TEST_CASE("ElectLeaders: each partition is told why nothing changes, and all together say nothing") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 2);
  for (int16_t version : {0, 1, 2}) {
    for (int8_t type : {0, 1}) {
      if (version == 0 && type != 0) continue;
      wire::ElectLeadersRequest request{.electionType = type};
      request.topicPartitions.emplace();
      request.topicPartitions->push_back({.topic = topic, .partitions = {1, 0, 7}});
      request.topicPartitions->push_back({.topic = "nowhere", .partitions = {0, -1}});
      auto response = client.call(request, version);
      CHECK(response.errorCode == Error::none);
      REQUIRE(response.replicaElectionResults.size() == 2);
      const auto& own = response.replicaElectionResults[0];
      CHECK(own.topic == topic);
      REQUIRE(own.partitionResult.size() == 3);
      CHECK(own.partitionResult[0].partitionId == 1);
      CHECK(own.partitionResult[0].errorCode == Error::electionNotNeeded);
      CHECK(own.partitionResult[0].errorMessage == "Leader election not needed for topic partition.");
      CHECK(own.partitionResult[1].errorCode == Error::electionNotNeeded);
      CHECK(own.partitionResult[2].errorCode == Error::unknownTopicOrPartition);
      for (const auto& one : response.replicaElectionResults[1].partitionResult)
        CHECK(one.errorCode == Error::unknownTopicOrPartition);
      request.topicPartitions.reset();
      response = client.call(request, version);
      CHECK(response.errorCode == Error::none);
      CHECK(response.replicaElectionResults.empty());
    }
  }
  CHECK(client.call(wire::ElectLeadersRequest{.electionType = 2}, 2).errorCode == Error::invalidRequest);
}

TEST_CASE("AlterPartitionReassignments: to where the replicas are already, and every way to be wrong") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 1);
  using Replicas = std::optional<std::vector<int32_t>>;
  struct Case {
    std::string topic;
    int32_t partition;
    Replicas replicas;
    Error error;
  };
  const Case cases[] = {
      {topic, 0, Replicas({kNode}), Error::none},
      {topic, 0, Replicas({kNobody}), Error::invalidReplicaAssignment},
      {topic, 0, Replicas({kNode, -5}), Error::invalidReplicaAssignment},
      {topic, 0, Replicas({kNode, kNode}), Error::invalidReplicaAssignment},
      {topic, 0, Replicas(std::vector<int32_t>{}), Error::invalidReplicaAssignment},
      {topic, 0, std::nullopt, Error::noReassignmentInProgress},
      {topic, 1, Replicas({kNode}), Error::unknownTopicOrPartition},
      {"nowhere", 0, std::nullopt, Error::unknownTopicOrPartition},
  };
  for (int16_t version : {0, 1}) {
    for (const Case& one : cases) {
      CAPTURE(one.topic);
      wire::AlterPartitionReassignmentsRequest request;
      request.topics = {
          {.name = one.topic, .partitions = {{.partitionIndex = one.partition, .replicas = one.replicas}}}};
      auto response = client.call(request, version);
      CHECK(response.errorCode == Error::none);
      CHECK(response.errorMessage == std::nullopt);
      REQUIRE(response.responses.size() == 1);
      CHECK(response.responses[0].name == one.topic);
      REQUIRE(response.responses[0].partitions.size() == 1);
      CHECK(response.responses[0].partitions[0].partitionIndex == one.partition);
      CHECK(response.responses[0].partitions[0].errorCode == one.error);
      CHECK(response.responses[0].partitions[0].errorMessage.has_value() == (one.error != Error::none));
    }
  }
  CHECK(client.call(wire::AlterPartitionReassignmentsRequest{}, 1).responses.empty());
}

TEST_CASE("ListPartitionReassignments: nothing moves on a node that is alone") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 1);
  wire::ListPartitionReassignmentsRequest all, some;
  some.topics.emplace();
  some.topics->push_back({.name = topic, .partitionIndexes = {0, 5, -1}});
  some.topics->push_back({.name = "nowhere", .partitionIndexes = {0}});
  for (const auto& request : {all, some}) {
    auto response = client.call(request, 0);
    CHECK(response.errorCode == Error::none);
    CHECK(response.errorMessage == std::nullopt);
    CHECK(response.topics.empty());
  }
}

TEST_CASE("DescribeQuorum: one voter, that has all") {
  Client client(sharedServer());
  createTopic(client, 1);
  for (int16_t version : {0, 1, 2}) {
    Quorum quorum = describeQuorum(client, version);
    CHECK(quorum.errorCode == Error::none);
    REQUIRE(quorum.topics.size() == 1);
    REQUIRE(quorum.topics[0].partitions.size() == 1);
    const auto& partition = quorum.topics[0].partitions[0];
    CHECK(partition.errorCode == Error::none);
    CHECK(partition.leaderId == kNode);
    CHECK(partition.leaderEpoch > 0);
    CHECK(partition.highWatermark > 0);
    CHECK(partition.observers.empty());
    REQUIRE(partition.currentVoters.size() == 1);
    const auto& voter = partition.currentVoters[0];
    CHECK(voter.replicaId == kNode);
    CHECK(voter.logEndOffset == partition.highWatermark);
    CHECK(voter.replicaDirectoryId.isZero() == (version < 2));
    CHECK((voter.lastFetchTimestamp > 0) == (version >= 1));
    CHECK((voter.lastCaughtUpTimestamp > 0) == (version >= 1));
    REQUIRE(quorum.nodes.size() == (version >= 2 ? 1 : 0));
    if (version >= 2) CHECK(quorum.nodes[0].nodeId == kNode);
  }
  for (auto [topic, partition] : {std::pair{"__cluster_metadata", 1}, {"topic", 0}, {"", -1}}) {
    Quorum other = describeQuorum(client, 2, topic, partition);
    CHECK(other.errorCode == Error::none);
    REQUIRE(other.topics.size() == 1);
    REQUIRE(other.topics[0].partitions.size() == 1);
    CHECK(other.topics[0].partitions[0].partitionIndex == partition);
    CHECK(other.topics[0].partitions[0].errorCode == Error::unknownTopicOrPartition);
  }
}

TEST_CASE("UnregisterBroker: not one that lives, nor one that nobody knows") {
  Client client(sharedServer());
  auto unregister = [&](int32_t broker) {
    auto response = client.call(wire::UnregisterBrokerRequest{.brokerId = broker}, 0);
    CHECK(response.errorMessage.has_value());
    return response.errorCode;
  };
  CHECK(unregister(kNobody) == Error::brokerIdNotRegistered);
  CHECK(unregister(-1) == Error::brokerIdNotRegistered);
  CHECK(unregister(kNode) == Error::invalidRequest);
}

TEST_CASE("AddRaftVoter and RemoveRaftVoter: who is none, who is one already, and the last one") {
  Client client(sharedServer());
  const Uuid own = describeQuorum(client, 2).topics.at(0).partitions.at(0).currentVoters.at(0).replicaDirectoryId;
  const Uuid other = Uuid::fromHalves(1, 2);
  const std::string here = client.call(wire::DescribeClusterRequest{}, 2).clusterId;
  struct Case {
    std::optional<std::string> cluster;
    int32_t node;
    Uuid directory;
    Error added, removed;
  };
  const Case cases[] = {
      {std::nullopt, kNode, own, Error::duplicateVoter, Error::invalidRequest},
      {here, kNode, own, Error::duplicateVoter, Error::invalidRequest},
      {here, kNode, other, Error::voterNotFound, Error::voterNotFound},
      {here, kNobody, other, Error::voterNotFound, Error::voterNotFound},
      {here, kNode, {}, Error::invalidRequest, Error::invalidRequest},
      {here, -1, own, Error::invalidRequest, Error::invalidRequest},
      {"elsewhere", kNode, own, Error::inconsistentClusterId, Error::inconsistentClusterId},
  };
  for (const Case& one : cases) {
    CAPTURE(one.node);
    for (int16_t version : {0, 1}) {
      auto added = client.call(
          wire::AddRaftVoterRequest{
              .clusterId = one.cluster, .timeoutMs = 1000, .voterId = one.node, .voterDirectoryId = one.directory},
          version);
      CHECK(added.errorCode == one.added);
      CHECK(added.errorMessage.value_or("") != "");
    }
    auto removed = client.call(
        wire::RemoveRaftVoterRequest{.clusterId = one.cluster, .voterId = one.node, .voterDirectoryId = one.directory},
        0);
    CHECK(removed.errorCode == one.removed);
    CHECK(removed.errorMessage.value_or("") != "");
  }
  CHECK(describeQuorum(client, 2).topics.at(0).partitions.at(0).currentVoters.size() == 1);
}

}  // namespace
}  // namespace mq::kafka::test
