#include <doctest/doctest.h>

#include "base/crc32c.h"
#include "batches.h"
#include "record/batch.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"

namespace mq::kafka::test {
namespace {

Uuid idOf(Client& client, const std::string& topic) {
  wire::MetadataRequest request{.topics = std::vector<wire::MetadataRequest::MetadataRequestTopic>{{.name = topic}}};
  return client.call(request, 12).topics.at(0).topicId;
}

TEST_CASE("Produce: what was acknowledged is read back byte for byte, but for offset and epoch") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 3);
  for (int32_t partition = 0; partition < 3; ++partition) {
    Buffer batch = batchOf({"a", "b", "c"});
    for (int64_t offset : {0, 3, 6}) {
      auto answer = produce(client, topic, partition, batch);
      CHECK(answer.errorCode == Error::none);
      CHECK(answer.baseOffset == offset);
      CHECK(answer.logAppendTimeMs == -1);
      CHECK(answer.logStartOffset == 0);
    }
    auto fetched = fetchOne(client, topic, partition, 3);
    CHECK(fetched.highWatermark == 9);
    CHECK(fetched.lastStableOffset == 9);
    Bytes records = fetched.records->view();
    REQUIRE(records.size() == 2 * batch.size());
    CHECK(record::BatchView(records).baseOffset() == Offset(3));
    CHECK(std::ranges::equal(records.subspan(16, batch.size() - 16), Bytes(batch).subspan(16)));
  }
}

TEST_CASE("Produce: every version is answered") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  Buffer batch = batchOf({"x"});
  produce(client, topic, 0, batch);
  for (int16_t version = 3; version <= 12; ++version) {
    CAPTURE(version);
    auto response = client.call(produceRequest(topic, 0, batch), version);
    CHECK(response.responses.at(0).name == topic);
    CHECK(response.responses[0].partitionResponses.at(0).errorCode == Error::none);
  }
  auto request = produceRequest("", 0, batch);
  request.topicData[0].topicId = idOf(client, topic);
  auto response = client.call(request, 13);
  CHECK(response.responses.at(0).topicId == request.topicData[0].topicId);
  CHECK(response.responses[0].partitionResponses.at(0).baseOffset == 11);
}

TEST_CASE("Produce: pipelined requests keep their order in every partition") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 4);
  for (int32_t partition = 0; partition < 4; ++partition) produce(client, topic, partition, batchOf({"first"}));
  constexpr int kCount = 200;
  for (int i = 0; i < kCount; ++i) {
    wire::ProduceRequest request{.acks = 1, .timeoutMs = 5000};
    request.topicData = {{.name = topic}};
    std::vector<Buffer> batches;
    for (int32_t partition = 0; partition < 4; ++partition) batches.push_back(batchOf({std::to_string(i)}));
    for (int32_t partition = 0; partition < 4; ++partition) {
      request.topicData[0].partitionData.push_back(
          {.index = partition, .records = wire::Blob(Bytes(batches[static_cast<size_t>(partition)]))});
    }
    client.request(request, 9, i);
  }
  for (int i = 0; i < kCount; ++i) {
    auto response = client.response<wire::ProduceResponse>(9, i);
    for (const auto& partition : response.responses.at(0).partitionResponses) {
      CHECK(partition.errorCode == Error::none);
      CHECK(partition.baseOffset == i + 1);
    }
  }
}

TEST_CASE("Produce: acks=0 is not answered, and a failure closes the connection") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a"}));
  client.request(produceRequest(topic, 0, batchOf({"b"}), 0), 9);
  client.request(wire::MetadataRequest{}, 12, 8);
  client.response<wire::MetadataResponse>(12, 8);
  CHECK(fetchOne(client, topic, 0, 1).highWatermark == 2);

  client.request(produceRequest("nosuch", 0, batchOf({"b"}), 0), 9);
  CHECK(client.closes());
}

