// Topics, partitions, records, configuration, producer ids, log directories, offsets.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <thread>

#include "batches.h"
#include "wire/alter_configs_request.h"
#include "wire/alter_configs_response.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"
#include "wire/consumer_group_heartbeat_request.h"
#include "wire/consumer_group_heartbeat_response.h"
#include "wire/create_partitions_request.h"
#include "wire/create_partitions_response.h"
#include "wire/delete_records_request.h"
#include "wire/delete_records_response.h"
#include "wire/delete_topics_request.h"
#include "wire/delete_topics_response.h"
#include "wire/describe_configs_request.h"
#include "wire/describe_configs_response.h"
#include "wire/describe_log_dirs_request.h"
#include "wire/describe_log_dirs_response.h"
#include "wire/describe_producers_request.h"
#include "wire/describe_producers_response.h"
#include "wire/incremental_alter_configs_request.h"
#include "wire/incremental_alter_configs_response.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"
#include "wire/list_config_resources_request.h"
#include "wire/list_config_resources_response.h"
#include "wire/list_offsets_request.h"
#include "wire/list_offsets_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"
#include "wire/offset_for_leader_epoch_request.h"
#include "wire/offset_for_leader_epoch_response.h"
#include "wire/update_features_request.h"
#include "wire/update_features_response.h"

namespace mq::kafka::test {
namespace {

constexpr int8_t kTopic = 2;
constexpr int8_t kBroker = 4;

using Found = wire::ListOffsetsResponse::ListOffsetsPartitionResponse;

Found offsetAt(Client& client, const std::string& topic, int64_t timestamp, int16_t version = 11) {
  wire::ListOffsetsRequest request{.replicaId = -1};
  request.topics = {{.name = topic, .partitions = {{.partitionIndex = 0, .timestamp = timestamp}}}};
  return client.call(request, version).topics.at(0).partitions.at(0);
}

wire::CreateTopicsRequest::CreatableTopic topicOf(std::string name, int32_t partitions = 1) {
  return {.name = std::move(name), .numPartitions = partitions, .replicationFactor = 1};
}

TEST_CASE("ListOffsets: an offset by time is that of the first record not older, whatever the order of times") {
  Client client(sharedServer());
  for (auto codec : {record::Codec::none, record::Codec::gzip, record::Codec::zstd}) {
    std::string topic = createTopic(
        client, 1, {{"compression.type", "producer"}, {"message.timestamp.after.max.ms", "9223372036854775807"}});
    record::Workspace workspace;
    record::BatchBuilder builder({.codec = codec});
    for (int64_t time : {100, 300, 200}) builder.add({.timestamp = WallMs(time), .value = asBytes("v")});
    REQUIRE(produce(client, topic, 0, builder.build(workspace)).errorCode == Error::none);
    REQUIRE(produce(client, topic, 0, batchOf({"x", "y"}, {}, 250)).errorCode == Error::none);
    auto at = [&](int64_t time) { return offsetAt(client, topic, time).offset; };
    CHECK(at(99) == 0);
    CHECK(at(100) == 0);
    CHECK(at(150) == 1);
    CHECK(at(250) == 1);
    CHECK(at(300) == 1);
    CHECK(at(301) == -1);
    CHECK(offsetAt(client, topic, 150).timestamp == 300);
    CHECK(at(-1) == 5);
    CHECK(at(-2) == 0);
    CHECK(at(-3) == 1);
    CHECK(offsetAt(client, topic, -3).timestamp == 300);
    CHECK(at(-4) == 0);
    CHECK(at(-5) == -1);
    CHECK(at(-6) == -1);
  }
}

TEST_CASE("ListOffsets: special positions came with versions, and what has none is UNSUPPORTED_VERSION") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a"}));
  for (auto [timestamp, from] :
       {std::pair(-1, 1), std::pair(-2, 1), std::pair(-3, 7), std::pair(-4, 8), std::pair(-5, 9), std::pair(-6, 11)}) {
    for (int16_t version = 1; version <= 11; ++version) {
      CAPTURE(timestamp);
      CAPTURE(version);
      CHECK(offsetAt(client, topic, timestamp, version).errorCode ==
            (version < from ? Error::unsupportedVersion : Error::none));
    }
  }
  CHECK(offsetAt(client, topic, -7).errorCode == Error::unsupportedVersion);
  CHECK(offsetAt(client, "nosuch", -1).errorCode == Error::unknownTopicOrPartition);
  wire::ListOffsetsRequest twice{.replicaId = -1};
  twice.topics = {
      {.name = topic, .partitions = {{.partitionIndex = 0, .timestamp = -1}, {.partitionIndex = 0, .timestamp = -1}}}};
  CHECK(client.call(twice, 11).topics.at(0).partitions.at(1).errorCode == Error::invalidRequest);
}

TEST_CASE("OffsetForLeaderEpoch: ends of epochs, and errors for those that cannot be") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a", "b"}));
  auto at = [&](int32_t epoch, int32_t current) {
    wire::OffsetForLeaderEpochRequest request;
    request.topics = {
        {.topic = topic, .partitions = {{.partition = 0, .currentLeaderEpoch = current, .leaderEpoch = epoch}}}};
    return client.call(request, 4).topics.at(0).partitions.at(0);
  };
  CHECK(at(0, -1).endOffset == 2);
  CHECK(at(0, 0).leaderEpoch == 0);
  CHECK(at(0, 7).errorCode == Error::unknownLeaderEpoch);
}

