// Transactions over the wire: what each version of the requests carries, and what readers see. What a coordinator
// decides is told by test/scenario/transactions.
#include <algorithm>

#include "batches.h"
#include "wire/add_offsets_to_txn_request.h"
#include "wire/add_offsets_to_txn_response.h"
#include "wire/add_partitions_to_txn_request.h"
#include "wire/add_partitions_to_txn_response.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"
#include "wire/describe_producers_request.h"
#include "wire/describe_producers_response.h"
#include "wire/describe_transactions_request.h"
#include "wire/describe_transactions_response.h"
#include "wire/end_txn_request.h"
#include "wire/end_txn_response.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"
#include "wire/list_transactions_request.h"
#include "wire/list_transactions_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"
#include "wire/txn_offset_commit_request.h"
#include "wire/txn_offset_commit_response.h"
#include "wire/write_txn_markers_request.h"
#include "wire/write_txn_markers_response.h"

namespace mq::kafka::test {
namespace {

constexpr int16_t kClassic = 11;  // the last Produce whose partitions were added before
constexpr int16_t kImplicit = 12;

TestServer& server() {
  static TestServer server({{"transaction.state.log.num.partitions", "5"},
                            {"offsets.topic.num.partitions", "5"},
                            {"transaction.abort.timed.out.transaction.cleanup.interval.ms", "50"}});
  return server;
}

struct Producer {
  std::string id;
  int64_t producer = -1;
  int16_t epoch = -1;
  std::map<std::string, int32_t> sequences = {};  // by topic-partition
};

std::string newId() {
  static int count = 0;
  return fmt::format("txn{}", ++count);
}

wire::InitProducerIdResponse tryInit(Client& client, const Producer& producer, int16_t version = 5,
                                     int32_t timeoutMs = 60000) {
  return client.call(wire::InitProducerIdRequest{.transactionalId = producer.id,
                                                 .transactionTimeoutMs = timeoutMs,
                                                 .producerId = version < 3 ? -1 : producer.producer,
                                                 .producerEpoch = version < 3 ? int16_t{-1} : producer.epoch},
                     version);
}

// As clients do: the coordinator may be loading, or be ending the last transaction.
Producer init(Client& client, const std::string& id, int16_t version = 5, int32_t timeoutMs = 60000) {
  for (int i = 0; i < 500; ++i) {
    auto found = client.call(wire::FindCoordinatorRequest{.key = id, .keyType = 1}, 3);
    REQUIRE(found.errorCode == Error::none);
    auto given = tryInit(client, {.id = id}, version, timeoutMs);
    if (given.errorCode == Error::none) return {.id = id, .producer = given.producerId, .epoch = given.producerEpoch};
    REQUIRE((given.errorCode == Error::coordinatorLoadInProgress || given.errorCode == Error::notCoordinator ||
             given.errorCode == Error::concurrentTransactions));
    std::this_thread::sleep_for(10ms);
  }
  throw std::runtime_error("the coordinator does not come up");
}

Error add(Client& client, const Producer& producer, const std::string& topic, int32_t partition, int16_t version = 3) {
  wire::AddPartitionsToTxnRequest asked;
  asked.v3AndBelowTransactionalId = producer.id;
  asked.v3AndBelowProducerId = producer.producer;
  asked.v3AndBelowProducerEpoch = producer.epoch;
  asked.v3AndBelowTopics.push_back({.name = topic, .partitions = {partition}});
  auto added = client.call(asked, version);
  return added.resultsByTopicV3AndBelow.at(0).resultsByPartition.at(0).partitionErrorCode;
}

wire::ProduceResponse::PartitionProduceResponse write(Client& client, Producer& producer, const std::string& topic,
                                                      int32_t partition, std::initializer_list<std::string_view> values,
                                                      int16_t version) {
  int32_t& sequence = producer.sequences[fmt::format("{}-{}", topic, partition)];
  Buffer batch = batchOf(values, {.producerId = ProducerId(producer.producer),
                                  .producerEpoch = producer.epoch,
                                  .baseSequence = sequence,
                                  .isTransactional = true});
  auto request = produceRequest(topic, partition, batch);
  request.transactionalId = producer.id;
  if (version >= 13) {
    wire::MetadataRequest metadata{.topics = std::vector<wire::MetadataRequest::MetadataRequestTopic>{{.name = topic}}};
    request.topicData[0].topicId = client.call(metadata, 12).topics.at(0).topicId;
    request.topicData[0].name.clear();
  }
  auto answer = client.call(request, version).responses.at(0).partitionResponses.at(0);
  if (answer.errorCode == Error::none) sequence += static_cast<int32_t>(values.size());
  return answer;
}

wire::EndTxnResponse end(Client& client, const Producer& producer, bool commits, int16_t version) {
  return client.call(wire::EndTxnRequest{.transactionalId = producer.id,
                                         .producerId = producer.producer,
                                         .producerEpoch = producer.epoch,
                                         .committed = commits},
                     version);
}

// With the new epoch, as clients of version 5 go on.
void endAndBump(Client& client, Producer& producer, bool commits) {
  auto ended = end(client, producer, commits, 5);
  REQUIRE(ended.errorCode == Error::none);
  CHECK(ended.producerId == producer.producer);
  CHECK(ended.producerEpoch == producer.epoch + 1);
  producer.epoch = ended.producerEpoch;
  producer.sequences.clear();
}

wire::FetchResponse::PartitionData committed(Client& client, const std::string& topic, int32_t partition, int64_t from,
                                             int32_t bytes = 1 << 20) {
  auto request = fetchRequest(topic, {{partition, from}});
  request.isolationLevel = 1;
  request.topics[0].partitions[0].partitionMaxBytes = bytes;
  return client.call(request, 12).responses.at(0).partitions.at(0);
}

void awaitStable(Client& client, const std::string& topic, int32_t partition, int64_t offset) {
  for (int i = 0; i < 1000; ++i) {
    if (committed(client, topic, partition, 0).lastStableOffset >= offset) return;
    std::this_thread::sleep_for(5ms);
  }
  FAIL("the last stable offset does not move");
}

std::string stateOf(Client& client, const std::string& id) {
  auto described = client.call(wire::DescribeTransactionsRequest{.transactionalIds = {id}}, 0);
  return described.transactionStates.at(0).transactionState;
}

void awaitState(Client& client, const std::string& id, std::string_view state) {
  for (int i = 0; i < 1000 && stateOf(client, id) != state; ++i) std::this_thread::sleep_for(5ms);
  CHECK(stateOf(client, id) == state);
}

wire::OffsetFetchResponse::OffsetFetchResponsePartition committedOf(Client& client, const std::string& group,
                                                                    const std::string& topic, bool stable) {
  wire::OffsetFetchRequest asked{.groupId = group, .requireStable = stable};
  asked.topics =
      std::vector<wire::OffsetFetchRequest::OffsetFetchRequestTopic>{{.name = topic, .partitionIndexes = {0}}};
  return client.call(asked, 7).topics.at(0).partitions.at(0);
}

Error commitOffset(Client& client, const Producer& producer, const std::string& group, const std::string& topic,
                   int64_t offset, int16_t version) {
  wire::TxnOffsetCommitRequest asked;
  asked.transactionalId = producer.id;
  asked.groupId = group;
  asked.producerId = producer.producer;
  asked.producerEpoch = producer.epoch;
  auto& of = asked.topics.emplace_back();
  of.name = topic;
  if (version >= 6) {
    wire::MetadataRequest metadata{.topics = std::vector<wire::MetadataRequest::MetadataRequestTopic>{{.name = topic}}};
    of.topicId = client.call(metadata, 12).topics.at(0).topicId;
    of.name.clear();
  }
  of.partitions.push_back({.partitionIndex = 0, .committedOffset = offset, .committedMetadata = "m"});
  return client.call(asked, version).topics.at(0).partitions.at(0).errorCode;
}

TEST_CASE("transactions: nobody is their coordinator before one has been looked for") {
  TestServer fresh;
  Client client(fresh);
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"plain"}));
  Producer producer{.id = "t", .producer = 5, .epoch = 0};
  CHECK(tryInit(client, {.id = "t"}).errorCode == Error::notCoordinator);
  CHECK(add(client, producer, topic, 0) == Error::notCoordinator);
  CHECK(end(client, producer, true, 5).errorCode == Error::notCoordinator);
  CHECK(write(client, producer, topic, 0, {"a"}, kImplicit).errorCode == Error::invalidProducerIdMapping);
  CHECK(commitOffset(client, producer, "g", topic, 1, 5) == Error::notCoordinator);
  CHECK(client.call(wire::ListTransactionsRequest{}, 2).transactionStates.empty());
  CHECK(
      client.call(wire::DescribeTransactionsRequest{.transactionalIds = {"t"}}, 0).transactionStates.at(0).errorCode ==
      Error::notCoordinator);
}

