#include "transactions.h"

#include <fmt/format.h>
#include <kj/debug.h>

#include <algorithm>

#include "answers.h"
#include "group_members.h"
#include "record/batch.h"
#include "record/builder.h"
#include "wire/add_offsets_to_txn_request.h"
#include "wire/add_offsets_to_txn_response.h"
#include "wire/add_partitions_to_txn_request.h"
#include "wire/add_partitions_to_txn_response.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/end_txn_request.h"
#include "wire/end_txn_response.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"
#include "wire/produce_request.h"
#include "wire/produce_response.h"
#include "wire/txn_offset_commit_request.h"
#include "wire/txn_offset_commit_response.h"

namespace mq::sim {
namespace {

constexpr int32_t kTimeoutMs = 3000;
constexpr Duration kStableWithin = 60s;  // time-out, its check, markers
constexpr int kProduceAttempts = 8;
constexpr uint32_t kRecordProducers = 1000;  // first number of those in RecordId

template <class... Args>
[[noreturn]] void violated(fmt::format_string<Args...> format, Args&&... args) {
  kj::throwFatalException(KJ_EXCEPTION(FAILED, kj::str(fmt::format(format, std::forward<Args>(args)...).c_str())));
}

// Ask again: the coordinator or the partition is not there, or not yet.
bool isWaiting(Error error) {
  return isPassing(error) || error == Error::notCoordinator || error == Error::coordinatorLoadInProgress ||
         error == Error::concurrentTransactions || error == Error::notEnoughReplicas;
}

// The producer is no more, or its transaction is.
bool isLost(Error error) {
  switch (error) {
    case Error::invalidProducerEpoch:
    case Error::producerFenced:
    case Error::invalidTxnState:
    case Error::transactionAbortable:
    case Error::invalidProducerIdMapping:
    case Error::outOfOrderSequenceNumber:
    case Error::unknownProducerId: return true;
    default: return false;
  }
}

std::string groupOf(const std::string& producer) { return "group-of-" + producer; }

enum class Told : uint8_t { done, lost, unanswered };

class Producer {
 public:
  Producer(Workload& workload, TransactionHistory& history, std::string name)
      : w_(workload),
        history_(history),
        random_(workload.random.fork()),
        client_(workload.shard, workload.brokers),
        name_(std::move(name)),
        number_(kRecordProducers + workload.nextProducer++),
        isNew_(random_.chance(1, 2)) {}

  Co<void> run() {
    while (!w_.stopping) {
      co_await pause(1, 200);
      if (!producerId_) {
        co_await attempted(init());
        continue;
      }
      co_await transaction();
      if (random_.chance(1, 12)) co_await beReplaced();
    }
    // Vanishes in the middle of one: only its time-out ends it.
    if (!producerId_ || random_.chance(1, 2)) co_return;
    auto transaction = history_.begin(name_);
    added_.clear();
    (void)co_await send(transaction);
    history_.ended(transaction, TransactionHistory::Outcome::aborted);
  }

 private:
  kj::Promise<void> pause(uint64_t from, uint64_t to) {
    return w_.shard.after(Duration(std::chrono::milliseconds(random_.between(from, to))));
  }

  Co<void> init() {
    auto found = co_await client_.call(wire::FindCoordinatorRequest{.key = name_, .keyType = 1}, 1, kPatience);
    if (found.message.errorCode != Error::none) {
      if (!isWaiting(found.message.errorCode)) unexpected("FindCoordinator", found.message.errorCode);
      co_return;
    }
    wire::InitProducerIdRequest request;
    request.transactionalId = name_;
    request.transactionTimeoutMs = kTimeoutMs;
    auto given = co_await client_.call(std::move(request), 4, kPatience);
    if (given.message.errorCode != Error::none) {
      if (!isWaiting(given.message.errorCode)) unexpected("InitProducerId", given.message.errorCode);
      co_return;
    }
    producerId_ = ProducerId(given.message.producerId);
    epoch_ = given.message.producerEpoch;
    sequences_.clear();
  }

