// ApiVersions, Metadata, DescribeTopicPartitions, DescribeCluster.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <thread>

#include "batches.h"
#include "kafka/apis.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"
#include "wire/describe_cluster_request.h"
#include "wire/describe_cluster_response.h"
#include "wire/describe_topic_partitions_request.h"
#include "wire/describe_topic_partitions_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"

namespace mq::kafka::test {
namespace {

wire::MetadataRequest about(std::initializer_list<std::string> names) {
  wire::MetadataRequest request;
  for (const auto& name : names) request.topics->push_back({.name = name});
  return request;
}

const auto* entryOf(const wire::ApiVersionsResponse& response, int16_t key) {
  auto found = std::ranges::find(response.apiKeys, key, &wire::ApiVersionsResponse::ApiVersion::apiKey);
  return found == response.apiKeys.end() ? nullptr : &*found;
}

TEST_CASE("ApiVersions: an unknown version is answered in version 0 with error 35, and the connection goes on") {
  Client client(sharedServer());
  for (int16_t version : {6, 99, 32767, -1}) {
    Buffer payload;
    ByteWriter writer(payload);
    writer.int16(18);
    writer.int16(version);
    writer.int32(version);
    writer.text("whatever a client of the future sends");
    client.sendFrame(payload);
    auto response = client.response<wire::ApiVersionsResponse>(0, version);
    CHECK(response.errorCode == Error::unsupportedVersion);
    REQUIRE(response.apiKeys.size() == 1);
    CHECK(response.apiKeys[0].apiKey == 18);
    CHECK(response.apiKeys[0].maxVersion == 5);
  }
  CHECK(client.call(wire::ApiVersionsRequest{.clientSoftwareName = "x", .clientSoftwareVersion = "1"}, 5).errorCode ==
        Error::none);
}

TEST_CASE("ApiVersions: ranges are the table's, Produce listed from 0, unstable versions not at all") {
  Client client(sharedServer());
  auto response = client.call(wire::ApiVersionsRequest{.clientSoftwareName = "x", .clientSoftwareVersion = "1"}, 4);
  REQUIRE(response.apiKeys.size() == apis().size());
  for (const Api& api : apis()) {
    auto* entry = entryOf(response, api.key);
    REQUIRE(entry != nullptr);
    CHECK(entry->minVersion == (api.key == 0 ? 0 : api.versions.first));
    CHECK(entry->maxVersion == api.versions.last);
  }
  CHECK(entryOf(response, 22)->maxVersion == 5);
  CHECK(entryOf(response, 71) == nullptr);
  // librdkafka 2.0.2 looks for these.
  CHECK(entryOf(response, 10)->minVersion == 0);
  CHECK(entryOf(response, 2)->minVersion <= 1);
  CHECK(entryOf(response, 22)->minVersion == 0);
  CHECK(entryOf(response, 1)->maxVersion >= 10);
}

TEST_CASE("ApiVersions: what clients of Kafka 2.1 speak is spoken, and ids are of use everywhere or nowhere") {
  // The newest versions of that release (KIP-896: the oldest whose clients Kafka 4 serves).
  const std::map<int16_t, int16_t> kThen = {{0, 7},  {1, 10}, {2, 4},  {3, 7},  {10, 2}, {18, 2}, {19, 3}, {20, 3},
                                            {21, 1}, {22, 1}, {23, 2}, {32, 2}, {33, 1}, {35, 1}, {37, 1}};
  Client client(sharedServer());
  auto response = client.call(wire::ApiVersionsRequest{}, 2);
  for (auto [key, version] : kThen) {
    CAPTURE(key);
    auto* entry = entryOf(response, key);
    REQUIRE(entry != nullptr);
    CHECK(entry->minVersion <= version);
    CHECK(entry->maxVersion >= version);
  }
  // Produce, Fetch, Metadata and DeleteTopics by id.
  for (auto [key, from] : std::map<int16_t, int16_t>{{0, 13}, {1, 13}, {3, 12}, {20, 6}})
    CHECK(entryOf(response, key)->maxVersion >= from);
}

TEST_CASE("ApiVersions: names of software are checked from version 3 on, cluster and node from version 5 on") {
  Client client(sharedServer());
  auto errorOf = [&](std::string name, std::string version, int16_t in) {
    return client.call(wire::ApiVersionsRequest{.clientSoftwareName = name, .clientSoftwareVersion = version}, in)
        .errorCode;
  };
  CHECK(errorOf("", "1", 3) == Error::invalidRequest);
  CHECK(errorOf("a b", "1", 3) == Error::invalidRequest);
  CHECK(errorOf("-a", "1", 3) == Error::invalidRequest);
  CHECK(errorOf("a-", "1", 4) == Error::invalidRequest);
  CHECK(errorOf("a", "", 3) == Error::invalidRequest);
  CHECK(errorOf("a-b.c", "1.0-rc1", 3) == Error::none);
  CHECK(errorOf("", "", 2) == Error::none);

  auto cluster = client.call(about({}), 12).clusterId;
  wire::ApiVersionsRequest request{
      .clientSoftwareName = "a", .clientSoftwareVersion = "1", .clusterId = cluster, .nodeId = 1};
  CHECK(client.call(request, 5).errorCode == Error::none);
  request.nodeId = 99;
  CHECK(client.call(request, 5).errorCode == Error::rebootstrapRequired);
  request.clusterId = "nope";
  CHECK(client.call(request, 5).errorCode == Error::rebootstrapRequired);
  request.clusterId.reset();
  CHECK(client.call(request, 5).errorCode == Error::invalidRequest);
}

TEST_CASE("Metadata: an empty list is all topics in version 0 and none later, null is all") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  CHECK(client.call(about({}), 0).topics.size() >= 1);
  for (int16_t version = 1; version <= 13; ++version) CHECK(client.call(about({}), version).topics.empty());
  for (int16_t version = 1; version <= 13; ++version) {
    CHECK(client.call(wire::MetadataRequest{.topics = std::nullopt}, version).topics.size() >= 1);
  }
}

TEST_CASE("Metadata: by id and by name") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 2);
  auto byName = client.call(about({topic}), 12).topics.at(0);
  CHECK(byName.errorCode == Error::none);
  CHECK(byName.partitions.size() == 2);
  CHECK(byName.partitions[1].leaderId == 1);
  CHECK(byName.partitions[1].replicaNodes == std::vector<int32_t>{1});
  CHECK(byName.partitions[1].offlineReplicas.empty());
  REQUIRE_FALSE(byName.topicId.isZero());

  wire::MetadataRequest request;
  request.topics = {{.topicId = byName.topicId, .name = std::nullopt},
                    {.topicId = Uuid::fromHalves(0, 5), .name = topic},
                    {.name = std::nullopt}};
  auto byId = client.call(request, 12);
  CHECK(byId.topics.at(0).name == topic);
  CHECK(byId.topics.at(0).errorCode == Error::none);
  CHECK(byId.topics.at(1).errorCode == Error::unknownTopicId);  // the id wins over the name
  CHECK_FALSE(byId.topics.at(1).name);
  CHECK(byId.topics.at(2).errorCode == Error::invalidRequest);
}