TEST_CASE("transactions: a classic one in each version: add, produce, commit offsets, end") {
  Client client(server());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"plain"}));
  int64_t offset = 1;
  for (int16_t version = 0; version <= 4; ++version) {
    CAPTURE(version);
    Producer producer = init(client, newId(), version);
    CHECK(producer.epoch == 0);
    std::string group = "g-" + producer.id;
    awaitCoordinator(client, group);
    CHECK(write(client, producer, topic, 0, {"early"}, 9).errorCode == Error::invalidTxnState);
    CHECK(add(client, producer, topic, 0, std::min<int16_t>(version, 3)) == Error::none);
    CHECK(write(client, producer, topic, 0, {"a", "b"}, 9).baseOffset == offset);
    CHECK(stateOf(client, producer.id) == "Ongoing");

    CHECK(commitOffset(client, producer, group, topic, 7, version) ==
          (version >= 4 ? Error::transactionAbortable : Error::invalidTxnState));
    CHECK(client
              .call(wire::AddOffsetsToTxnRequest{.transactionalId = producer.id,
                                                 .producerId = producer.producer,
                                                 .producerEpoch = producer.epoch,
                                                 .groupId = group},
                    version)
              .errorCode == Error::none);
    CHECK(commitOffset(client, producer, group, topic, 7, version) == Error::none);
    CHECK(committedOf(client, group, topic, false).committedOffset == -1);
    CHECK(committedOf(client, group, topic, true).errorCode == Error::unstableOffsetCommit);

    auto open = committed(client, topic, 0, 0);
    CHECK(open.lastStableOffset == offset);
    CHECK(open.highWatermark == offset + 2);
    Producer stranger = producer;
    stranger.epoch = 5;
    CHECK(end(client, stranger, true, version).errorCode ==
          (version < 2 ? Error::invalidProducerEpoch : Error::producerFenced));
    CHECK(end(client, producer, true, version).errorCode == Error::none);
    awaitStable(client, topic, 0, offset + 3);
    offset += 3;  // two records and the marker
    awaitState(client, producer.id, "CompleteCommit");
    CHECK(end(client, producer, true, version).errorCode == Error::none);  // asked again
    CHECK(end(client, producer, false, version).errorCode == Error::invalidTxnState);
    auto stable = committedOf(client, group, topic, true);
    CHECK(stable.errorCode == Error::none);
    CHECK(stable.committedOffset == 7);
    CHECK(stable.metadata == "m");
  }
}