  Co<void> transaction() {
    auto transaction = history_.begin(name_);
    added_.clear();
    Told told = Told::done;
    for (uint64_t batches = random_.between(1, 4); batches > 0 && told == Told::done; --batches) {
      told = co_await send(transaction);
      if (random_.chance(1, 30)) co_await pause(kTimeoutMs, 2 * kTimeoutMs);  // its time-out comes first
    }
    if (told == Told::done && random_.chance(1, 2)) told = co_await commitOffset(transaction);
    const bool commits = told == Told::done && random_.chance(3, 4);
    if (told == Told::lost) {
      history_.ended(transaction, TransactionHistory::Outcome::aborted);
      producerId_.reset();
      co_return;
    }
    history_.ended(transaction, co_await end(commits));
    // A batch that nobody answered may be there: its sequence numbers must not come again with other bytes. The newer
    // generation has another epoch by now.
    if (told == Told::unanswered && !isNew_) producerId_.reset();
  }

  // One batch, again and again with the same bytes.
  Co<Told> send(TransactionHistory::Number transaction) {
    TopicPartition to{kTransactionTopics[random_.below(2)],
                      static_cast<int32_t>(random_.below(static_cast<uint64_t>(w_.partitions)))};
    std::vector<RecordId> ids;
    Buffer bytes = batchFor(to, random_.between(1, 5), ids);
    for (RecordId id : ids) history_.sent(transaction, id);
    Told told = isNew_ ? Told::done : co_await add(to);
    if (told == Told::done) told = co_await produce(to, bytes);
    if (told == Told::done) {
      for (RecordId id : ids) history_.acknowledged(transaction, id);
      sequences_[to] += static_cast<int32_t>(ids.size());
    }
    co_return told;
  }

  Buffer batchFor(const TopicPartition& to, uint64_t count, std::vector<RecordId>& ids) {
    record::BatchBuilder builder(
        {.producerId = *producerId_, .producerEpoch = epoch_, .baseSequence = sequences_[to], .isTransactional = true});
    for (; count > 0; --count) {
      RecordId id{number_, next_++};
      std::string value = valueOf(id);
      builder.add({.timestamp = w_.shard.wallNow(), .value = asBytes(value)});
      ids.push_back(id);
    }
    return builder.build(workspace_);
  }

  // Until `ask` has an answer that means something. It says whether the last try may have been heard without one.
  template <class Ask>
  Co<Told> untilAnswered(Ask ask, const char* what, int attempts, bool* wasUnanswered = nullptr) {
    for (; attempts > 0; --attempts) {
      Error error = Error::requestTimedOut;
      bool answered = co_await attempted(ask().then([&error](Error told) { error = told; }));
      if (answered && error == Error::none) co_return Told::done;
      if (answered && isLost(error)) co_return Told::lost;
      if (answered && !isWaiting(error)) unexpected(what, error);
      // Passing errors may come behind an append that goes on.
      if (wasUnanswered != nullptr && error != Error::concurrentTransactions) *wasUnanswered = true;
      co_await pause(10, 400);
    }
    co_return Told::unanswered;
  }

  Co<Told> add(TopicPartition to) {
    if (added_.contains(to)) co_return Told::done;
    auto ask = [this, to]() -> Co<Error> {
      wire::AddPartitionsToTxnRequest request{.v3AndBelowTransactionalId = name_,
                                              .v3AndBelowProducerId = producerId_->value(),
                                              .v3AndBelowProducerEpoch = epoch_};
      request.v3AndBelowTopics = {{.name = to.topic, .partitions = {to.partition}}};
      auto answer = co_await client_.call(std::move(request), 3, kPatience);
      co_return answer.message.resultsByTopicV3AndBelow.at(0).resultsByPartition.at(0).partitionErrorCode;
    };
    Told told = co_await untilAnswered(ask, "AddPartitionsToTxn", kProduceAttempts);
    if (told == Told::done) added_.insert(to);
    co_return told;
  }

