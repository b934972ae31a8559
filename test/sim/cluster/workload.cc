#include "workload.h"

#include <kj/debug.h>

#include "answers.h"
#include "group_members.h"
#include "record/builder.h"
#include "runtime/tasks.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/delete_records_request.h"
#include "wire/delete_records_response.h"
#include "wire/delete_topics_request.h"
#include "wire/delete_topics_response.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/incremental_alter_configs_request.h"
#include "wire/incremental_alter_configs_response.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"
#include "wire/list_offsets_request.h"
#include "wire/list_offsets_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"
#include "wire/produce_request.h"
#include "wire/produce_response.h"

namespace mq::sim {
namespace {

constexpr int16_t kProduceVersion = 9;
constexpr int16_t kFetchVersion = 12;
constexpr size_t kBatchBytesMax = 12'000;  // but for its last record
struct Batch {
  TopicPartition to;
  std::vector<RecordId> ids;
  Buffer bytes;
  bool acknowledged = false;
  bool abandoned = false;  // its topic is being deleted
};

class Producer {
 public:
  Producer(Workload& workload, bool idempotent)
      : w_(workload),
        random_(workload.random.fork()),
        client_(workload.shard, workload.brokers),
        number_(workload.nextProducer++),
        idempotent_(idempotent) {}

  Co<void> run() {
    while (!w_.stopping) {
      auto topics = w_.history.livingTopics();
      if (topics.empty()) {
        co_await w_.shard.after(100ms);
        continue;
      }
      if (idempotent_ && !producerId_) {
        co_await attempted(getProducerId());
        if (!producerId_) co_await w_.shard.after(200ms);
        continue;
      }
      std::vector<Batch> round;
      for (uint64_t count = random_.between(1, 5); count > 0; --count) round.push_back(makeBatch(topics));
      co_await sendAll(round);
      if (random_.chance(1, 3)) co_await w_.shard.after(Duration(std::chrono::milliseconds(random_.between(1, 400))));
    }
  }

 private:
  Co<void> getProducerId() {
    auto answer = co_await client_.call(wire::InitProducerIdRequest{.transactionalId = std::nullopt}, 4, kPatience);
    if (answer.message.errorCode == Error::none) {
      producerId_ = ProducerId(answer.message.producerId);
      epoch_ = answer.message.producerEpoch;
    } else if (!isPassing(answer.message.errorCode)) {
      unexpected("InitProducerId", answer.message.errorCode);
    }
  }

  Batch makeBatch(const std::vector<std::string>& topics) {
    Batch batch;
    batch.to = {topics[random_.below(topics.size())],
                static_cast<int32_t>(random_.below(static_cast<uint64_t>(w_.partitions)))};
    record::BatchOptions options;
    static constexpr record::Codec kCodecs[] = {record::Codec::none, record::Codec::none, record::Codec::lz4,
                                                record::Codec::zstd, record::Codec::gzip, record::Codec::snappy};
    options.codec = kCodecs[random_.below(std::size(kCodecs))];
    auto count = static_cast<int32_t>(random_.chance(1, 6) ? random_.between(1, 60) : random_.between(1, 6));
    if (idempotent_) {
      options.producerId = *producerId_;
      options.producerEpoch = epoch_;
      options.baseSequence = sequences_[batch.to];
    }
    record::BatchBuilder builder(options);
    // Segments may be small, and a batch has to fit into one.
    for (int32_t i = 0; i < count && builder.plainSizeBytes() < kBatchBytesMax; ++i) {
      RecordId id{number_, next_++};
      std::string value = valueOf(id);
      builder.add({.timestamp = w_.shard.wallNow(), .value = asBytes(value)});
      batch.ids.push_back(id);
    }
    if (idempotent_) sequences_[batch.to] += builder.recordCount();
    batch.bytes = builder.build(workspace_);
    return batch;
  }