TEST_CASE("Metadata: first use makes a topic where that is on and asked for, once, and names are checked") {
  std::string topic = newTopicName();
  Client client(sharedServer());
  auto withoutLeave = about({topic});
  withoutLeave.allowAutoTopicCreation = false;
  CHECK(client.call(withoutLeave, 4).topics.at(0).errorCode == Error::unknownTopicOrPartition);
  CHECK(client.call(withoutLeave, 4).topics.at(0).errorCode == Error::unknownTopicOrPartition);

  std::vector<Client> several;
  for (int i = 0; i < 8; ++i) several.emplace_back(sharedServer());
  for (Client& each : several) each.request(about({topic}), 12);
  Uuid id;
  for (Client& each : several) {
    auto answer = each.response<wire::MetadataResponse>(12).topics.at(0);
    CHECK(answer.errorCode == Error::none);
    CHECK(answer.partitions.size() == 1);
    CHECK((id.isZero() || id == answer.topicId));
    id = answer.topicId;
  }
  CHECK(produce(client, topic, 0, batchOf({"a"})).errorCode == Error::none);
  for (std::string bad : {std::string(""), std::string("."), std::string(".."), std::string("a/b"),
                          std::string("\xc2\x28"), std::string(250, 'a')}) {
    CHECK(client.call(about({bad}), 12).topics.at(0).errorCode == Error::invalidTopicException);
  }
  CHECK(client.call(about({std::string(249, 'b')}), 12).topics.at(0).errorCode == Error::none);
  CHECK(client.call(about({topic + ".x"}), 12).topics.at(0).errorCode == Error::none);
  CHECK(client.call(about({topic + "_x"}), 12).topics.at(0).errorCode == Error::invalidTopicException);
  CHECK(client.call(about({"__x" + topic}), 12).topics.at(0).errorCode == Error::none);
}