TEST_CASE("CreateTopics: defaults, errors per topic, and nothing made by validateOnly") {
  Client client(sharedServer());
  std::string name = newTopicName();
  wire::CreateTopicsRequest request{.topics = {topicOf(name, -1)}, .validateOnly = true};
  request.topics[0].replicationFactor = -1;
  auto checked = client.call(request, 7).topics.at(0);
  CHECK(checked.errorCode == Error::none);
  CHECK(checked.numPartitions == 1);
  CHECK(checked.replicationFactor == 1);
  REQUIRE(checked.configs);
  CHECK(std::ranges::find(*checked.configs, "cleanup.policy", &wire::CreateTopicsResponse::CreatableTopicConfigs::name)
            ->value == "delete");
  CHECK(fetchOne(client, name, 0, 0).errorCode == Error::unknownTopicOrPartition);

  auto errorOf = [&](wire::CreateTopicsRequest::CreatableTopic topic) {
    return client.call(wire::CreateTopicsRequest{.topics = {std::move(topic)}}, 7).topics.at(0).errorCode;
  };
  CHECK(errorOf(topicOf(name)) == Error::none);
  CHECK(errorOf(topicOf(name)) == Error::topicAlreadyExists);
  CHECK(errorOf(topicOf("a/b")) == Error::invalidTopicException);
  CHECK(errorOf(topicOf(newTopicName(), 0)) == Error::invalidPartitions);
  auto replicated = topicOf(newTopicName());
  replicated.replicationFactor = 3;
  CHECK(errorOf(replicated) == Error::invalidReplicationFactor);
  auto misspelt = topicOf(newTopicName());
  misspelt.configs = {{.name = "retention.sm", .value = "1"}};
  CHECK(errorOf(misspelt) == Error::invalidConfig);
  auto twice = client.call(wire::CreateTopicsRequest{.topics = {topicOf("twice"), topicOf("twice")}}, 7);
  REQUIRE(twice.topics.size() == 1);
  CHECK(twice.topics[0].errorCode == Error::invalidRequest);

  std::string dotted = newTopicName();
  CHECK(errorOf(topicOf(dotted + ".x")) == Error::none);
  CHECK(errorOf(topicOf(dotted + "_x")) == Error::invalidTopicException);
}

TEST_CASE("DeleteTopics: by name, by id, and what is not there") {
  Client client(sharedServer());
  std::string a = createTopic(client), b = createTopic(client);
  auto byName = client.call(wire::DeleteTopicsRequest{.topicNames = {a, "nosuch"}}, 5);
  CHECK(byName.responses.at(0).errorCode == Error::none);
  CHECK(byName.responses.at(1).errorCode == Error::unknownTopicOrPartition);
  wire::MetadataRequest about;
  about.topics->push_back({.name = b});
  Uuid id = client.call(about, 12).topics.at(0).topicId;
  wire::DeleteTopicsRequest byId;
  byId.topics = {{.topicId = id}, {.topicId = Uuid::fromHalves(0, 5)}};
  auto deleted = client.call(byId, 6);
  CHECK(deleted.responses.at(0).errorCode == Error::none);
  CHECK(deleted.responses.at(0).name == b);
  CHECK(deleted.responses.at(1).errorCode == Error::unknownTopicId);
  CHECK_FALSE(deleted.responses.at(1).name);
  wire::DeleteTopicsRequest both;
  both.topics = {{.name = a, .topicId = id}};
  CHECK(client.call(both, 6).responses.at(0).errorCode == Error::invalidRequest);
  CHECK(produce(client, createTopic(client), 0, batchOf({"a"})).errorCode == Error::none);
}