TEST_CASE("Produce: one bad partition does not touch the others of the request") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 2);
  produce(client, topic, 0, batchOf({"a"}));
  Buffer good = batchOf({"g"}), bad = batchOf({"b"});
  bad.back() ^= 1;
  wire::ProduceRequest request{.acks = -1, .timeoutMs = 5000};
  request.topicData = {{.name = topic,
                        .partitionData = {{.index = 1, .records = wire::Blob(Bytes(bad))},
                                          {.index = 0, .records = wire::Blob(Bytes(good))},
                                          {.index = 9, .records = wire::Blob(Bytes(good))}}},
                       {.name = "nosuch", .partitionData = {{.index = 0, .records = wire::Blob(Bytes(good))}}}};
  auto response = client.call(request, 9);
  auto& parts = response.responses.at(0).partitionResponses;
  CHECK(parts.at(0).errorCode == Error::corruptMessage);
  CHECK(parts.at(0).baseOffset == -1);
  CHECK(parts.at(1).errorCode == Error::none);
  CHECK(parts.at(1).baseOffset == 1);
  CHECK(parts.at(2).errorCode == Error::unknownTopicOrPartition);
  CHECK(response.responses.at(1).partitionResponses.at(0).errorCode == Error::unknownTopicOrPartition);
  CHECK(fetchOne(client, topic, 1, 0).highWatermark == 0);
}

TEST_CASE("Produce: null and missing records, odd acks and unknown ids are answered per partition") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"a"}));
  auto errorOf = [&](const wire::ProduceRequest& request, int16_t version) {
    return client.call(request, version).responses.at(0).partitionResponses.at(0).errorCode;
  };
  auto nullRecords = produceRequest(topic, 0, {});
  nullRecords.topicData[0].partitionData[0].records.reset();
  CHECK(errorOf(nullRecords, 9) == Error::invalidRecord);
  CHECK(errorOf(produceRequest(topic, 0, {}), 9) == Error::invalidRecord);
  Buffer batch = batchOf({"b"});
  CHECK(errorOf(produceRequest(topic, 0, batch, 2), 9) == Error::invalidRequiredAcks);
  CHECK(errorOf(produceRequest(topic, -1, batch), 9) == Error::unknownTopicOrPartition);
  auto byId = produceRequest("", 0, batch);
  CHECK(errorOf(byId, 13) == Error::unknownTopicId);
  byId.topicData[0].topicId = Uuid::fromHalves(0, 5);
  CHECK(errorOf(byId, 13) == Error::unknownTopicId);
  CHECK(client.call(wire::ProduceRequest{.acks = 1}, 9).responses.empty());
}