TEST_CASE("transactions: with an epoch for each (KIP-890) the first batch adds its partition") {
  Client client(server());
  std::string topic = createTopic(client, 2);
  produce(client, topic, 0, batchOf({"plain"}));
  produce(client, topic, 1, batchOf({"plain"}));
  Producer producer = init(client, newId());
  std::string group = "g-" + producer.id;
  awaitCoordinator(client, group);
  int64_t offset = 1;
  for (int16_t version = kImplicit; version <= 13; ++version) {
    for (bool commits : {true, false, true}) {
      CAPTURE(version);
      CAPTURE(commits);
      CHECK(write(client, producer, topic, 0, {"a"}, version).baseOffset == offset);
      CHECK(write(client, producer, topic, 1, {"b"}, version).baseOffset == offset);
      CHECK(write(client, producer, topic, 1, {"c"}, version).baseOffset == offset + 1);
      int16_t commitVersion = version == kImplicit ? 5 : 6;
      CHECK(commitOffset(client, producer, group, topic, offset, commitVersion) == Error::none);
      int16_t before = producer.epoch;
      endAndBump(client, producer, commits);
      Producer again = producer;
      again.epoch = before;
      for (int i = 0; i < 1000; ++i) {  // the same answer, when there is one
        auto ended = end(client, again, commits, 5);
        if (ended.errorCode == Error::concurrentTransactions) {
          std::this_thread::sleep_for(5ms);
          continue;
        }
        CHECK(ended.errorCode == Error::none);
        CHECK(ended.producerEpoch == producer.epoch);
        break;
      }
      awaitStable(client, topic, 0, offset + 2);
      awaitStable(client, topic, 1, offset + 3);
      produce(client, topic, 0, batchOf({"fill"}));
      offset += 3;
    }
  }
  CHECK(committedOf(client, group, topic, true).committedOffset == offset - 3);
  CHECK(end(client, producer, true, 5).errorCode == Error::invalidTxnState);  // nothing is open
  endAndBump(client, producer, false);
}