TEST_CASE("DeleteTopics: delete.topic.enable=false refuses, in a way that old clients understand too") {
  TestServer server({{"delete.topic.enable", "false"}});
  Client client(server);
  std::string topic = createTopic(client);
  CHECK(client.call(wire::DeleteTopicsRequest{.topicNames = {topic}}, 5).responses.at(0).errorCode ==
        Error::topicDeletionDisabled);
  CHECK(client.call(wire::DeleteTopicsRequest{.topicNames = {topic}}, 1).responses.at(0).errorCode ==
        Error::invalidRequest);
}

TEST_CASE("CreatePartitions: more, never fewer") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 2);
  auto errorOf = [&](int32_t count, bool validateOnly = false) {
    wire::CreatePartitionsRequest request{.timeoutMs = 1000, .validateOnly = validateOnly};
    request.topics = {{.name = topic, .count = count, .assignments = std::nullopt}};
    return client.call(request, 3).results.at(0).errorCode;
  };
  CHECK(errorOf(4, true) == Error::none);
  CHECK(errorOf(4) == Error::none);
  CHECK(errorOf(4) == Error::invalidPartitions);
  CHECK(errorOf(1) == Error::invalidPartitions);
  CHECK(produce(client, topic, 3, batchOf({"a"})).errorCode == Error::none);
}

TEST_CASE("DeleteRecords: moves the log start, to the high watermark with -1") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a", "b", "c"}));
  produce(client, topic, 0, batchOf({"d"}));
  auto cut = [&](int64_t before) {
    wire::DeleteRecordsRequest request{.timeoutMs = 5000};
    request.topics = {{.name = topic, .partitions = {{.partitionIndex = 0, .offset = before}}}};
    return client.call(request, 2).topics.at(0).partitions.at(0);
  };
  CHECK(cut(2).lowWatermark == 2);
  CHECK(offsetAt(client, topic, -2).offset == 2);
  CHECK(fetchOne(client, topic, 0, 1).errorCode == Error::offsetOutOfRange);
  CHECK(cut(5).errorCode == Error::offsetOutOfRange);
  CHECK(cut(5).lowWatermark == -1);
  CHECK(cut(-1).lowWatermark == 4);
  CHECK(fetchOne(client, topic, 0, 4).logStartOffset == 4);
}

using Entry = wire::DescribeConfigsResponse::DescribeConfigsResourceResult;

std::optional<Entry> config(Client& client, int8_t type, const std::string& resource, const std::string& name,
                            int16_t version = 4) {
  wire::DescribeConfigsRequest request{.includeSynonyms = true, .includeDocumentation = version >= 3};
  request.resources = {
      {.resourceType = type, .resourceName = resource, .configurationKeys = std::vector<std::string>{name}}};
  auto response = client.call(request, version);
  auto& configs = response.results.at(0).configs;
  if (configs.empty()) return std::nullopt;
  return configs[0];
}

TEST_CASE("Configs: set, append, subtract, delete, replace, and where a value comes from") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  auto entry = config(client, kTopic, topic, "retention.ms");
  REQUIRE(entry);
  CHECK(entry->value == "604800000");
  CHECK(entry->configSource == 5);
  CHECK(entry->configType == 5);
  CHECK(entry->documentation->size() > 10);
  CHECK_FALSE(entry->readOnly);

  auto alter = [&](std::string name, int8_t op, std::optional<std::string> value) {
    wire::IncrementalAlterConfigsRequest request;
    request.resources = {{.resourceType = kTopic,
                          .resourceName = topic,
                          .configs = {{.name = std::move(name), .configOperation = op, .value = std::move(value)}}}};
    return client.call(request, 1).responses.at(0).errorCode;
  };
  CHECK(alter("retention.ms", 0, "1000") == Error::none);
  entry = config(client, kTopic, topic, "retention.ms");
  CHECK(entry->value == "1000");
  CHECK(entry->configSource == 1);
  REQUIRE(entry->synonyms.size() >= 2);
  CHECK(entry->synonyms[0].value == "1000");
  CHECK(alter("cleanup.policy", 2, "compact") == Error::none);
  CHECK(alter("cleanup.policy", 3, "delete") == Error::none);
  CHECK(config(client, kTopic, topic, "cleanup.policy")->value == "compact");
  CHECK(alter("cleanup.policy", 0, "delete") == Error::none);
  CHECK(alter("retention.ms", 0, "7d") == Error::invalidConfig);
  CHECK(alter("retention.sm", 0, "1") == Error::invalidConfig);
  CHECK(alter("retention.ms", 1, std::nullopt) == Error::none);
  CHECK(config(client, kTopic, topic, "retention.ms")->configSource == 5);

  wire::AlterConfigsRequest replace;
  replace.resources = {
      {.resourceType = kTopic, .resourceName = topic, .configs = {{.name = "segment.bytes", .value = "1048576"}}}};
  CHECK(client.call(replace, 2).responses.at(0).errorCode == Error::none);
  CHECK(config(client, kTopic, topic, "segment.bytes")->value == "1048576");
}

