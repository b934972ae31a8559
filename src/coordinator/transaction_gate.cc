#include "coordinator/transaction_gate.h"

#include "coordinator/transaction_coordinator.h"

namespace mq::coordinator {
namespace {

constexpr int kAttempts = 5;
constexpr Duration kRemoteWithin = 10s;

Failure stopping() { return failure(Error::notLeaderOrFollower, "the broker is stopping"); }

// As Kafka answers a producer: errors that older clients do not expect become one on which they try again.
Failure toProducer(const Failure& why) {
  switch (why.error) {
    case Error::concurrentTransactions:
    case Error::coordinatorLoadInProgress:
    case Error::coordinatorNotAvailable:
    case Error::notCoordinator:
      return failure(Error::notEnoughReplicas, "whether the partition is in the transaction cannot be told yet: {} {}",
                     why.error, why.message);
    case Error::invalidTxnState:
    case Error::transactionAbortable: return failure(why.error, "the partition was not added to the transaction");
    default: return why;
  }
}

}  // namespace

void TransactionGate::stop() {
  stopped_ = true;
  tasks_.cancelAll();
  for (auto& [key, line] : std::exchange(lines_, {}))
    for (Waiting& waiting : line) waiting.answer->fulfill(Result<replica::Produced>(stopping()));
}

kj::Promise<Result<replica::Produced>> TransactionGate::append(Asked asked, MutableBytes batch, replica::Acks acks,
                                                               std::vector<record::RecordError>* recordErrors) {
  if (stopped_) return Result<replica::Produced>(stopping());
  Key key{asked.id, asked.producer.id};
  auto line = lines_.find(key);
  if (line == lines_.end()) {
    replica::Partition* partition = partitions_.find(asked.id);
    if (partition == nullptr) return Result<replica::Produced>(partitions_.whyMissing(asked.id));
    if (partition->isInTransaction(asked.producer.id, asked.producer.epoch))
      return partition->append(batch, acks, recordErrors);
  }
  auto paf = kj::newPromiseAndFulfiller<Result<replica::Produced>>();
  lines_[key].push_back({std::move(asked), batch, acks, recordErrors, kj::mv(paf.fulfiller)});
  if (line == lines_.end()) tasks_.add(serve(key));
  return kj::mv(paf.promise);
}

Co<void> TransactionGate::serve(Key key) {
  while (!lines_.at(key).empty()) {
    auto guard = co_await admit(lines_.at(key).front().asked);
    auto& line = lines_.at(key);
    Waiting waiting = std::move(line.front());
    line.pop_front();
    if (guard) {
      append(std::move(waiting), *guard);
    } else {
      waiting.answer->fulfill(Result<replica::Produced>(toProducer(guard.failure())));
    }
  }
  lines_.erase(key);
}

void TransactionGate::append(Waiting waiting, uint64_t guard) {
  replica::Partition* partition = partitions_.find(waiting.asked.id);
  if (partition == nullptr)
    return waiting.answer->fulfill(Result<replica::Produced>(partitions_.whyMissing(waiting.asked.id)));
  auto appended = partition->append(waiting.batch, waiting.acks, waiting.recordErrors, storage::Origin::client, guard);
  // It is answered also when the node stops meanwhile.
  shard_.spawn(appended.then([&partitions = partitions_, id = waiting.asked.id, producer = waiting.asked.producer.id,
                              guard, answer = kj::mv(waiting.answer)](Result<replica::Produced>&& result) mutable {
    if (replica::Partition* there = partitions.find(id)) there->dropGuard(producer, guard);
    answer->fulfill(kj::mv(result));
  }));
}

Co<Result<uint64_t>> TransactionGate::admit(Asked asked) {
  const auto [producer, epoch] = asked.producer;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    replica::Partition* partition = partitions_.find(asked.id);  // after each wait
    if (partition == nullptr) co_return partitions_.whyMissing(asked.id);
    if (!partition->isLeader()) co_return Error::notLeaderOrFollower;  // nobody needs to be asked
    uint64_t guard = partition->guardTransaction(producer, epoch);
    if (guard == 0) co_return guard;
    auto allowed = co_await askCoordinator(asked);
    partition = partitions_.find(asked.id);
    if (partition == nullptr) co_return partitions_.whyMissing(asked.id);
    if (!allowed) {
      partition->dropGuard(producer, guard);
      Failure why = allowed.failure();
      if (why.error == Error::producerFenced) why.error = Error::invalidProducerEpoch;
      if (why.error == Error::transactionAbortable && !asked.knowsAbortable) why.error = Error::invalidTxnState;
      co_return why;
    }
    // Not if the end of the transaction before this one came in between: then it is asked again.
    if (partition->admitsTransaction(producer, epoch, guard)) co_return guard;
  }
  co_return Error::invalidTxnState;
}

kj::Promise<Result<void>> TransactionGate::askCoordinator(const Asked& asked) {
  metadata::TopicRef topic = feed_.image()->topic(kTransactionsTopic);
  if (topic == nullptr) {
    // Nobody ever had a transaction; or, in a cluster, the news of it is still on its way here.
    return Result<void>(node_.others == nullptr ? Error::invalidProducerIdMapping : Error::coordinatorNotAvailable);
  }
  EntryRequest request{.transactionalId = asked.transactionalId,
                       .producer = asked.producer,
                       .partition = {asked.topic, asked.id.partition},
                       .adds = asked.adds};
  NodeId leader = topic->partition(partitionOf(asked.transactionalId, topic->partitionCount()))->leader;
  if (leader == kNoNode) return Result<void>(Error::coordinatorNotAvailable);
  if (leader == node_.id || node_.others == nullptr) return mayEnterHere(shard_, node_.shards, *feed_.image(), request);
  return shard_
      .call(0, [others = node_.others, leader,
                request = std::move(request)] { return others->mayEnter(leader, request, kRemoteWithin); })
      .catch_([](kj::Exception&& e) { return Result<void>(Failure(Error::coordinatorNotAvailable, describe(e))); });
}

}  // namespace mq::coordinator