TEST_CASE("transactions: the next one begins without waiting for the last one's markers") {
  Client client(server());
  std::string topic = createTopic(client, 4);
  for (int32_t partition = 0; partition < 4; ++partition) produce(client, topic, partition, batchOf({"x"}));
  Producer producer = init(client, newId());
  for (int i = 0; i < 30; ++i) {
    for (int32_t partition = 0; partition < 4; ++partition)
      CHECK(write(client, producer, topic, partition, {"a"}, kImplicit).errorCode == Error::none);
    endAndBump(client, producer, i % 3 != 0);
  }
  for (int32_t partition = 0; partition < 4; ++partition) awaitStable(client, topic, partition, 61);
}

TEST_CASE("transactions: batches in flight keep their order while the first one waits for the coordinator") {
  Client client(server());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"x"}));
  Producer producer = init(client, newId());
  for (int round = 0; round < 5; ++round) {
    constexpr int kCount = 20;
    for (int i = 0; i < kCount; ++i) {
      Buffer batch = batchOf({"a"}, {.producerId = ProducerId(producer.producer),
                                     .producerEpoch = producer.epoch,
                                     .baseSequence = i,
                                     .isTransactional = true});
      auto request = produceRequest(topic, 0, batch);
      request.transactionalId = producer.id;
      client.request(request, kImplicit, i);
    }
    for (int i = 0; i < kCount; ++i) {
      auto answer = client.response<wire::ProduceResponse>(kImplicit, i);
      CHECK(answer.responses.at(0).partitionResponses.at(0).errorCode == Error::none);
      CHECK(answer.responses[0].partitionResponses[0].baseOffset == 1 + round * (kCount + 1) + i);
    }
    endAndBump(client, producer, true);
  }
}

TEST_CASE("transactions: batches outside of one are refused, and nothing of them is kept") {
  Client client(server());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"plain"}));
  Producer producer = init(client, newId());
  for (int16_t version : {int16_t{9}, int16_t{10}})
    CHECK(write(client, producer, topic, 0, {"a"}, version).errorCode == Error::invalidTxnState);
  CHECK(write(client, producer, topic, 0, {"a"}, kClassic).errorCode == Error::transactionAbortable);
  for (int16_t version : {int16_t{9}, kImplicit}) {
    CAPTURE(version);
    Producer fenced = producer;
    fenced.epoch = 3;
    CHECK(write(client, fenced, topic, 0, {"a"}, version).errorCode == Error::invalidProducerEpoch);
    Producer other = producer;
    other.producer += 1000;
    CHECK(write(client, other, topic, 0, {"a"}, version).errorCode == Error::invalidProducerIdMapping);
    Producer nobody = producer;
    nobody.id = "nobody-has-this";
    CHECK(write(client, nobody, topic, 0, {"a"}, version).errorCode == Error::invalidProducerIdMapping);
    Producer anonymous = producer;
    Buffer batch = batchOf({"a"}, {.producerId = ProducerId(producer.producer),
                                   .producerEpoch = producer.epoch,
                                   .baseSequence = 0,
                                   .isTransactional = true});
    CHECK(client.call(produceRequest(topic, 0, batch), version).responses.at(0).partitionResponses.at(0).errorCode ==
          Error::transactionalIdAuthorizationFailed);
  }
  auto state = committed(client, topic, 0, 0);
  CHECK(state.highWatermark == 1);
  CHECK(state.lastStableOffset == 1);
  CHECK(client.call(wire::DescribeProducersRequest{.topics = {{.name = topic, .partitionIndexes = {0}}}}, 0)
            .topics.at(0)
            .partitions.at(0)
            .activeProducers.empty());
}