  // Behind each other on the connection of their leader; those of a partition that failed are sent again, in their
  // order, once all are answered.
  Co<void> sendAll(std::vector<Batch>& round) {
    for (;;) {
      std::vector<kj::Promise<void>> answers;
      for (Batch& batch : round) {
        if (w_.history.mayBeDeleted(batch.to.topic)) batch.abandoned = true;
        if (!batch.acknowledged && !batch.abandoned) co_await attempted(client_.prepare(batch.to, kPatience));
      }
      for (Batch& batch : round)
        if (!batch.acknowledged && !batch.abandoned) answers.push_back(attempted(send(batch)).ignoreResult());
      for (auto& answer : answers) co_await kj::mv(answer);
      bool open = false;
      for (const Batch& batch : round) open |= !batch.acknowledged && !batch.abandoned;
      if (!open) co_return;
      ++w_.retries;
      co_await w_.shard.after(Duration(std::chrono::milliseconds(random_.between(10, 500))));
    }
  }

  Co<void> send(Batch& batch) {
    // Each batch on a connection of its own could overtake the others.
    if (!client_.isPrepared(batch.to)) kj::throwFatalException(KJ_EXCEPTION(DISCONNECTED, "the connection broke"));
    for (RecordId id : batch.ids) w_.history.sending(id, batch.to, idempotent_);
    w_.shard.log().info("produce", "{}/{}+{} to {}", batch.ids.front().producer, batch.ids.front().number,
                        batch.ids.size(), batch.to);
    wire::ProduceRequest request{.acks = -1, .timeoutMs = 5000};
    request.topicData = {
        {.name = batch.to.topic, .partitionData = {{.index = batch.to.partition, .records = wire::Blob(batch.bytes)}}}};
    auto answer = co_await client_.call(std::move(request), kProduceVersion, kPatience);
    const auto& result = answer.message.responses.at(0).partitionResponses.at(0);
    if (result.errorCode == Error::none) {
      batch.acknowledged = true;
      for (size_t i = 0; i < batch.ids.size(); ++i) {
        w_.history.acknowledged(batch.ids[i], result.baseOffset + static_cast<int64_t>(i));
      }
      co_return;
    }
    w_.shard.log().info("produce", "{}/{} to {}: {} {}", batch.ids.front().producer, batch.ids.front().number, batch.to,
                        result.errorCode, result.errorMessage.value_or(""));
    if (result.errorCode == Error::notEnoughReplicas || result.errorCode == Error::notEnoughReplicasAfterAppend)
      ++w_.belowMinInSync;
    // Behind a batch of this round that was not taken.
    if (result.errorCode == Error::outOfOrderSequenceNumber && idempotent_) co_return;
    if (!isPassing(result.errorCode)) unexpected("Produce", result.errorCode, result.errorMessage.value_or(""));
  }

