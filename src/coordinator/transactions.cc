#include "coordinator/transactions.h"

#include <algorithm>

namespace mq::coordinator {
namespace {

using State = TransactionState;

constexpr Duration kWaitForEnd = 1s;     // a batch, for the transaction before its own
constexpr size_t kRecordsPerStep = 100;  // of time-outs and forgotten ids

bool isForgettable(const Transaction& transaction) {
  return transaction.state == State::empty || transaction.state == State::completeCommit ||
         transaction.state == State::completeAbort;
}

// What AddPartitionsToTxn comes to: an error, or the transaction as it then is.
Result<Transaction> added(const Transaction& before, const Transactions::Add& asked, const Now& now) {
  if (before.producer != asked.producer.id) return Error::invalidProducerIdMapping;
  if (before.epoch != asked.producer.epoch) return Error::producerFenced;
  if (before.isEnding()) return Error::concurrentTransactions;
  Transaction after = before;
  after.partitions.insert(asked.partitions.begin(), asked.partitions.end());
  if (before.state == State::ongoing && after.partitions.size() == before.partitions.size()) return after;
  if (before.state != State::ongoing) after.started = now.wall;
  after.previous = before.producer;
  after.state = State::ongoing;
  after.clientVersion = asked.clientVersion;
  after.updated = now.wall;
  return after;
}

}  // namespace

Transactions::Entry* Transactions::find(const std::string& id) {
  auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : &found->second;
}

void Transactions::write(const std::string& id, const Transaction& transaction, Effects& effects) {
  effects.records.push_back(transactionRecord(id, transaction));
}

// --- InitProducerId

void Transactions::init(const Init& asked, const Now& now, Answer<GivenProducer> answer, Effects& effects) {
  Duration timeout = std::chrono::milliseconds(asked.timeoutMs);
  if (timeout <= Duration::zero() || timeout > settings_.timeoutMax)
    return effects.answer(std::move(answer), Error::invalidTransactionTimeout);

  Entry* entry = find(asked.id);
  const bool isNew = entry == nullptr;
  const Transaction before = isNew ? Transaction{} : entry->transaction;
  if (!isNew) {
    effects.after = entry->written;
    bool isCurrent = !asked.expected || asked.expected->id == before.producer;
    bool wasExhausted = asked.expected && asked.expected->id == before.previous &&
                        asked.expected->epoch >= INT16_MAX - 1;  // it may not have heard of its new id
    if (!isCurrent && !wasExhausted) return effects.answer(std::move(answer), Error::producerFenced);
    if (before.isEnding()) return effects.answer(std::move(answer), Error::concurrentTransactions);
    if (before.state == State::ongoing) {
      if (asked.expected && asked.expected->epoch != before.epoch)
        return effects.answer(std::move(answer), Error::producerFenced);
      effects.notes.push_back({"transaction-fenced", fmt::format("{}: another InitProducerId ends the transaction of "
                                                                 "producer {} epoch {}",
                                                                 asked.id, before.producer, before.epoch)});
      fence(asked.id, *entry, now, effects);
      return effects.answer(std::move(answer), Error::concurrentTransactions);  // its next try gets an epoch
    }
  }

  Transaction after = before;
  int16_t lastEpoch = -1;
  bool matches = !asked.expected || asked.expected->epoch == before.epoch;
  if (isNew || (before.isExhausted() && matches)) {
    if (!asked.fresh) return effects.answer(std::move(answer), GivenProducer{.producer = {}, .needsId = true});
    after.producer = *asked.fresh;
    after.previous = isNew ? *asked.fresh : before.producer;
    after.epoch = 0;
    if (!isNew && asked.expected) lastEpoch = before.epoch;
  } else {
    after.previous = before.producer;
    if (matches) {
      after.epoch = static_cast<int16_t>(before.epoch + 1);
      if (asked.expected) lastEpoch = before.epoch;
    } else if (entry->lastEpoch >= 0 && asked.expected->epoch == entry->lastEpoch) {
      lastEpoch = entry->lastEpoch;  // it asks again, for what it did not hear
    } else {
      return effects.answer(std::move(answer), Error::producerFenced);
    }
  }
  after.next = kNoProducer;
  after.timeoutMs = asked.timeoutMs;
  after.state = State::empty;
  after.partitions.clear();
  after.started = kNoTimestamp;
  after.updated = now.wall;
  write(asked.id, after, effects);
  if (!isNew) entry->lastEpoch = lastEpoch;
  effects.answer(std::move(answer), GivenProducer{.producer = {after.producer, after.epoch}});
}

// --- partitions

void Transactions::add(Add asked, const Now& now, Answer<Left> answer, Effects& effects) {
  Entry* entry = find(asked.id);
  if (entry == nullptr) return effects.answer(std::move(answer), Error::invalidProducerIdMapping);
  effects.after = entry->written;
  const Transaction& before = entry->transaction;
  if (before.isEnding()) {
    ProducerEpoch then{before.producer, before.epoch};
    if (before.next != kNoProducer) then = {before.next, 0};
    if (asked.producer == then) {
      waiting_.insert(asked.id);
      entry->waiting.push_back({std::move(asked), std::move(answer), now.instant + kWaitForEnd});
      return;
    }
  }
  auto after = added(before, asked, now);
  if (!after) return effects.answer(std::move(answer), after.failure());
  if (*after != before) write(asked.id, *after, effects);
  effects.answer(std::move(answer), Result<Left>());
}

void Transactions::verify(const Add& asked, Answer<std::vector<Error>> answer, Effects& effects) {
  Entry* entry = find(asked.id);
  if (entry == nullptr) return effects.answer(std::move(answer), Error::invalidProducerIdMapping);
  effects.after = entry->written;
  const Transaction& transaction = entry->transaction;
  if (transaction.producer != asked.producer.id)
    return effects.answer(std::move(answer), Error::invalidProducerIdMapping);
  if (transaction.epoch != asked.producer.epoch) return effects.answer(std::move(answer), Error::producerFenced);
  if (transaction.isEnding()) return effects.answer(std::move(answer), Error::concurrentTransactions);
  std::vector<Error> errors;
  for (const TopicPartition& partition : asked.partitions)
    errors.push_back(transaction.partitions.contains(partition) ? Error::none : Error::transactionAbortable);
  effects.answer(std::move(answer), std::move(errors));
}

// --- the end

EndedTransaction Transactions::endedOf(const std::string& id, const Transaction& transaction) {
  return {.transactionalId = id,
          .producer = {transaction.producer, transaction.epoch},
          .commits = transaction.state == State::prepareCommit,
          .clientVersion = transaction.clientVersion,
          .partitions = {transaction.partitions.begin(), transaction.partitions.end()}};
}

void Transactions::prepare(const std::string& id, Entry& entry, Transaction next, bool commits, const Now& now,
                           Effects& effects) {
  if (entry.transaction.state != State::ongoing) next.started = now.wall;
  next.previous = entry.transaction.producer;
  next.state = commits ? State::prepareCommit : State::prepareAbort;
  next.updated = now.wall;
  write(id, next, effects);
  effects.deeds.push_back([this, ended = endedOf(id, next)]() mutable { outbox_->write(std::move(ended)); });
}

void Transactions::fence(const std::string& id, Entry& entry, const Now& now, Effects& effects) {
  Transaction next = entry.transaction;
  next.clientVersion = now.image.level("transaction.version");
  // The producer of an aborted transaction may go on when it asks for an epoch; without KIP-890 nobody could tell it
  // from its successor.
  entry.lastEpoch = next.clientVersion >= kEpochPerTransaction ? next.epoch : int16_t{-1};
  if (next.epoch < INT16_MAX) ++next.epoch;
  prepare(id, entry, std::move(next), false, now, effects);
}

void Transactions::end(const End& asked, const Now& now, Answer<GivenProducer> answer, Effects& effects) {
  Entry* entry = find(asked.id);
  if (entry == nullptr) return effects.answer(std::move(answer), Error::invalidProducerIdMapping);
  effects.after = entry->written;
  const Transaction& before = entry->transaction;
  const ProducerEpoch current{before.producer, before.epoch};

  const bool bumps = asked.clientVersion >= kEpochPerTransaction;
  const bool bumped = bumps && before.clientVersion >= kEpochPerTransaction;
  const bool overflown = bumped && before.previous == asked.producer.id && before.producer != asked.producer.id &&
                         asked.producer.epoch == INT16_MAX - 1 && before.epoch == 0;
  const bool isRetry = overflown || (bumped && before.epoch == asked.producer.epoch + 1);
  if (before.producer != asked.producer.id && !overflown)
    return effects.answer(std::move(answer), Error::invalidProducerIdMapping);
  // The same epoch again is the end of the next transaction, not this one's again.
  bool isComplete = before.state == State::completeCommit || before.state == State::completeAbort;
  bool isSame = before.epoch == asked.producer.epoch;
  bool isAdmitted = !bumped ? isSame : before.isEnding() ? isRetry : isComplete ? isRetry || isSame : isSame;
  if (!isAdmitted) return effects.answer(std::move(answer), Error::producerFenced);

  bool begins = false;  // aborts a transaction in which nothing was written that the coordinator heard of
  switch (before.state) {
    case State::ongoing: break;
    case State::prepareCommit:
    case State::prepareAbort: {
      bool agrees = asked.commits == (before.state == State::prepareCommit);
      return effects.answer(std::move(answer), agrees ? Error::concurrentTransactions : Error::invalidTxnState);
    }
    case State::completeCommit:
    case State::completeAbort: {
      bool agrees = asked.commits == (before.state == State::completeCommit);
      if (bumps ? isRetry && agrees : agrees)
        return effects.answer(std::move(answer), GivenProducer{.producer = current});
      begins = bumps && !isRetry && !asked.commits;
      if (!begins) return effects.answer(std::move(answer), Error::invalidTxnState);
      break;
    }
    default:
      begins = bumps && !asked.commits;
      if (!begins) return effects.answer(std::move(answer), Error::invalidTxnState);
  }

  Transaction next = before;
  next.clientVersion = asked.clientVersion;
  ProducerEpoch given = current;
  if (bumps) {
    if (before.isExhausted()) {
      if (!asked.fresh) return effects.answer(std::move(answer), GivenProducer{.producer = {}, .needsId = true});
      next.next = *asked.fresh;
    }
    if (next.epoch < INT16_MAX) ++next.epoch;
    given = next.next != kNoProducer ? ProducerEpoch{next.next, 0} : ProducerEpoch{next.producer, next.epoch};
    entry->lastEpoch = before.epoch;
  }
  prepare(asked.id, *entry, std::move(next), asked.commits, now, effects);
  effects.answer(std::move(answer), GivenProducer{.producer = given});
}

void Transactions::complete(const std::string& id, const ProducerEpoch& producer, const Now& now, Effects& effects) {
  Entry* entry = find(id);
  if (entry == nullptr || !entry->transaction.isEnding()) return;
  Transaction next = entry->transaction;
  if (next.producer != producer.id || next.epoch != producer.epoch) return;
  const bool commits = next.state == State::prepareCommit;
  ++(commits ? counters_.committed : counters_.aborted);
  next.previous = next.producer;
  next.state = commits ? State::completeCommit : State::completeAbort;
  if (next.next != kNoProducer) {
    next.producer = next.next;
    next.next = kNoProducer;
    next.epoch = 0;
  }
  next.partitions.clear();
  next.updated = now.wall;
  write(id, next, effects);

  // The next transaction begins in the same batch.
  waiting_.erase(id);
  for (Waiting& waiting : std::exchange(entry->waiting, {})) {
    auto after = added(next, waiting.asked, now);
    if (!after) {
      effects.answer(std::move(waiting.answer), after.failure());
      continue;
    }
    if (*after != next) write(id, *after, effects);
    next = std::move(*after);
    effects.answer(std::move(waiting.answer), Result<Left>());
  }
}

// --- administration

void Transactions::describe(const std::string& id, Answer<Described> answer, Effects& effects) {
  Entry* entry = find(id);
  if (entry == nullptr) return effects.answer(std::move(answer), Error::transactionalIdNotFound);
  effects.after = entry->written;
  const Transaction& transaction = entry->transaction;
  Described described;
  described.transactionalId = id;
  described.transactionState = nameOf(transaction.state);
  described.transactionTimeoutMs = transaction.timeoutMs;
  described.transactionStartTimeMs = transaction.started.value();
  described.producerId = transaction.producer.value();
  described.producerEpoch = transaction.epoch;
  for (const auto& [topic, partition] : transaction.partitions) {
    if (described.topics.empty() || described.topics.back().topic != topic)
      described.topics.emplace_back().topic = topic;
    described.topics.back().partitions.push_back(partition);
  }
  effects.answer(std::move(answer), std::move(described));
}

void Transactions::list(const wire::ListTransactionsRequest& filter, const Now& now, Answer<Listed> answer,
                        Effects& effects) {
  auto contains = [](const auto& list, const auto& item) {
    return std::find(list.begin(), list.end(), item) != list.end();
  };
  Listed listed;
  for (const auto& [id, entry] : entries_) {
    const Transaction& transaction = entry.transaction;
    std::string_view state = nameOf(transaction.state);
    if (!filter.stateFilters.empty() && !contains(filter.stateFilters, state)) continue;
    if (!filter.producerIdFilters.empty() && !contains(filter.producerIdFilters, transaction.producer.value()))
      continue;
    if (filter.durationFilter >= 0 && now.wall - transaction.started <= filter.durationFilter) continue;
    listed.push_back(
        {.transactionalId = id, .producerId = transaction.producer.value(), .transactionState = std::string(state)});
    effects.after = std::max(effects.after, entry.written);
  }
  effects.answer(std::move(answer), std::move(listed));
}

// --- log

void Transactions::recount(const std::string& id, const Transaction& transaction, bool comes) {
  if (transaction.state == State::ongoing) {
    if (comes)
      ongoing_.insert(id);
    else
      ongoing_.erase(id);
  } else if (transaction.isEnding()) {
    comes ? ++ending_ : --ending_;
  }
}

void Transactions::apply(Bytes key, std::optional<Bytes> value, Revision revision) {
  auto id = readTransactionKey(key);
  Result<Transaction> transaction;
  if (value) transaction = readTransaction(*value);
  if (!id || !transaction) {
    ++counters_.unknown;
    return;
  }
  auto found = entries_.find(*id);
  if (found != entries_.end()) recount(*id, found->second.transaction, false);
  if (!value) {
    if (found != entries_.end()) entries_.erase(found);
    return;
  }
  if (found == entries_.end()) found = entries_.emplace(*id, Entry{}).first;
  recount(*id, *transaction, true);
  found->second.transaction = std::move(*transaction);
  found->second.written = revision;
}

void Transactions::loaded(const Now& now) {
  loadedAt_ = now.wall;
  nextAborts_ = now.instant + settings_.abortEvery;
  nextForgetting_ = now.instant + settings_.idExpirationEvery;
  for (const auto& [id, entry] : entries_)
    if (entry.transaction.isEnding()) outbox_->write(endedOf(id, entry.transaction));
}

// --- time

std::optional<Instant> Transactions::deadline() const {
  std::optional<Instant> next;
  auto consider = [&](std::optional<Instant> at) {
    if (at) next = next ? std::min(*next, *at) : at;
  };
  if (!ongoing_.empty()) consider(nextAborts_);
  if (!entries_.empty()) consider(nextForgetting_);
  for (const std::string& id : waiting_) consider(entries_.at(id).waiting.front().until);
  return next;
}

void Transactions::expire(const Now& now, Effects& effects) {
  std::erase_if(waiting_, [&](const std::string& id) {
    auto& waiting = entries_.at(id).waiting;
    while (!waiting.empty() && waiting.front().until <= now.instant) {
      effects.answer(std::move(waiting.front().answer), Error::concurrentTransactions);
      waiting.erase(waiting.begin());
    }
    return waiting.empty();
  });
  if (nextAborts_ && *nextAborts_ <= now.instant) abortTimedOut(now, effects);
  if (nextForgetting_ && *nextForgetting_ <= now.instant) forgetOld(now, effects);
}

void Transactions::abortTimedOut(const Now& now, Effects& effects) {
  nextAborts_ = now.instant + settings_.abortEvery;
  for (const std::string& id : ongoing_) {
    Entry& entry = entries_.at(id);
    const Transaction& transaction = entry.transaction;
    // A clock that was set back must not keep it open: what is in the log has begun before it was read.
    const WallMs started = entry.written == 0 ? std::min(transaction.started, loadedAt_) : transaction.started;
    if (now.wall - started < transaction.timeoutMs) continue;
    if (effects.records.size() >= kRecordsPerStep) {
      nextAborts_ = now.instant;  // the rest in the next step
      return;
    }
    ++counters_.timedOut;
    effects.notes.push_back(
        {"transaction-timed-out",
         fmt::format("{}: the transaction of producer {} epoch {} is open for longer than {} ms and "
                     "is aborted",
                     id, transaction.producer, transaction.epoch, transaction.timeoutMs)});
    fence(id, entry, now, effects);
  }
}

void Transactions::forgetOld(const Now& now, Effects& effects) {
  nextForgetting_ = now.instant + settings_.idExpirationEvery;
  const int64_t expiration = settings_.idExpiration / 1ms;
  for (const auto& [id, entry] : entries_) {
    if (!isForgettable(entry.transaction) || now.wall - entry.transaction.updated < expiration) continue;
    if (effects.records.size() >= kRecordsPerStep) {
      nextForgetting_ = now.instant;
      return;
    }
    ++counters_.expired;
    effects.records.push_back(transactionTombstone(id));
  }
}

}  // namespace mq::coordinator