TEST_CASE("DescribeConfigs: brokers, unknown resources, and versions without documentation") {
  Client client(sharedServer());
  auto broker = config(client, kBroker, "1", "num.partitions");
  REQUIRE(broker);
  CHECK(broker->configSource == 5);
  CHECK(config(client, kBroker, "1", "listeners")->configSource == 4);
  CHECK_FALSE(config(client, kBroker, "1", "nosuch"));
  for (int16_t version = 1; version <= 4; ++version) CHECK(config(client, kBroker, "1", "num.partitions", version));
  auto errorOf = [&](int8_t type, std::string name) {
    wire::DescribeConfigsRequest request;
    request.resources = {{.resourceType = type, .resourceName = std::move(name), .configurationKeys = std::nullopt}};
    return client.call(request, 4).results.at(0).errorCode;
  };
  CHECK(errorOf(kTopic, "nosuch") == Error::unknownTopicOrPartition);
  CHECK(errorOf(kTopic, "a/b") == Error::invalidTopicException);
  CHECK(errorOf(kBroker, "7") == Error::invalidRequest);
  CHECK(errorOf(kBroker, "") == Error::none);
  CHECK(errorOf(99, "x") == Error::invalidRequest);
}

TEST_CASE("Configs: a dynamic broker value takes effect at once") {
  TestServer server;
  Client client(server);
  auto alter = [&](int8_t op, std::optional<std::string> value) {
    wire::IncrementalAlterConfigsRequest request;
    request.resources = {{.resourceType = kBroker,
                          .resourceName = "",
                          .configs = {{.name = "log.retention.ms", .configOperation = op, .value = std::move(value)}}}};
    return client.call(request, 1).responses.at(0).errorCode;
  };
  REQUIRE(alter(0, "5000") == Error::none);
  std::string topic = createTopic(client);
  auto entry = config(client, kTopic, topic, "retention.ms");
  CHECK(entry->value == "5000");
  CHECK(entry->configSource == 3);
  CHECK(config(client, kBroker, "", "log.retention.ms")->value == "5000");
  REQUIRE(alter(1, std::nullopt) == Error::none);
  CHECK(config(client, kTopic, topic, "retention.ms")->value == "604800000");
}