  Co<Error> produceOnce(TopicPartition to, Bytes bytes) {
    wire::ProduceRequest request{.acks = -1, .timeoutMs = 5000};
    request.transactionalId = name_;
    request.topicData = {{.name = to.topic, .partitionData = {{.index = to.partition, .records = wire::Blob(bytes)}}}};
    auto answer = co_await client_.call(std::move(request), static_cast<int16_t>(isNew_ ? 12 : 9), kPatience);
    co_return answer.message.responses.at(0).partitionResponses.at(0).errorCode;
  }
  Co<Told> produce(TopicPartition to, Bytes bytes) {
    co_return co_await untilAnswered([this, to, bytes] { return produceOnce(to, bytes); }, "Produce", kProduceAttempts);
  }

  Co<Told> commitOffset(TransactionHistory::Number transaction) {
    const int64_t offset = ++offset_;
    auto find = [this]() -> Co<Error> {
      auto found = co_await client_.call(wire::FindCoordinatorRequest{.key = groupOf(name_)}, 1, kPatience);
      co_return found.message.errorCode;
    };
    if (co_await untilAnswered(find, "FindCoordinator", kProduceAttempts) != Told::done) co_return Told::unanswered;
    auto addGroup = [this]() -> Co<Error> {
      auto answer = co_await client_.call(wire::AddOffsetsToTxnRequest{.transactionalId = name_,
                                                                       .producerId = producerId_->value(),
                                                                       .producerEpoch = epoch_,
                                                                       .groupId = groupOf(name_)},
                                          3, kPatience);
      co_return answer.message.errorCode;
    };
    auto commit = [this, offset]() -> Co<Error> {
      wire::TxnOffsetCommitRequest request{.transactionalId = name_,
                                           .groupId = groupOf(name_),
                                           .producerId = producerId_->value(),
                                           .producerEpoch = epoch_};
      request.topics = {{.name = kGroupTopic,
                         .partitions = {{.partitionIndex = 0, .committedOffset = offset, .committedMetadata = ""}}}};
      auto answer = co_await client_.call(std::move(request), static_cast<int16_t>(isNew_ ? 5 : 3), kPatience);
      co_return answer.message.topics.at(0).partitions.at(0).errorCode;
    };
    Told told = isNew_ ? Told::done : co_await untilAnswered(addGroup, "AddOffsetsToTxn", kProduceAttempts);
    if (told == Told::done) told = co_await untilAnswered(commit, "TxnOffsetCommit", kProduceAttempts);
    if (told == Told::done) history_.offsetAcknowledged(transaction, offset);
    co_return told;
  }

  Co<TransactionHistory::Outcome> end(bool commits) {
    using Outcome = TransactionHistory::Outcome;
    bool wasUnanswered = false;
    int16_t nextEpoch = epoch_;
    int64_t nextId = producerId_->value();
    auto ask = [&, this]() -> Co<Error> {
      auto answer = co_await client_.call(wire::EndTxnRequest{.transactionalId = name_,
                                                              .producerId = producerId_->value(),
                                                              .producerEpoch = epoch_,
                                                              .committed = commits},
                                          static_cast<int16_t>(isNew_ ? 5 : 3), kPatience);
      if (answer.message.errorCode == Error::none && isNew_) {
        nextEpoch = answer.message.producerEpoch;
        nextId = answer.message.producerId;
      }
      co_return answer.message.errorCode;
    };
    Told told = co_await untilAnswered(ask, "EndTxn", 100, &wasUnanswered);
    if (told != Told::done) {
      producerId_.reset();
      co_return commits&& wasUnanswered ? Outcome::unknown : Outcome::aborted;
    }
    if (nextEpoch != epoch_ || nextId != producerId_->value()) sequences_.clear();
    epoch_ = nextEpoch;
    producerId_ = ProducerId(nextId);
    co_return commits ? Outcome::committed : Outcome::aborted;
  }