TEST_CASE("Metadata: with auto.create.topics.enable off nothing is made") {
  TestServer server;
  Client client(server);
  CHECK(client.call(about({"new"}), 12).topics.at(0).errorCode == Error::unknownTopicOrPartition);
  CHECK(client.call(wire::MetadataRequest{.topics = std::nullopt}, 12).topics.empty());
}

TEST_CASE("Metadata: what may be done is told when it is asked for") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  auto request = about({topic});
  CHECK(client.call(request, 8).topics.at(0).topicAuthorizedOperations == INT32_MIN);
  request.includeTopicAuthorizedOperations = true;
  request.includeClusterAuthorizedOperations = true;
  auto response = client.call(request, 8);
  CHECK(response.topics.at(0).topicAuthorizedOperations == 3576);
  CHECK(response.clusterAuthorizedOperations == 8096);
}

TEST_CASE("DescribeTopicPartitions: page by page, in order of name, each partition once") {
  TestServer server;
  Client client(server);
  for (auto [name, count] : {std::pair("b", 3), std::pair("a", 2), std::pair("c", 4)}) {
    client.call(wire::CreateTopicsRequest{.topics = {{.name = name, .numPartitions = count, .replicationFactor = 1}}},
                7);
  }
  wire::DescribeTopicPartitionsRequest request{.responsePartitionLimit = 2};
  std::string seen;
  for (int page = 0; page < 20; ++page) {
    auto response = client.call(request, 0);
    for (const auto& topic : response.topics) {
      CHECK(topic.errorCode == Error::none);
      for (const auto& partition : topic.partitions)
        seen += fmt::format("{}{} ", *topic.name, partition.partitionIndex);
    }
    seen += "| ";
    if (!response.nextCursor) break;
    request.cursor = {.topicName = response.nextCursor->topicName,
                      .partitionIndex = response.nextCursor->partitionIndex};
  }
  CHECK(seen == "a0 a1 | b0 b1 | b2 c0 | c1 c2 | c3 | ");
  wire::DescribeTopicPartitionsRequest some;
  some.topics = {{.name = "c"}, {.name = "nosuch"}, {.name = "a/b"}, {.name = "c"}};
  auto response = client.call(some, 0);
  REQUIRE(response.topics.size() == 3);
  CHECK(response.topics[0].errorCode == Error::invalidTopicException);
  CHECK(*response.topics[1].name == "c");
  CHECK(response.topics[1].partitions.size() == 4);
  CHECK(response.topics[2].errorCode == Error::unknownTopicOrPartition);
}

TEST_CASE("DescribeCluster: brokers, but no controllers on a broker's listener") {
  Client client(sharedServer());
  for (int16_t version = 0; version <= 2; ++version) {
    auto response = client.call(wire::DescribeClusterRequest{}, version);
    CHECK(response.errorCode == Error::none);
    REQUIRE(response.brokers.size() == 1);
    CHECK(response.brokers[0].brokerId == 1);
    CHECK(response.brokers[0].port == sharedServer().port());
    CHECK(response.controllerId == 1);
  }
  CHECK(client.call(wire::DescribeClusterRequest{.endpointType = 2}, 1).errorCode == Error::mismatchedEndpointType);
  CHECK(client.call(wire::DescribeClusterRequest{.endpointType = 9}, 1).errorCode == Error::unsupportedEndpointType);
}

}  // namespace
}  // namespace mq::kafka::test