TEST_CASE("Configs: of a group, which need not exist") {
  constexpr int8_t kGroup = 32;
  TestServer server({{"group.consumer.min.heartbeat.interval.ms", "100"}});
  Client client(server);
  auto alter = [&](std::string group, std::string value) {
    wire::IncrementalAlterConfigsRequest request;
    request.resources = {{.resourceType = kGroup,
                          .resourceName = std::move(group),
                          .configs = {{.name = "consumer.heartbeat.interval.ms", .value = std::move(value)}}}};
    return client.call(request, 1).responses.at(0).errorCode;
  };
  CHECK(config(client, kGroup, "g", "consumer.heartbeat.interval.ms")->configSource == 5);
  CHECK(alter("g", "600") == Error::none);
  auto entry = config(client, kGroup, "g", "consumer.heartbeat.interval.ms");
  CHECK(entry->value == "600");
  CHECK(entry->configSource == 8);
  CHECK(config(client, kGroup, "other", "consumer.heartbeat.interval.ms")->value == "5000");
  CHECK(alter("g", "1") == Error::invalidConfig);
  CHECK(alter("", "600") == Error::invalidRequest);
  CHECK(config(client, kGroup, "g", "consumer.heartbeat.interval.ms")->value == "600");
  auto listed = client.call(wire::ListConfigResourcesRequest{.resourceTypes = {kGroup}}, 1);
  REQUIRE(listed.configResources.size() == 1);
  CHECK(listed.configResources[0].resourceName == "g");

  // Its members hear of it with their next heartbeat.
  std::string topic = createTopic(client);
  wire::ConsumerGroupHeartbeatRequest beat{.groupId = "g", .memberId = "m", .rebalanceTimeoutMs = 1000};
  beat.subscribedTopicNames = {topic};
  beat.topicPartitions.emplace();
  awaitCoordinator(client, "g");
  auto told = client.call(beat, 1);
  REQUIRE(told.errorCode == Error::none);
  CHECK(told.heartbeatIntervalMs == 600);
  CHECK(alter("g", "700") == Error::none);
  wire::ConsumerGroupHeartbeatRequest again{.groupId = "g", .memberId = "m", .memberEpoch = told.memberEpoch};
  CHECK(client.call(again, 1).heartbeatIntervalMs == 700);
}

TEST_CASE("UpdateFeatures: levels go up and down, all that are asked for or none") {
  TestServer server;
  Client client(server);
  constexpr int8_t kUpgrade = 1, kDowngrade = 2;
  using Update = wire::UpdateFeaturesRequest::FeatureUpdateKey;
  auto update = [&](std::vector<Update> updates, int16_t version = 2, bool validateOnly = false) {
    wire::UpdateFeaturesRequest request;
    request.featureUpdates = std::move(updates);
    request.validateOnly = validateOnly;
    return client.call(request, version);
  };
  auto level = [&](std::string_view name) {
    wire::ApiVersionsRequest versions{.clientSoftwareName = "test", .clientSoftwareVersion = "1"};
    for (const auto& feature : client.call(std::move(versions), 4).finalizedFeatures)
      if (feature.name == name) return feature.maxVersionLevel;
    return int16_t{0};
  };
  auto refused = [&](std::vector<Update> updates, int16_t version = 2) {
    auto response = update(std::move(updates), version);
    CHECK(response.errorMessage.value_or("").size() > 10);
    CHECK(response.results.size() == (version < 2 ? 1 : 0));
    return response.errorCode;
  };
  const std::string group = "group.version";
  REQUIRE(level(group) == 1);
  CHECK(refused({{.feature = "no.such", .maxVersionLevel = 1, .upgradeType = kUpgrade}}) ==
        Error::invalidUpdateVersion);
  CHECK(refused({{.feature = group, .maxVersionLevel = 99, .upgradeType = kUpgrade}}, 1) ==
        Error::invalidUpdateVersion);
  CHECK(refused({{.feature = group, .maxVersionLevel = -1, .upgradeType = kDowngrade}}) == Error::invalidUpdateVersion);
  CHECK(refused({{.feature = group, .maxVersionLevel = 0, .upgradeType = kUpgrade}}) == Error::invalidUpdateVersion);
  CHECK(refused({{.feature = group, .maxVersionLevel = 0, .upgradeType = 9}}) == Error::invalidRequest);
  CHECK(refused({{.feature = group, .maxVersionLevel = 0, .allowDowngrade = false}}, 0) == Error::invalidUpdateVersion);
  CHECK(refused({{.feature = "metadata.version", .maxVersionLevel = 7, .upgradeType = kDowngrade}}) ==
        Error::invalidUpdateVersion);
  // One that is refused takes the others with it.
  CHECK(refused({{.feature = group, .maxVersionLevel = 0, .upgradeType = kDowngrade},
                 {.feature = "no.such", .maxVersionLevel = 1, .upgradeType = kUpgrade}}) ==
        Error::invalidUpdateVersion);
  CHECK(refused({{.feature = group, .maxVersionLevel = 0, .upgradeType = kDowngrade},
                 {.feature = group, .maxVersionLevel = 0, .upgradeType = kDowngrade}}) == Error::invalidRequest);
  CHECK(update({{.feature = group, .maxVersionLevel = 0, .upgradeType = kDowngrade}}, 2, true).errorCode ==
        Error::none);
  CHECK(level(group) == 1);
  auto same = update({{.feature = group, .maxVersionLevel = 1, .upgradeType = kUpgrade}}, 1);
  CHECK(same.errorCode == Error::none);
  CHECK(same.results.at(0).errorCode == Error::none);

  // What a level turns off is refused at once.
  std::string topic = createTopic(client);
  awaitCoordinator(client, "g");
  wire::ConsumerGroupHeartbeatRequest beat{.groupId = "g", .memberId = "m", .rebalanceTimeoutMs = 1000};
  beat.subscribedTopicNames = {topic};
  beat.topicPartitions.emplace();
  CHECK(update({{.feature = group, .maxVersionLevel = 0, .allowDowngrade = true}}, 0).errorCode == Error::none);
  CHECK(level(group) == 0);
  CHECK(client.call(beat, 1).errorCode == Error::unsupportedVersion);
  CHECK(update({{.feature = group, .maxVersionLevel = 1, .upgradeType = kUpgrade}}).errorCode == Error::none);
  CHECK(level(group) == 1);
  CHECK(client.call(beat, 1).errorCode == Error::none);
}