TEST_CASE("transactions: a reader of committed records hears of exactly the aborted ones in its bytes (B39)") {
  Client client(server());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"plain"}));
  Producer a = init(client, newId()), b = init(client, newId());
  auto writeOf = [&](Producer& producer, std::initializer_list<std::string_view> values) {
    auto answer = write(client, producer, topic, 0, values, kImplicit);
    REQUIRE(answer.errorCode == Error::none);
    return answer.baseOffset;
  };
  int64_t next = 1;
  auto ended = [&](Producer& producer, bool commits, int64_t stable) {
    endAndBump(client, producer, commits);
    awaitStable(client, topic, 0, stable);
  };
  // Empty abort: no marker here, since the coordinator never heard of the partition.
  endAndBump(client, a, false);
  int64_t aFirst = writeOf(a, {"a1", "a2", "a3"});
  CHECK(aFirst == next);
  int64_t bFirst = writeOf(b, {"b1"});
  endAndBump(client, a, false);
  awaitState(client, a.id, "CompleteAbort");
  int64_t bSecond = writeOf(b, {"b2"});
  CHECK(bSecond == bFirst + 2);
  ended(b, true, bSecond + 2);
  int64_t aSecond = writeOf(a, {"a4", "a5"});
  ended(a, true, aSecond + 3);
  int64_t aThird = writeOf(a, {"a6"});
  ended(a, false, aThird + 2);

  using Aborted = std::vector<std::pair<int64_t, int64_t>>;
  auto abortedIn = [](const wire::FetchResponse::PartitionData& data) {
    Aborted list;
    for (const auto& one : *data.abortedTransactions) list.emplace_back(one.producerId, one.firstOffset);
    return list;
  };
  CHECK(abortedIn(committed(client, topic, 0, 0)) == Aborted{{a.producer, aFirst}, {a.producer, aThird}});
  CHECK(abortedIn(committed(client, topic, 0, 0, 1)).empty());  // the plain batch alone
  CHECK(abortedIn(committed(client, topic, 0, aFirst, 1)) == Aborted{{a.producer, aFirst}});
  CHECK(abortedIn(committed(client, topic, 0, aSecond, 1)).empty());  // committed
  CHECK(abortedIn(committed(client, topic, 0, aThird)) == Aborted{{a.producer, aThird}});
  auto uncommitted = fetchOne(client, topic, 0, 0);
  CHECK_FALSE(uncommitted.abortedTransactions.has_value());
}

TEST_CASE("InitProducerId: fencing in each version") {
  Client client(server());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"plain"}));
  for (int16_t version = 0; version <= 5; ++version) {
    CAPTURE(version);
    Producer first = init(client, newId(), version);
    CHECK(add(client, first, topic, 0) == Error::none);
    REQUIRE(write(client, first, topic, 0, {"a"}, 9).errorCode == Error::none);
    auto busy = tryInit(client, {.id = first.id}, version);
    CHECK(busy.errorCode == Error::concurrentTransactions);  // its transaction is aborted first
    Producer second = init(client, first.id, version);
    CHECK(second.producer == first.producer);
    CHECK(second.epoch == 2);
    CHECK(add(client, first, topic, 0, 3) == Error::producerFenced);
    CHECK(add(client, first, topic, 0, 1) == Error::invalidProducerEpoch);
    CHECK(write(client, first, topic, 0, {"b"}, 9).errorCode == Error::invalidProducerEpoch);
    CHECK(end(client, first, true, 4).errorCode == Error::producerFenced);
    if (version >= 3) {
      auto fenced = tryInit(client, {.id = first.id, .producer = first.producer, .epoch = 0}, version);
      CHECK(fenced.errorCode == (version < 4 ? Error::invalidProducerEpoch : Error::producerFenced));
      auto bumped = tryInit(client, second, version);
      CHECK(bumped.errorCode == Error::none);
      CHECK(bumped.producerEpoch == 3);
      CHECK(tryInit(client, second, version).producerEpoch == 3);  // the answer got lost
    }
  }
  CHECK(tryInit(client, {.id = ""}).errorCode == Error::invalidRequest);
  CHECK(tryInit(client, {.id = newId(), .producer = 5}).errorCode == Error::invalidRequest);
  Producer slow{.id = newId()};
  init(client, slow.id);
  CHECK(tryInit(client, slow, 5, 900001).errorCode == Error::invalidTransactionTimeout);
  CHECK(tryInit(client, slow, 5, 0).errorCode == Error::invalidTransactionTimeout);
}