TEST_CASE("Produce: zstd below version 7 is refused, and a transaction that nobody could end") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  Buffer zstd = batchOf({"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}, {.codec = record::Codec::zstd});
  for (int16_t version = 3; version <= 12; ++version) {
    CAPTURE(version);
    CHECK(produce(client, topic, 0, zstd, version).errorCode ==
          (version < 7 ? Error::unsupportedCompressionType : Error::none));
  }
  Buffer transactional =
      batchOf({"a"}, {.producerId = ProducerId(5), .producerEpoch = 0, .baseSequence = 0, .isTransactional = true});
  CHECK(produce(client, topic, 0, transactional).errorCode == Error::transactionalIdAuthorizationFailed);
}

TEST_CASE(
    "Produce: of two batches, unknown formats and names that cannot be nothing is stored, and the next is served") {
  Client client(sharedServer());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"first"}));
  Buffer good = batchOf({"a"});
  auto changed = [&](size_t at, uint8_t value) {
    Buffer batch = good;
    batch[at] = value;
    storeBigEndian(batch.data() + 17, crc32c(Bytes(batch).subspan(21)));
    return batch;
  };
  constexpr size_t kMagic = 16, kAttributes = 22, kLastDelta = 26, kCount = 60;
  Buffer two = good;
  two.insert(two.end(), good.begin(), good.end());
  Buffer noCrc = good;
  noCrc[17] ^= 1;
  struct Case {
    std::string what;
    Buffer batch;
    Error error = Error::invalidRecord;
  };
  for (const Case& each :
       {Case{"two batches", two}, Case{"magic 0", changed(kMagic, 0)},
        Case{"magic 3", changed(kMagic, 3), Error::corruptMessage}, Case{"codec 7", changed(kAttributes, 7)},
        Case{"wrong CRC", noCrc, Error::corruptMessage}, Case{"more records than there are", changed(kCount, 2)},
        Case{"no records", changed(kCount, 0)}, Case{"a last offset beyond", changed(kLastDelta, 5)}}) {
    CAPTURE(each.what);
    auto answer = produce(client, topic, 0, each.batch);
    CHECK(answer.errorCode == each.error);
    CHECK(answer.baseOffset == -1);
  }
  CHECK(produce(client, topic, 0, good).baseOffset == 1);
  CHECK(client.call(produceRequest("", 0, good), 9).responses.at(0).partitionResponses.at(0).errorCode ==
        Error::unknownTopicOrPartition);

  // Odd, and legal: one partition twice in a topic, and the topic twice.
  auto request = produceRequest(topic, 0, good);
  request.topicData[0].partitionData.push_back(request.topicData[0].partitionData[0]);
  request.topicData.push_back(produceRequest(topic, 0, good).topicData[0]);
  int64_t next = 2;
  for (const auto& each : client.call(request, 9).responses) {
    for (const auto& partition : each.partitionResponses) {
      CHECK(partition.errorCode == Error::none);
      CHECK(partition.baseOffset == next++);
    }
  }
  CHECK(fetchOne(client, topic, 0, 0).highWatermark == 5);
}

TEST_CASE("Produce: records that alone are at fault are named by their place in the batch (KIP-467)") {
  Client client(sharedServer());
  std::string compacted = createTopic(client, 1, {{"cleanup.policy", "compact"}});
  record::Workspace workspace;
  record::BatchBuilder builder;
  builder.add({.timestamp = WallMs(1'700'000'000'000), .key = asBytes("a")});
  builder.add({.timestamp = WallMs(1'700'000'000'000)});
  builder.add({.timestamp = WallMs(1'700'000'000'000), .key = asBytes("b")});
  Buffer batch = builder.build(workspace);
  auto answer = produce(client, compacted, 0, batch, 8);
  CHECK(answer.errorCode == Error::invalidRecord);
  CHECK(answer.errorMessage.value_or("") != "");
  REQUIRE(answer.recordErrors.size() == 1);
  CHECK(answer.recordErrors[0].batchIndex == 1);
  CHECK(answer.recordErrors[0].batchIndexErrorMessage.value_or("").find("key") != std::string::npos);
  CHECK(produce(client, compacted, 0, batch, 7).errorCode == Error::invalidRecord);  // has no place for them
  CHECK(fetchOne(client, compacted, 0, 0).highWatermark == 0);

  // Of the batch as a whole: nobody alone is at fault.
  std::string plain = createTopic(client);
  batch[40] ^= 1;
  auto broken = produce(client, plain, 0, batch);
  CHECK(broken.errorCode == Error::corruptMessage);
  CHECK(broken.recordErrors.empty());
}

TEST_CASE("Produce: a request larger than the shared buffer, and one larger than a mebibyte") {
  Client client(sharedServer());
  std::string topic = createTopic(client, 1, {{"max.message.bytes", "9000000"}});
  for (size_t bytes : {size_t{100'000}, size_t{1'000'000}, size_t{8'000'000}}) {
    Buffer batch = batchOfSize(bytes);
    auto answer = produce(client, topic, 0, batch);
    REQUIRE(answer.errorCode == Error::none);
    auto fetched = fetchOne(client, topic, 0, answer.baseOffset);
    Bytes records = fetched.records->view();
    REQUIRE(records.size() == batch.size());
    CHECK(std::ranges::equal(records.subspan(16), Bytes(batch).subspan(16)));
  }
}

}  // namespace
}  // namespace mq::kafka::test