  // Another process takes over in the middle of a transaction, and this one goes on for a moment.
  Co<void> beReplaced() {
    auto transaction = history_.begin(name_);
    added_.clear();
    (void)co_await send(transaction);
    history_.ended(transaction, TransactionHistory::Outcome::aborted);
    if (!producerId_) co_return;
    const ProducerId zombieId = *producerId_;
    const int16_t zombieEpoch = epoch_;
    auto zombieSequences = sequences_;
    producerId_.reset();
    while (!w_.stopping && !producerId_) {
      co_await attempted(init());
      co_await pause(1, 100);
    }
    if (!producerId_) co_return;
    std::swap(sequences_, zombieSequences);
    const ProducerId id = *producerId_;
    const int16_t epoch = epoch_;
    producerId_ = zombieId;
    epoch_ = zombieEpoch;
    auto late = history_.begin(name_);
    TopicPartition to{kTransactionTopics[random_.below(2)], 0};
    std::vector<RecordId> ids;
    Buffer bytes = batchFor(to, 1, ids);
    for (RecordId sent : ids) history_.sent(late, sent);
    if (co_await produce(to, bytes) == Told::done) violated("atomic: a batch of a fenced producer was acknowledged");
    history_.ended(late, TransactionHistory::Outcome::aborted);
    producerId_ = id;
    epoch_ = epoch;
    std::swap(sequences_, zombieSequences);
  }