TEST_CASE("AddPartitionsToTxn: all or none, many at a time, and asking only") {
  Client client(server());
  std::string topic = createTopic(client);
  Producer one = init(client, newId()), two = init(client, newId());
  wire::AddPartitionsToTxnRequest asked;
  asked.v3AndBelowTransactionalId = one.id;
  asked.v3AndBelowProducerId = one.producer;
  asked.v3AndBelowProducerEpoch = one.epoch;
  asked.v3AndBelowTopics = {{.name = topic, .partitions = {0, 9}}, {.name = "nosuch", .partitions = {0}}};
  auto refused = client.call(asked, 3).resultsByTopicV3AndBelow;
  CHECK(refused.at(0).resultsByPartition.at(0).partitionErrorCode == Error::operationNotAttempted);
  CHECK(refused.at(0).resultsByPartition.at(1).partitionErrorCode == Error::unknownTopicOrPartition);
  CHECK(refused.at(1).resultsByPartition.at(0).partitionErrorCode == Error::unknownTopicOrPartition);
  CHECK(stateOf(client, one.id) == "Empty");
  Producer nobody{.id = "", .producer = 1, .epoch = 0};
  CHECK(add(client, nobody, topic, 0) == Error::invalidRequest);

  for (int16_t version : {int16_t{4}, int16_t{5}}) {
    CAPTURE(version);
    wire::AddPartitionsToTxnRequest many;
    auto ask = [&](const Producer& producer, bool verifyOnly) {
      many.transactions.push_back({.transactionalId = producer.id,
                                   .producerId = producer.producer,
                                   .producerEpoch = producer.epoch,
                                   .verifyOnly = verifyOnly,
                                   .topics = {{.name = topic, .partitions = {0}}}});
    };
    auto errorOf = [](const wire::AddPartitionsToTxnResponse& response, size_t at) {
      return response.resultsByTransaction.at(at).topicResults.at(0).resultsByPartition.at(0).partitionErrorCode;
    };
    ask(one, true);
    ask(two, false);
    auto response = client.call(many, version);
    CHECK(response.resultsByTransaction.at(0).transactionalId == one.id);
    CHECK(errorOf(response, 0) == Error::transactionAbortable);
    CHECK(errorOf(response, 1) == Error::none);
    many.transactions.clear();
    ask(two, true);
    Producer fenced = two;
    ++fenced.epoch;
    ask(fenced, true);
    response = client.call(many, version);
    CHECK(errorOf(response, 0) == Error::none);
    CHECK(errorOf(response, 1) == Error::producerFenced);
  }
}