  Workload& w_;
  Prng random_;
  ClusterClient client_;
  record::Workspace workspace_;
  const uint32_t number_;
  const bool idempotent_;
  std::optional<ProducerId> producerId_;
  int16_t epoch_ = 0;
  uint32_t next_ = 0;
  std::map<TopicPartition, int32_t> sequences_;
};

// The records at or above `from`, checked batch by batch; the offset behind them.
int64_t takeRecords(Bytes left, const TopicPartition& partition, int64_t from, std::vector<StoredRecord>& into) {
  record::Workspace workspace;
  int64_t next = from;
  for (;;) {
    record::NextBatch batch = record::nextBatch(left);
    if (batch.kind != record::NextBatch::Kind::whole) return next;  // the last one may be cut
    left = left.subspan(batch.sizeBytes);
    record::BatchView view(batch.batch);
    auto complain = [&](const char* what) {
      kj::throwFatalException(KJ_EXCEPTION(FAILED, kj::str(fmt::format("gapless: {} {} at offset {} (wanted {})", what,
                                                                       partition, view.baseOffset(), next)
                                                               .c_str())));
    };
    if (!view.crcOk()) complain("a batch with a wrong checksum in");
    if (view.nextOffset().value() <= next) continue;
    if (view.baseOffset().value() > next) complain("a hole in");
    auto records = record::openRecords(view, workspace);
    if (!records) complain("a batch that cannot be opened in");
    record::RecordView record;
    while (records->next(record)) {
      if (record.offset.value() < next) continue;
      auto id = record.value ? readValue(*record.value) : std::nullopt;
      if (!id) {
        kj::throwFatalException(KJ_EXCEPTION(FAILED, "no-phantom: a record that nobody made", partition.topic.c_str(),
                                             record.offset.value()));
      }
      into.push_back({record.offset.value(), *id});
      next = record.offset.value() + 1;
    }
    if (!records->ok()) complain("a broken record in");
  }
}

constexpr int64_t kEarliest = -2, kLatest = -1;

// nullopt: it cannot be had now.
Co<std::optional<int64_t>> offsetAt(ClusterClient& client, TopicPartition partition, int64_t time) {
  wire::ListOffsetsRequest request{.replicaId = -1};
  request.topics = {
      {.name = partition.topic, .partitions = {{.partitionIndex = partition.partition, .timestamp = time}}}};
  auto answer = co_await client.call(std::move(request), 5, kPatience);
  const auto& found = answer.message.topics.at(0).partitions.at(0);
  if (found.errorCode == Error::none) co_return found.offset;
  if (!isPassing(found.errorCode)) unexpected("ListOffsets", found.errorCode);
  co_return std::nullopt;
}

struct Fetched {
  Error error = Error::none;
  int64_t logStart = 0, highWatermark = 0, next = 0;
  std::vector<StoredRecord> records;
};

Co<Fetched> fetch(ClusterClient& client, TopicPartition partition, int64_t from, int32_t waitMs, int32_t bytesMax) {
  wire::FetchRequest request{.maxWaitMs = waitMs, .minBytes = 1, .maxBytes = bytesMax};
  request.topics = {
      {.topic = partition.topic,
       .partitions = {{.partition = partition.partition, .fetchOffset = from, .partitionMaxBytes = bytesMax}}}};
  auto answer = co_await client.call(std::move(request), kFetchVersion, kPatience);
  if (answer.message.errorCode != Error::none) co_return Fetched{.error = answer.message.errorCode};
  const auto& part = answer.message.responses.at(0).partitions.at(0);
  Fetched fetched{
      .error = part.errorCode, .logStart = part.logStartOffset, .highWatermark = part.highWatermark, .next = from};
  if (part.errorCode == Error::none && part.records) {
    fetched.next = takeRecords(part.records->view(), partition, from, fetched.records);
    // A new leader may not know yet how far the one before was; but then it says nothing.
    if (!fetched.records.empty() && fetched.next > fetched.highWatermark) {
      kj::throwFatalException(KJ_EXCEPTION(FAILED, "stable: records above the high watermark", partition.topic.c_str(),
                                           fetched.next, fetched.highWatermark));
    }
  }
  co_return fetched;
}

}  // namespace

Co<void> produceUntilStopped(Workload& workload, bool idempotent) {
  Producer producer(workload, idempotent);
  co_await producer.run();
}

Co<void> readUntilStopped(Workload& w) {
  Prng random = w.random.fork();
  ClusterClient client(w.shard, w.brokers);
  std::map<TopicPartition, int64_t> next;
  while (!w.stopping) {
    auto topics = w.history.livingTopics();
    co_await w.shard.after(Duration(std::chrono::milliseconds(random.between(1, 50))));
    if (topics.empty()) continue;
    TopicPartition partition{topics[random.below(topics.size())],
                             static_cast<int32_t>(random.below(static_cast<uint64_t>(w.partitions)))};
    if (random.chance(1, 20)) next[partition] = 0;
    Fetched fetched;
    auto bytesMax = static_cast<int32_t>(random.between(1, 40'000));
    auto waitMs = static_cast<int32_t>(random.between(0, 300));
    bool answered =
        co_await attempted(fetch(client, partition, next[partition], waitMs, bytesMax).then([&fetched](Fetched&& got) {
          fetched = std::move(got);
        }));
    if (!answered) {
      co_await w.shard.after(100ms);
    } else if (fetched.error == Error::none) {
      for (const StoredRecord& record : fetched.records) w.history.seen(partition, record);
      next[partition] = fetched.next;
    } else if (fetched.error == Error::offsetOutOfRange) {
      std::optional<int64_t> start;
      co_await attempted(offsetAt(client, partition, kEarliest).then([&start](auto&& found) { start = found; }));
      if (!start) continue;
      // What was trimmed and not acknowledged may be there still at the leader that comes next.
      if (w.replicas > 1 && w.history.mayBeTrimmed(partition, next[partition])) continue;
      if (*start <= next[partition]) {
        kj::throwFatalException(KJ_EXCEPTION(FAILED, "stable: an offset that was readable is out of range",
                                             partition.topic.c_str(), partition.partition, next[partition], *start));
      }
      next[partition] = *start;
    } else if (!isPassing(fetched.error)) {
      unexpected("Fetch", fetched.error);
    }
  }
}

Co<void> createTopic(Workload& w, ClusterClient& client, std::string name) {
  Prng random = w.random.fork();
  wire::CreateTopicsRequest request{.timeoutMs = 5000};
  request.topics = {
      {.name = name,
       .numPartitions = w.partitions,
       .replicationFactor = w.singles && random.chance(1, 4) ? int16_t{1} : w.replicas,
       .configs = {{.name = "internal.segment.bytes", .value = std::to_string(random.between(20'000, 200'000))},
                   {.name = "index.interval.bytes", .value = std::to_string(random.between(1, 8000))},
                   {.name = "retention.ms", .value = "-1"}}}};
  w.history.creating(name);
  while (!w.stopping) {
    Error error = Error::none;
    std::string message;
    bool answered = co_await attempted(client.call(request, 7, kPatience).then([&](auto&& answer) {
      error = answer.message.topics.at(0).errorCode;
      message = answer.message.topics.at(0).errorMessage.value_or("");
    }));
    if (answered && (error == Error::none || error == Error::topicAlreadyExists)) {
      w.history.created(name);
      co_return;
    }
    // While brokers are away.
    const bool isTooMany = error == Error::invalidReplicationFactor && w.replicas > 1;
    if (answered && !isPassing(error) && !isTooMany) unexpected("CreateTopics", error, message);
    co_await w.shard.after(200ms);
  }
}

namespace {

Co<void> deleteTopic(Workload& w, ClusterClient& client, std::string name) {
  w.history.deleting(name);
  bool unanswered = false;
  while (!w.stopping) {
    Error error = Error::none;
    wire::DeleteTopicsRequest request{.timeoutMs = 5000};
    request.topics = {{.name = name}};
    bool answered = co_await attempted(client.call(std::move(request), 6, kPatience).then([&](auto&& answer) {
      error = answer.message.responses.at(0).errorCode;
    }));
    if (answered && (error == Error::none || (error == Error::unknownTopicOrPartition && unanswered))) {
      w.history.deleted(name);
      ++w.deletedTopics;
      co_return;
    }
    if (answered && !isPassing(error)) unexpected("DeleteTopics", error);
    unanswered = true;
    co_await w.shard.after(200ms);
  }
}

Co<void> trim(Workload& w, ClusterClient& client, TopicPartition partition, Prng& random) {
  auto end = co_await offsetAt(client, partition, kLatest);
  if (!end) co_return;
  auto offset = static_cast<int64_t>(random.between(0, static_cast<uint64_t>(*end)));
  w.history.trimming(partition, offset);
  wire::DeleteRecordsRequest request{.timeoutMs = 5000};
  request.topics = {
      {.name = partition.topic, .partitions = {{.partitionIndex = partition.partition, .offset = offset}}}};
  auto answer = co_await client.call(std::move(request), 2, kPatience);
  const auto& result = answer.message.topics.at(0).partitions.at(0);
  if (result.errorCode == Error::none) {
    w.history.trimmed(partition, result.lowWatermark);
    ++w.trims;
  } else if (!isPassing(result.errorCode) && result.errorCode != Error::offsetOutOfRange) {
    unexpected("DeleteRecords", result.errorCode);
  }
}

Co<void> alter(ClusterClient& client, std::string topic, std::string name, std::string value) {
  wire::IncrementalAlterConfigsRequest request;
  request.resources = {{.resourceType = 2,
                        .resourceName = std::move(topic),
                        .configs = {{.name = std::move(name), .configOperation = 0, .value = std::move(value)}}}};
  auto answer = co_await client.call(std::move(request), 1, kPatience);
  Error error = answer.message.responses.at(0).errorCode;
  if (error != Error::none && !isPassing(error)) {
    unexpected("IncrementalAlterConfigs", error, answer.message.responses.at(0).errorMessage.value_or(""));
  }
}

}  // namespace

Co<void> administerUntilStopped(Workload& w, int topicsMax) {
  Prng random = w.random.fork();
  ClusterClient client(w.shard, w.brokers);
  int made = 0;
  while (!w.stopping) {
    co_await w.shard.after(Duration(std::chrono::milliseconds(random.between(50, 3000))));
    auto topics = w.history.livingTopics();
    uint64_t what = random.below(10);
    if (topics.size() < 2 || (what < 2 && made < topicsMax)) {
      co_await createTopic(w, client, fmt::format("t{}", ++made));
    } else if (what == 2) {
      co_await deleteTopic(w, client, topics[random.below(topics.size())]);
    } else if (what < 6) {
      TopicPartition partition{topics[random.below(topics.size())],
                               static_cast<int32_t>(random.below(static_cast<uint64_t>(w.partitions)))};
      co_await attempted(trim(w, client, partition, random));
    } else {
      static constexpr const char* kTypes[] = {"producer", "auto", "lz4", "zstd", "uncompressed", "gzip", "snappy"};
      bool compression = random.chance(1, 2);
      co_await attempted(alter(
          client, topics[random.below(topics.size())], compression ? "compression.type" : "internal.segment.bytes",
          compression ? kTypes[random.below(std::size(kTypes))] : std::to_string(random.between(20'000, 200'000))));
    }
  }
}

Co<int64_t> latestOffset(Workload& w, ClusterClient& client, TopicPartition partition) {
  co_return co_await patiently<int64_t>(w.shard, "ListOffsets", [&] { return offsetAt(client, partition, kLatest); });
}

Co<std::map<TopicPartition, FinalPartition>> readAll(Workload& w) {
  std::map<TopicPartition, FinalPartition> all;
  ClusterClient client(w.shard, w.brokers);
  using Metadata = Answer<wire::MetadataResponse>;
  auto metadata = co_await patiently<Metadata>(w.shard, "Metadata", [&]() -> Co<std::optional<Metadata>> {
    co_return co_await client.call(wire::MetadataRequest{.topics = std::nullopt, .allowAutoTopicCreation = false}, 9,
                                   kPatience);
  });
  for (const auto& topic : metadata.message.topics) {
    // Nobody writes to the one; the others have checks of their own.
    if (topic.isInternal || *topic.name == kGroupTopic || topic.name->starts_with("txn-")) continue;
    if (topic.errorCode != Error::none) unexpected("Metadata", topic.errorCode, *topic.name);
    for (const auto& row : topic.partitions) {
      TopicPartition name{*topic.name, row.partitionIndex};
      FinalPartition& partition = all[name];
      auto start =
          co_await patiently<int64_t>(w.shard, "ListOffsets", [&] { return offsetAt(client, name, kEarliest); });
      const int64_t end = co_await latestOffset(w, client, name);
      for (int64_t next = start;;) {
        Fetched fetched = co_await patiently<Fetched>(w.shard, "Fetch", [&]() -> Co<std::optional<Fetched>> {
          Fetched got = co_await fetch(client, name, next, 0, 1 << 20);
          if (isPassing(got.error)) co_return std::nullopt;
          co_return got;
        });
        if (fetched.error != Error::none) unexpected("the last Fetch", fetched.error, name.topic);
        partition.logStart = fetched.logStart;
        partition.highWatermark = fetched.highWatermark;
        partition.records.insert(partition.records.end(), fetched.records.begin(), fetched.records.end());
        if (fetched.next >= std::max(fetched.highWatermark, end)) break;
        if (fetched.next == next && fetched.highWatermark < end) {  // its leader is a new one
          co_await w.shard.after(100ms);
          continue;
        }
        if (fetched.next == next) {
          kj::throwFatalException(
              KJ_EXCEPTION(FAILED, "gapless: nothing can be read below the high watermark", name.topic.c_str(), next));
        }
        next = fetched.next;
      }
    }
  }
  co_return all;
}

}  // namespace mq::sim