TEST_CASE("ListConfigResources: topics and brokers, of the types asked for") {
  TestServer server;
  Client client(server);
  std::string topic = createTopic(client);
  auto all = client.call(wire::ListConfigResourcesRequest{}, 1);
  CHECK(all.configResources.size() >= 3);
  auto topics = client.call(wire::ListConfigResourcesRequest{.resourceTypes = {kTopic}}, 1);
  REQUIRE(topics.configResources.size() == 1);
  CHECK(topics.configResources[0].resourceName == topic);
  CHECK(client.call(wire::ListConfigResourcesRequest{}, 0).configResources.empty());
  CHECK(client.call(wire::ListConfigResourcesRequest{.resourceTypes = {77}}, 1).errorCode == Error::unsupportedVersion);
}

TEST_CASE("InitProducerId: every producer gets an id of its own, whichever shard it talks to") {
  std::set<int64_t> ids;
  for (int i = 0; i < 20; ++i) {
    Client client(sharedServer());
    auto response =
        client.call(wire::InitProducerIdRequest{.transactionalId = std::nullopt}, static_cast<int16_t>(i % 6));
    CHECK(response.errorCode == Error::none);
    CHECK(response.producerEpoch == 0);
    CHECK(ids.insert(response.producerId).second);
  }
}

TEST_CASE("DescribeProducers: who is remembered, after an idempotent produce and its retry") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  int64_t id = client.call(wire::InitProducerIdRequest{.transactionalId = std::nullopt}, 4).producerId;
  Buffer batch = batchOf({"a", "b"}, {.producerId = ProducerId(id), .producerEpoch = 0, .baseSequence = 0});
  CHECK(produce(client, topic, 0, batch).baseOffset == 0);
  CHECK(produce(client, topic, 0, batch).baseOffset == 0);
  CHECK(fetchOne(client, topic, 0, 0).highWatermark == 2);
  wire::DescribeProducersRequest request;
  request.topics = {{.name = topic, .partitionIndexes = {0, 5}}};
  auto described = client.call(request, 0).topics.at(0).partitions;
  REQUIRE(described.at(0).activeProducers.size() == 1);
  CHECK(described[0].activeProducers[0].producerId == id);
  CHECK(described[0].activeProducers[0].lastSequence == 1);
  CHECK(described.at(1).errorCode == Error::unknownTopicOrPartition);
}

TEST_CASE("DescribeLogDirs: one directory, its space, and the bytes of the replicas asked for") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 2);
  Buffer batch = batchOfSize(10'000);
  produce(client, topic, 0, batch);
  produce(client, topic, 1, batchOf({"a"}));
  wire::DescribeLogDirsRequest request;
  request.topics = {{.topic = topic, .partitions = {0}}};
  for (int16_t version = 1; version <= 5; ++version) {
    auto response = client.call(request, version);
    auto& directory = response.results.at(0);
    CHECK(directory.errorCode == Error::none);
    if (version >= 4) CHECK(directory.totalBytes >= directory.usableBytes);
    REQUIRE(directory.topics.size() == 1);
    REQUIRE(directory.topics[0].partitions.size() == 1);
    CHECK(directory.topics[0].partitions[0].partitionSize == static_cast<int64_t>(batch.size()));
  }
  request.topics.reset();
  CHECK(client.call(request, 4).results.at(0).topics.size() >= 1);
}

}  // namespace
}  // namespace mq::kafka::test