TEST_CASE("TxnOffsetCommit: what is refused leaves nothing pending") {
  Client client(server());
  std::string topic = createTopic(client);
  Producer producer = init(client, newId());
  std::string group = "g-" + producer.id;
  awaitCoordinator(client, group);
  CHECK(commitOffset(client, producer, "", topic, 1, 5) == Error::invalidGroupId);
  CHECK(commitOffset(client, producer, group, "nosuch", 1, 5) == Error::unknownTopicOrPartition);
  CHECK(commitOffset(client, producer, group, "nosuch", 1, 6) == Error::unknownTopicId);
  Producer fenced = producer;
  ++fenced.epoch;
  CHECK(commitOffset(client, fenced, group, topic, 1, 5) == Error::invalidProducerEpoch);
  Producer other = producer;
  other.producer += 1000;
  CHECK(commitOffset(client, other, group, topic, 1, 3) == Error::invalidProducerIdMapping);
  wire::TxnOffsetCommitRequest asked;
  asked.transactionalId = producer.id;
  asked.groupId = group;
  asked.producerId = producer.producer;
  asked.producerEpoch = producer.epoch;
  asked.generationIdOrMemberEpoch = 4;
  asked.memberId = "nobody";
  asked.topics = {{.name = topic, .partitions = {{.partitionIndex = 0, .committedOffset = 1}}}};
  CHECK(client.call(asked, 5).topics.at(0).partitions.at(0).errorCode == Error::illegalGeneration);
  CHECK(committedOf(client, group, topic, true).errorCode == Error::none);
  CHECK(committedOf(client, group, topic, true).committedOffset == -1);
}

Error writeMarker(Client& client, const Producer& producer, const std::string& topic, int32_t partition, bool commits,
                  int16_t version, int8_t transactionVersion = 0, int32_t coordinatorEpoch = 0) {
  wire::WriteTxnMarkersRequest asked;
  asked.markers.push_back({.producerId = producer.producer,
                           .producerEpoch = producer.epoch,
                           .transactionResult = commits,
                           .topics = {{.name = topic, .partitionIndexes = {partition}}},
                           .coordinatorEpoch = coordinatorEpoch,
                           .transactionVersion = transactionVersion});
  auto written = client.call(asked, version);
  CHECK(written.markers.at(0).producerId == producer.producer);
  return written.markers[0].topics.at(0).partitions.at(0).errorCode;
}

TEST_CASE("WriteTxnMarkers: ends what hangs, and refuses what is stale") {
  Client client(server());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"plain"}));
  Producer producer = init(client, newId());
  CHECK(writeMarker(client, producer, "nosuch", 0, true, 1) == Error::unknownTopicOrPartition);
  CHECK(writeMarker(client, producer, topic, 7, true, 1) == Error::unknownTopicOrPartition);

  REQUIRE(write(client, producer, topic, 0, {"a"}, kImplicit).errorCode == Error::none);
  auto producers = client.call(wire::DescribeProducersRequest{.topics = {{.name = topic, .partitionIndexes = {0}}}}, 0);
  const auto& active = producers.topics.at(0).partitions.at(0).activeProducers;
  REQUIRE(active.size() == 1);
  CHECK(active[0].currentTxnStartOffset == 1);
  Producer stale = producer;
  stale.epoch = -1;
  CHECK(writeMarker(client, stale, topic, 0, false, 1) == Error::invalidProducerEpoch);
  CHECK(writeMarker(client, producer, topic, 0, false, 2, 2) == Error::invalidProducerEpoch);  // of an earlier one
  CHECK(committed(client, topic, 0, 0).lastStableOffset == 1);
  CHECK(writeMarker(client, producer, topic, 0, false, 1) == Error::none);
  CHECK(committed(client, topic, 0, 0).lastStableOffset == 3);
  CHECK(committed(client, topic, 0, 0).abortedTransactions->size() == 1);
  CHECK(writeMarker(client, producer, topic, 0, false, 2, 2) == Error::none);  // it is there already
  CHECK(writeMarker(client, producer, topic, 0, false, 1, 0, -5) == Error::transactionCoordinatorFenced);

  // Of a group's offsets: those go with it.
  std::string group = "g-" + producer.id;
  awaitCoordinator(client, group);
  REQUIRE(commitOffset(client, producer, group, topic, 9, 5) == Error::none);
  REQUIRE(committedOf(client, group, topic, true).errorCode == Error::unstableOffsetCommit);
  for (int32_t partition = 0; partition < 5; ++partition)
    CHECK(writeMarker(client, producer, "__consumer_offsets", partition, true, 1) == Error::none);
  CHECK(committedOf(client, group, topic, true).committedOffset == 9);
}

