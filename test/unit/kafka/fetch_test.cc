#include <doctest/doctest.h>

#include <set>
#include <thread>

#include "batches.h"
#include "record/batch.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"
#include "wire/delete_records_request.h"
#include "wire/delete_records_response.h"
#include "wire/delete_topics_request.h"
#include "wire/delete_topics_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"

namespace mq::kafka::test {
namespace {

using Clock = std::chrono::steady_clock;

Uuid idOf(Client& client, const std::string& topic) {
  wire::MetadataRequest request{.topics = std::vector<wire::MetadataRequest::MetadataRequestTopic>{{.name = topic}}};
  return client.call(request, 12).topics.at(0).topicId;
}
size_t bytesOf(const wire::FetchResponse::PartitionData& partition) {
  return partition.records ? partition.records->size() : 0;
}

TEST_CASE("Fetch: every version is answered, by name and by id") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a"}));
  for (int16_t version = 4; version <= 18; ++version) {
    CAPTURE(version);
    auto request = fetchRequest(version < 13 ? topic : "", {{0, 0}});
    if (version >= 13) request.topics[0].topicId = idOf(client, topic);
    auto response = client.call(request, version);
    CHECK(response.errorCode == Error::none);
    auto& partition = response.responses.at(0).partitions.at(0);
    CHECK(partition.errorCode == Error::none);
    CHECK(partition.highWatermark == 1);
    CHECK(bytesOf(partition) > 0);
    CHECK_FALSE(partition.abortedTransactions);
    CHECK(partition.preferredReadReplica == -1);
  }
}

TEST_CASE("Fetch: waits for data, and is woken by it wherever the partition lives") {
  Client client(sharedServer()), producer(sharedServer());
  for (int32_t partition = 0; partition < 4; ++partition) {
    std::string topic = createTopic(client, 4);
    for (int32_t each = 0; each < 4; ++each) produce(producer, topic, each, batchOf({"a"}));
    client.request(fetchRequest(topic, {{0, 1}, {1, 1}, {2, 1}, {3, 1}}, 30'000), 12);
    CHECK(client.silentFor(50ms));
    auto begin = Clock::now();
    REQUIRE(produce(producer, topic, partition, batchOf({"b"})).errorCode == Error::none);
    auto response = client.response<wire::FetchResponse>(12);
    CHECK(Clock::now() - begin < 5s);
    CHECK(bytesOf(response.responses.at(0).partitions.at(static_cast<size_t>(partition))) > 0);
  }
}

TEST_CASE("Fetch: a full answer names every partition that was asked for, empty or not, in every version") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 20);
  for (int32_t partition : {1, 4, 9, 16, 19}) produce(client, topic, partition, batchOf({"a"}));
  for (int16_t version = 4; version <= 12; ++version) {
    CAPTURE(version);
    auto request = fetchRequest(topic, {});
    for (int32_t each = 0; each < 20; ++each)
      request.topics[0].partitions.push_back({.partition = each, .partitionMaxBytes = 1 << 20});
    std::set<int32_t> named, filled;
    auto response = client.call(request, version);
    for (const auto& partition : response.responses.at(0).partitions) {
      CHECK(partition.errorCode == Error::none);
      named.insert(partition.partitionIndex);
      if (bytesOf(partition) > 0) filled.insert(partition.partitionIndex);
    }
    CHECK(named.size() == 20);
    CHECK(filled == std::set<int32_t>{1, 4, 9, 16, 19});
  }
}

TEST_CASE("Fetch: max_wait ends a wait without data, and min_bytes is waited for") {
  Client client(sharedServer()), producer(sharedServer());
  std::string topic = createTopic(client, 2);
  produce(producer, topic, 0, batchOf({"a"}));
  produce(producer, topic, 1, batchOf({"a"}));
  auto begin = Clock::now();
  auto response = client.call(fetchRequest(topic, {{0, 1}, {1, 1}}, 200), 12);
  CHECK(Clock::now() - begin >= 190ms);
  CHECK(response.responses.at(0).partitions.size() == 2);  // a full answer names every partition, empty or not

  auto request = fetchRequest(topic, {{0, 0}, {1, 0}}, 30'000);
  request.minBytes = 5'000;
  client.request(request, 12);
  CHECK(client.silentFor(50ms));
  produce(producer, topic, 0, batchOfSize(2'000));
  CHECK(client.silentFor(50ms));
  produce(producer, topic, 1, batchOfSize(3'500));
  response = client.response<wire::FetchResponse>(12);
  CHECK(bytesOf(response.responses[0].partitions.at(0)) + bytesOf(response.responses[0].partitions.at(1)) >= 5'000);
}

TEST_CASE("Fetch: the first batch comes whole although it is over every limit, the others wait their turn") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 3, {{"max.message.bytes", "2000000"}});
  for (int32_t partition = 0; partition < 3; ++partition)
    REQUIRE(produce(client, topic, partition, batchOfSize(500'000)).errorCode == Error::none);
  auto request = fetchRequest(topic, {{0, 0}, {1, 0}, {2, 0}});
  request.maxBytes = 1000;
  for (auto& partition : request.topics[0].partitions) partition.partitionMaxBytes = 1000;
  auto response = client.call(request, 12);
  int whole = 0;
  for (const auto& partition : response.responses.at(0).partitions) {
    whole += bytesOf(partition) > 500'000;
    CHECK((bytesOf(partition) == 0 || bytesOf(partition) > 500'000));
  }
  CHECK(whole == 1);
}

TEST_CASE("Fetch: offsets out of range, unknown topics and newer epochs are errors of their partition, at once") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a"}));
  auto begin = Clock::now();
  auto beyond = client.call(fetchRequest(topic, {{0, 2}}, 10'000), 12).responses.at(0).partitions.at(0);
  CHECK(beyond.errorCode == Error::offsetOutOfRange);
  CHECK(beyond.highWatermark == -1);
  CHECK(client.call(fetchRequest(topic, {{0, -1}}, 10'000), 12).responses.at(0).partitions.at(0).errorCode ==
        Error::offsetOutOfRange);
  auto unknown = client.call(fetchRequest("nosuch", {{0, 0}}, 10'000), 12).responses.at(0).partitions.at(0);
  CHECK(unknown.errorCode == Error::unknownTopicOrPartition);
  REQUIRE(unknown.records);
  CHECK(unknown.records->empty());
  auto newer = fetchRequest(topic, {{0, 0}}, 10'000);
  newer.topics[0].partitions[0].currentLeaderEpoch = 99;
  CHECK(client.call(newer, 12).responses.at(0).partitions.at(0).errorCode == Error::unknownLeaderEpoch);
  auto byId = fetchRequest("", {{0, 0}}, 10'000);
  CHECK(client.call(byId, 13).responses.at(0).partitions.at(0).errorCode == Error::unknownTopicId);
  CHECK(Clock::now() - begin < 5s);
}

TEST_CASE("Fetch sessions: only what changed is answered") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 3);
  for (int32_t partition = 0; partition < 3; ++partition) produce(client, topic, partition, batchOf({"a"}));
  auto full = fetchRequest(topic, {{0, 1}, {1, 1}, {2, 1}});
  full.sessionEpoch = 0;
  auto opened = client.call(full, 12);
  REQUIRE(opened.sessionId != 0);
  CHECK(opened.responses.at(0).partitions.size() == 3);

  wire::FetchRequest next{.maxWaitMs = 0, .minBytes = 1, .sessionId = opened.sessionId, .sessionEpoch = 1};
  auto nothing = client.call(next, 12);
  CHECK(nothing.sessionId == opened.sessionId);
  CHECK(nothing.responses.empty());

  produce(client, topic, 1, batchOf({"b"}));
  next.sessionEpoch = 2;
  auto news = client.call(next, 12);
  REQUIRE(news.responses.size() == 1);
  REQUIRE(news.responses[0].partitions.size() == 1);
  CHECK(news.responses[0].partitions[0].partitionIndex == 1);
  CHECK(bytesOf(news.responses[0].partitions[0]) > 0);

  // The client has read it, drops partition 0, and asks again.
  next.sessionEpoch = 3;
  next.topics = {{.topic = topic, .partitions = {{.partition = 1, .fetchOffset = 2, .partitionMaxBytes = 1 << 20}}}};
  next.forgottenTopicsData = {{.topic = topic, .partitions = {0}}, {.topic = "nosuch", .partitions = {0, 0}}};
  CHECK(client.call(next, 12).responses.empty());
  produce(client, topic, 0, batchOf({"b"}));
  next.topics.clear();
  next.forgottenTopicsData.clear();
  next.sessionEpoch = 4;
  CHECK(client.call(next, 12).responses.empty());

  next.sessionEpoch = 4;
  CHECK(client.call(next, 12).errorCode == Error::invalidFetchSessionEpoch);
  next.sessionId = 4711;
  CHECK(client.call(next, 12).errorCode == Error::fetchSessionIdNotFound);
  next.sessionId = opened.sessionId;
  next.sessionEpoch = 5;
  CHECK(client.call(next, 13).errorCode == Error::fetchSessionTopicIdError);
  next.sessionEpoch = -1;  // ends it
  CHECK(client.call(next, 12).errorCode == Error::none);
  next.sessionEpoch = 5;
  CHECK(client.call(next, 12).errorCode == Error::fetchSessionIdNotFound);
}

TEST_CASE("Fetch sessions: who got data goes last, so a small answer starves nobody") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 4);
  for (int32_t partition = 0; partition < 4; ++partition) produce(client, topic, partition, batchOfSize(10'000));
  auto request = fetchRequest(topic, {{0, 0}, {1, 0}, {2, 0}, {3, 0}});
  request.maxBytes = 1000;
  request.sessionEpoch = 0;
  std::set<int32_t> served;
  for (int32_t round = 0; round < 4; ++round) {
    auto response = client.call(request, 12);
    for (const auto& topicPart : response.responses) {
      for (const auto& partition : topicPart.partitions) {
        if (bytesOf(partition) > 0) served.insert(partition.partitionIndex);
      }
    }
    request.sessionId = response.sessionId;
    request.sessionEpoch = round + 1;
    request.topics.clear();
  }
  CHECK(served.size() == 4);
}

TEST_CASE("Fetch sessions: a topic that is deleted and made again is another one") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a", "b"}));
  auto request = fetchRequest("", {{0, 2}});
  Uuid old = idOf(client, topic);
  request.topics[0].topicId = old;
  request.sessionEpoch = 0;
  auto opened = client.call(request, 13);
  REQUIRE(opened.responses.at(0).partitions.at(0).errorCode == Error::none);

  Client admin(sharedServer());
  client.request(
      wire::FetchRequest{.maxWaitMs = 20'000, .minBytes = 1, .sessionId = opened.sessionId, .sessionEpoch = 1}, 13);
  CHECK(client.silentFor(50ms));
  CHECK(admin.call(wire::DeleteTopicsRequest{.topicNames = {topic}, .timeoutMs = 1000}, 5).responses.at(0).errorCode ==
        Error::none);
  auto woken = client.response<wire::FetchResponse>(13);
  REQUIRE(woken.responses.size() == 1);
  CHECK(woken.responses[0].partitions.at(0).errorCode == Error::unknownTopicId);
  auto made =
      admin.call(wire::CreateTopicsRequest{.topics = {{.name = topic, .numPartitions = 1, .replicationFactor = 1}}}, 7);
  REQUIRE(made.topics.at(0).errorCode == Error::none);
  CHECK(made.topics[0].topicId != old);
  auto again = client.call(wire::FetchRequest{.sessionId = opened.sessionId, .sessionEpoch = 2}, 13);
  CHECK(again.responses.at(0).partitions.at(0).errorCode == Error::unknownTopicId);
}

TEST_CASE("Fetch sessions: a log start that moves is news, and so is what another isolation level may see") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 2);
  for (int32_t partition : {0, 1}) produce(client, topic, partition, batchOf({"a", "b"}));
  auto full = fetchRequest(topic, {{0, 2}, {1, 2}});
  full.sessionEpoch = 0;
  wire::FetchRequest next{.maxWaitMs = 0, .minBytes = 1, .sessionId = client.call(full, 12).sessionId};
  next.sessionEpoch = 1;
  CHECK(client.call(next, 12).responses.empty());

  wire::DeleteRecordsRequest cut{.topics = {{.name = topic, .partitions = {{.partitionIndex = 1, .offset = 1}}}},
                                 .timeoutMs = 5000};
  REQUIRE(client.call(cut, 2).topics.at(0).partitions.at(0).errorCode == Error::none);
  next.sessionEpoch = 2;
  auto moved = client.call(next, 12);
  REQUIRE(moved.responses.size() == 1);
  CHECK(moved.responses[0].partitions.at(0).partitionIndex == 1);
  CHECK(moved.responses[0].partitions.at(0).logStartOffset == 1);

  next.isolationLevel = 1;
  next.sessionEpoch = 3;
  CHECK(client.call(next, 12).responses.empty());
}

TEST_CASE("Fetch sessions: by name, a topic that is made anew is read from then on") {
  Client client(sharedServer()), admin(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a"}));
  auto full = fetchRequest(topic, {{0, 1}});
  full.sessionEpoch = 0;
  wire::FetchRequest next{.maxWaitMs = 0, .minBytes = 1, .sessionId = client.call(full, 12).sessionId};
  admin.call(wire::DeleteTopicsRequest{.topicNames = {topic}, .timeoutMs = 1000}, 5);
  next.sessionEpoch = 1;
  auto gone = client.call(next, 12);
  REQUIRE(gone.responses.size() == 1);
  CHECK(gone.responses[0].partitions.at(0).errorCode == Error::unknownTopicOrPartition);
  admin.call(wire::CreateTopicsRequest{.topics = {{.name = topic, .numPartitions = 1, .replicationFactor = 1}}}, 7);
  Buffer batch = batchOf({"new", "newer"});
  REQUIRE(produce(admin, topic, 0, batch).errorCode == Error::none);
  next.sessionEpoch = 2;
  auto anew = client.call(next, 12);
  REQUIRE(anew.responses.size() == 1);
  CHECK(anew.responses[0].partitions.at(0).errorCode == Error::none);
  CHECK(bytesOf(anew.responses[0].partitions[0]) == batch.size());
}

TEST_CASE("Fetch: zero ids, partitions twice and unknown ones to forget are no harm") {
  Client client(sharedServer());
  wire::FetchRequest request{.sessionEpoch = 0};
  request.topics = {{.partitions = {{.partition = 0}, {.partition = 0}}}, {.partitions = {{.partition = -1}}}};
  request.forgottenTopicsData = {{.partitions = {0, 1}}};
  auto response = client.call(request, 13);
  CHECK(response.errorCode == Error::none);
  for (const auto& topic : response.responses) {
    for (const auto& partition : topic.partitions) CHECK(partition.errorCode == Error::unknownTopicId);
  }
}

TEST_CASE("Fetch: zstd for a client that is too old is an error, not bytes it cannot read") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 1, {{"compression.type", "zstd"}});
  produce(client, topic, 0, batchOf({"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}));
  for (int16_t version = 4; version <= 12; ++version) {
    CAPTURE(version);
    CHECK(fetchOne(client, topic, 0, 0, version).errorCode ==
          (version < 10 ? Error::unsupportedCompressionType : Error::none));
  }
}

TEST_CASE("Fetch: what was compressed on arrival is sent plain to clients that are not known to decode it") {
  Client unnamed(sharedServer()), named(sharedServer());
  std::string topic = createTopic(unnamed, 1, {{"compression.type", "auto"}});
  std::string text(100'000, 'a');
  Buffer batch = batchOf({text});
  REQUIRE(produce(unnamed, topic, 0, batch).errorCode == Error::none);

  named.call(wire::ApiVersionsRequest{.clientSoftwareName = "apache-kafka-java", .clientSoftwareVersion = "4.4.0"}, 3);
  auto compressed = fetchOne(named, topic, 0, 0);
  CHECK(bytesOf(compressed) < 10'000);
  CHECK(record::BatchView(compressed.records->view()).codec() == record::Codec::lz4);

  auto plain = fetchOne(unnamed, topic, 0, 0);
  REQUIRE(bytesOf(plain) == batch.size());
  record::BatchView view(plain.records->view());
  CHECK(view.codec() == record::Codec::none);
  CHECK(view.crcOk());
}

TEST_CASE("Fetch: what is sent plain is held to the client's limits as it is sent, not as it is stored") {
  Client unnamed(sharedServer());
  std::string topic = createTopic(unnamed, 3, {{"compression.type", "auto"}});
  std::string text(900'000, 'a');  // a few KB as stored
  for (int32_t partition = 0; partition < 3; ++partition) {
    for (int i = 0; i < 10; ++i) REQUIRE(produce(unnamed, topic, partition, batchOf({text})).errorCode == Error::none);
  }
  auto total = [&](int32_t maxBytes, int32_t partitionBytes) {
    auto request = fetchRequest(topic, {{0, 0}, {1, 0}, {2, 0}});
    request.maxBytes = maxBytes;
    for (auto& partition : request.topics[0].partitions) partition.partitionMaxBytes = partitionBytes;
    std::vector<size_t> batches;
    for (const auto& partition : unnamed.call(request, 12).responses.at(0).partitions) {
      size_t count = 0;
      for (Bytes rest = partition.records->view(); !rest.empty(); ++count)
        rest = rest.subspan(record::BatchView(rest).sizeBytes());
      batches.push_back(count);
    }
    return batches;
  };
  CHECK(total(50 << 20, 1 << 20) == std::vector<size_t>{2, 2, 2});
  CHECK(total(1 << 20, 1 << 20) == std::vector<size_t>{2, 0, 0});
  CHECK(total(50 << 20, 10'000) == std::vector<size_t>{1, 1, 1});
  CHECK(total(50 << 20, 50 << 20) == std::vector<size_t>{10, 10, 10});
}

}  // namespace
}  // namespace mq::kafka::test