  Workload& w_;
  TransactionHistory& history_;
  Prng random_;
  ClusterClient client_;
  record::Workspace workspace_;
  const std::string name_;
  const uint32_t number_;
  const bool isNew_;  // the generation of KIP-890: an epoch for each transaction
  std::optional<ProducerId> producerId_;
  int16_t epoch_ = 0;
  uint32_t next_ = 0;
  int64_t offset_ = 0;
  std::map<TopicPartition, int32_t> sequences_;
  std::set<TopicPartition> added_;
};

struct Committed {
  Error error = Error::none;
  int64_t next = 0, lastStable = 0, highWatermark = 0;
  std::vector<RecordId> records;
};

// As a reader with isolation.level=read_committed takes an answer: it leaves out what the list of aborted transactions
// says.
Co<Committed> fetchCommitted(ClusterClient& client, TopicPartition partition, int64_t from, int32_t bytesMax) {
  wire::FetchRequest request{.maxWaitMs = 0, .minBytes = 1, .maxBytes = bytesMax};
  request.isolationLevel = 1;
  request.topics = {
      {.topic = partition.topic,
       .partitions = {{.partition = partition.partition, .fetchOffset = from, .partitionMaxBytes = bytesMax}}}};
  auto answer = co_await client.call(std::move(request), 12, kPatience);
  if (answer.message.errorCode != Error::none) co_return Committed{.error = answer.message.errorCode};
  const auto& part = answer.message.responses.at(0).partitions.at(0);
  Committed got{
      .error = part.errorCode, .next = from, .lastStable = part.lastStableOffset, .highWatermark = part.highWatermark};
  if (part.errorCode != Error::none || !part.records) co_return got;
  std::multimap<int64_t, int64_t> aborted;  // first offset → producer
  for (const auto& one : part.abortedTransactions.value_or(std::vector<wire::FetchResponse::AbortedTransaction>()))
    aborted.emplace(one.firstOffset, one.producerId);
  std::set<int64_t> skipped;
  record::Workspace workspace;
  Bytes left = part.records->view();
  for (;;) {
    record::NextBatch batch = record::nextBatch(left);
    if (batch.kind != record::NextBatch::Kind::whole) co_return got;
    left = left.subspan(batch.sizeBytes);
    record::BatchView view(batch.batch);
    if (view.nextOffset().value() <= got.next) continue;
    while (!aborted.empty() && aborted.begin()->first < view.nextOffset().value()) {
      skipped.insert(aborted.begin()->second);
      aborted.erase(aborted.begin());
    }
    if (view.isControl()) {
      skipped.erase(view.producerId().value());
    } else if (!view.isTransactional() || !skipped.contains(view.producerId().value())) {
      auto records = record::openRecords(view, workspace);
      if (!records) violated("gapless: a batch that cannot be opened in {}", partition);
      record::RecordView record;
      while (records->next(record)) {
        if (record.offset.value() < got.next) continue;
        auto id = record.value ? readValue(*record.value) : std::nullopt;
        if (!id) violated("no-phantom: a record that nobody made in {} at {}", partition, record.offset.value());
        got.records.push_back(*id);
      }
    }
    got.next = view.nextOffset().value();
    if (got.next > got.lastStable)
      violated("stable: {} was read to {}, above the last stable offset {}", partition, got.next, got.lastStable);
  }
}

}  // namespace

TransactionHistory::Number TransactionHistory::begin(const std::string& producer) {
  transactions_.push_back({.producer = producer, .records = {}, .offset = std::nullopt});
  return transactions_.size() - 1;
}
void TransactionHistory::sent(Number transaction, RecordId id) { owners_[id] = transaction; }
void TransactionHistory::acknowledged(Number transaction, RecordId id) {
  transactions_.at(transaction).records.push_back(id);
}
void TransactionHistory::offsetAcknowledged(Number transaction, int64_t offset) {
  transactions_.at(transaction).offset = offset;
}
void TransactionHistory::ended(Number transaction, Outcome outcome) { transactions_.at(transaction).outcome = outcome; }
void TransactionHistory::seen(RecordId id) {
  auto owner = owners_.find(id);
  if (owner == owners_.end()) violated("no-phantom: {}/{} was never sent", id.producer, id.number);
  if (transactions_[owner->second].outcome == Outcome::aborted)
    violated("atomic: {}/{} of an aborted transaction was shown", id.producer, id.number);
  seen_.insert(id);
}

void TransactionHistory::check(const std::vector<RecordId>& visible,
                               const std::map<std::string, int64_t>& offsets) const {
  std::set<RecordId> there;
  for (RecordId id : visible) {
    if (!there.insert(id).second) violated("unique: {}/{} is visible twice", id.producer, id.number);
    if (!owners_.contains(id)) violated("no-phantom: {}/{} was never sent", id.producer, id.number);
  }
  for (RecordId id : seen_)
    if (!there.contains(id)) violated("stable: {}/{} was shown, and is not visible any more", id.producer, id.number);
  std::map<std::string, int64_t> wanted;
  for (const Transaction& transaction : transactions_) {
    auto shown = static_cast<size_t>(
        std::ranges::count_if(transaction.records, [&](RecordId id) { return there.contains(id); }));
    const size_t all = transaction.records.size();
    bool isRight = shown == 0 || shown == all;
    if (transaction.outcome == Outcome::committed) isRight = shown == all;
    if (transaction.outcome == Outcome::aborted || transaction.outcome == Outcome::open) isRight = shown == 0;
    if (!isRight) {
      violated("atomic: {} of {} records of a transaction of {} are visible; its outcome: {}", shown, all,
               transaction.producer, static_cast<int>(transaction.outcome));
    }
    if (transaction.offset && shown > 0)
      wanted[transaction.producer] = std::max(wanted[transaction.producer], *transaction.offset);
  }
  for (const auto& [producer, offset] : offsets) {
    if (int64_t should = wanted.contains(producer) ? wanted[producer] : -1; offset != should)
      violated("atomic: the offset of {} is {}, its visible transactions say {}", producer, offset, should);
  }
}

std::set<std::string> TransactionHistory::producers() const {
  std::set<std::string> names;
  for (const Transaction& transaction : transactions_) names.insert(transaction.producer);
  return names;
}

uint64_t TransactionHistory::count(Outcome outcome) const {
  return static_cast<uint64_t>(
      std::ranges::count_if(transactions_, [&](const Transaction& one) { return one.outcome == outcome; }));
}

Co<void> prepareTransactions(Workload& w) {
  ClusterClient client(w.shard, w.brokers);
  for (const char* name : kTransactionTopics) {
    wire::CreateTopicsRequest request{.timeoutMs = 5000};
    request.topics = {
        {.name = name,
         .numPartitions = w.partitions,
         .replicationFactor = w.replicas,
         .configs = {{.name = "internal.segment.bytes", .value = std::to_string(w.random.between(5000, 200'000))},
                     {.name = "retention.ms", .value = "-1"}}}};
    for (bool done = false; !done && !w.stopping;) {
      Error error = Error::none;
      bool answered = co_await attempted(client.call(request, 7, kPatience).then([&](auto&& answer) {
        error = answer.message.topics.at(0).errorCode;
      }));
      done = answered && (error == Error::none || error == Error::topicAlreadyExists);
      if (!done) co_await w.shard.after(200ms);
    }
  }
}

Co<void> transactUntilStopped(Workload& w, TransactionHistory& transactions, std::string name) {
  Producer producer(w, transactions, std::move(name));
  co_await producer.run();
}

Co<void> readCommittedUntilStopped(Workload& w, TransactionHistory& transactions) {
  Prng random = w.random.fork();
  ClusterClient client(w.shard, w.brokers);
  std::map<TopicPartition, int64_t> next;
  while (!w.stopping) {
    co_await w.shard.after(Duration(std::chrono::milliseconds(random.between(1, 100))));
    TopicPartition partition{kTransactionTopics[random.below(2)],
                             static_cast<int32_t>(random.below(static_cast<uint64_t>(w.partitions)))};
    if (random.chance(1, 20)) next[partition] = 0;
    Committed got;
    auto bytesMax = static_cast<int32_t>(random.between(1, 30'000));
    bool answered = co_await attempted(
        fetchCommitted(client, partition, next[partition], bytesMax).then([&got](Committed&& fetched) {
          got = std::move(fetched);
        }));
    if (!answered) continue;
    if (got.error != Error::none && !isPassing(got.error)) unexpected("Fetch", got.error);
    if (got.error != Error::none) continue;
    for (RecordId id : got.records) transactions.seen(id);
    next[partition] = got.next;
  }
}

Co<void> checkTransactions(Workload& w, const TransactionHistory& transactions) {
  ClusterClient client(w.shard, w.brokers);
  std::vector<RecordId> visible;
  const Instant limit = w.shard.now() + kStableWithin;
  for (const char* topic : kTransactionTopics) {
    for (int32_t index = 0; index < w.partitions; ++index) {
      TopicPartition partition{topic, index};
      const int64_t end = co_await latestOffset(w, client, partition);
      for (int64_t next = 0;;) {
        Committed got = co_await patiently<Committed>(w.shard, "Fetch", [&]() -> Co<std::optional<Committed>> {
          Committed one = co_await fetchCommitted(client, partition, next, 1 << 20);
          if (isPassing(one.error)) co_return std::nullopt;
          co_return one;
        });
        if (got.error != Error::none) unexpected("the last Fetch", got.error, partition.topic);
        visible.insert(visible.end(), got.records.begin(), got.records.end());
        const bool moved = got.next > next;
        next = got.next;
        if (next >= std::max(got.highWatermark, end)) break;
        if (moved) continue;
        if (w.shard.now() > limit)
          violated("stable-end: {} can be read to {} of {} only", partition, next, got.highWatermark);
        co_await w.shard.after(200ms);
      }
    }
  }
  std::map<std::string, int64_t> offsets;
  for (const std::string& producer : transactions.producers()) {
    for (;;) {
      wire::OffsetFetchRequest request{.groupId = groupOf(producer)};
      request.topics.emplace();
      request.topics->push_back({.name = kGroupTopic, .partitionIndexes = {0}});
      request.requireStable = true;
      Error error = Error::coordinatorNotAvailable;
      int64_t committed = -1;
      co_await attempted(client.call(std::move(request), 7, kPatience).then([&](auto&& answer) {
        error = answer.message.errorCode;
        if (error != Error::none) return;
        error = answer.message.topics.at(0).partitions.at(0).errorCode;
        committed = answer.message.topics.at(0).partitions.at(0).committedOffset;
      }));
      if (error == Error::none) {
        offsets[producer] = committed;
        break;
      }
      if (!isWaiting(error) && error != Error::unstableOffsetCommit) unexpected("the last OffsetFetch", error);
      if (w.shard.now() > limit) violated("stable-end: the offset of {} is not stable: {}", producer, error);
      co_await w.shard.after(200ms);
    }
  }
  transactions.check(visible, offsets);
}

}  // namespace mq::sim