TEST_CASE("DescribeTransactions, ListTransactions") {
  Client client(server());
  std::string topic = createTopic(client, 2);
  produce(client, topic, 1, batchOf({"plain"}));
  Producer producer = init(client, newId(), 5, 12345);
  REQUIRE(write(client, producer, topic, 1, {"a"}, kImplicit).errorCode == Error::none);
  auto described =
      client.call(wire::DescribeTransactionsRequest{.transactionalIds = {producer.id, "nobody-has-this", ""}}, 0);
  REQUIRE(described.transactionStates.size() == 3);
  const auto& one = described.transactionStates[0];
  CHECK(one.errorCode == Error::none);
  CHECK(one.transactionState == "Ongoing");
  CHECK(one.transactionTimeoutMs == 12345);
  CHECK(one.transactionStartTimeMs > 1'600'000'000'000);
  CHECK(one.producerId == producer.producer);
  CHECK(one.producerEpoch == producer.epoch);
  REQUIRE(one.topics.size() == 1);
  CHECK(one.topics[0].topic == topic);
  CHECK(one.topics[0].partitions == std::vector<int32_t>{1});
  CHECK(described.transactionStates[1].errorCode == Error::transactionalIdNotFound);
  CHECK(described.transactionStates[2].errorCode == Error::invalidRequest);

  for (int16_t version = 0; version <= 2; ++version) {
    wire::ListTransactionsRequest filter{.stateFilters = {"Ongoing", "Nonsense"},
                                         .producerIdFilters = {producer.producer}};
    auto listed = client.call(filter, version);
    CHECK(listed.errorCode == Error::none);
    CHECK(listed.unknownStateFilters == std::vector<std::string>{"Nonsense"});
    REQUIRE(listed.transactionStates.size() == 1);
    CHECK(listed.transactionStates[0].transactionalId == producer.id);
    CHECK(listed.transactionStates[0].transactionState == "Ongoing");
    if (version < 1) continue;
    filter.durationFilter = 1'000'000;
    CHECK(client.call(filter, version).transactionStates.empty());
    if (version < 2) continue;
    filter.durationFilter = -1;
    filter.transactionalIdPattern = producer.id.substr(0, 3) + "[0-9]+";
    CHECK(client.call(filter, version).transactionStates.size() == 1);
    filter.transactionalIdPattern = producer.id.substr(0, 2);  // the whole id has to match
    CHECK(client.call(filter, version).transactionStates.empty());
    filter.transactionalIdPattern = "(";
    CHECK(client.call(filter, version).errorCode == Error::invalidRegularExpression);
  }
  endAndBump(client, producer, false);
}

TEST_CASE("transactions: one that is not ended in its time is aborted, and its producer fenced") {
  Client client(server());
  std::string topic = createTopic(client);
  produce(client, topic, 0, batchOf({"plain"}));
  Producer producer = init(client, newId(), 5, 100);
  REQUIRE(write(client, producer, topic, 0, {"a"}, kImplicit).errorCode == Error::none);
  awaitStable(client, topic, 0, 3);
  awaitState(client, producer.id, "CompleteAbort");
  CHECK(committed(client, topic, 0, 0).abortedTransactions->size() == 1);
  CHECK(write(client, producer, topic, 0, {"b"}, kImplicit).errorCode == Error::invalidProducerEpoch);
}

TEST_CASE("ApiVersions: transaction.version is finalized; a range from 0 is not shown to those who cannot read it") {
  Client client(server());
  for (int16_t version : {int16_t{3}, int16_t{4}}) {
    wire::ApiVersionsRequest asked{.clientSoftwareName = "test", .clientSoftwareVersion = "1"};
    auto answer = client.call(asked, version);
    auto named = [](const auto& feature) { return feature.name == "transaction.version"; };
    auto final = std::find_if(answer.finalizedFeatures.begin(), answer.finalizedFeatures.end(), named);
    REQUIRE(final != answer.finalizedFeatures.end());
    CHECK(final->maxVersionLevel == 2);
    auto supported = std::find_if(answer.supportedFeatures.begin(), answer.supportedFeatures.end(), named);
    REQUIRE((supported != answer.supportedFeatures.end()) == (version >= 4));
    if (version < 4) continue;
    CHECK(supported->minVersion == 0);
    CHECK(supported->maxVersion == 2);
  }
}

}  // namespace
}  // namespace mq::kafka::test
