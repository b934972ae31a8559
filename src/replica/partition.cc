#include "replica/partition.h"

#include <algorithm>

#include "base/check.h"
#include "record/batch.h"
#include "runtime/coro.h"
#include "storage/transaction_index.h"

namespace mq::replica {
namespace {
constexpr int64_t kNoCheck = -1;

Failure storageFailure(std::string reason) { return Failure(Error::kafkaStorageError, std::move(reason)); }
}  // namespace

Partition::Partition(Shard& shard, TopicIdPartition id, TopicPartition name, NodeId self, storage::Log& log,
                     Watcher& watcher)
    : id_(id), name_(std::move(name)), shard_(shard), self_(self), log_(&log), watcher_(watcher), followers_(self) {
  // What the others hold is not known. If nobody else counts, setAssignment() takes all that is durable here.
  highWatermark_ = durableStart_ = log.start();
  readableBytes_ = log.sizeBytes();
  log.setHighWatermark(highWatermark_);
  log.observe(this);
}

Partition::~Partition() {
  if (log_) log_->observe(nullptr);
}

Offset Partition::logStart() const { return log_ ? log_->start() : Offset{-1}; }
Offset Partition::logEnd() const { return log_ ? log_->end() : Offset{-1}; }
Offset Partition::lastStableOffset() const { return log_ ? log_->lastStableOffset(highWatermark_) : Offset{-1}; }
uint64_t Partition::sizeBytes() const { return log_ ? log_->sizeBytes() : 0; }

const std::optional<std::string>& Partition::offlineReason() const {
  static const std::optional<std::string> none;
  return log_ ? log_->offlineReason() : none;
}

void Partition::setAssignment(const metadata::Partition& assignment) {
  if (stopped_) return;
  if (isCutting_) {
    nextAssignment_ = assignment;
    return;
  }
  const bool isNews = leader_ != assignment.leader || leaderEpoch_ != assignment.leaderEpoch;
  const bool wasLeader = isLeader();
  // What came to the old role must not land in the new one.
  if (isNews) log_->withdrawPending(failure(Error::notLeaderOrFollower, "{} has a new leader epoch", name_));
  leader_ = assignment.leader;
  leaderEpoch_ = assignment.leaderEpoch;
  replicas_ = assignment.replicas;
  if (isLeader()) {
    const Instant now = shard_.now();
    if (isNews) {
      epochStart_ = log_->end();
      followers_.begin(assignment.replicas, assignment.isr, assignment.partitionEpoch, epochStart_, now);
      proposeAfter_ = now;
    } else {
      if (assignment.partitionEpoch > followers_.partitionEpoch()) proposeAfter_ = now;
      followers_.commit(assignment.replicas, assignment.isr, assignment.partitionEpoch, now);
    }
    releaseDeletions();
    advanceHighWatermark();
    lookAtFollowers(true);
  } else {
    if (wasLeader) {
      ++reign_;
      endWaits();
    }
    if (isNews) leaderHighWatermark_ = leaderStart_ = Offset(-1);
  }
  if (isNews) watcher_.changed(*this);
}

void Partition::setSettings(const config::TopicSettings& settings) {
  settings_ = settings;
  if (log_) log_->setSettings(settings);
  advanceHighWatermark();
}

void Partition::show(metrics::Registry& registry) {
  shown_ = registry.add(log_->metrics(), {.value = name_.topic, .partition = name_.partition},
                        [this] { log_->refreshMetrics(); });
}

void Partition::stop(const Failure& why) {
  if (stopped_) return;
  stopped_ = why;
  shown_ = {};
  if (log_) log_->observe(nullptr);
  log_ = nullptr;
  nextAssignment_.reset();
  endWaits();
  watcher_.changed(*this);
}

void Partition::endWaits() {
  for (auto* waits : {&waiting_, &deletions_}) {
    for (Waiting& waiting : *waits) waiting.passed->fulfill();
    waits->clear();
  }
}

Error Partition::epochProblem(LeaderEpoch currentLeaderEpoch) const {
  if (stopped_) return stopped_->error;
  if (currentLeaderEpoch.value() != kNoCheck) {
    if (currentLeaderEpoch < leaderEpoch_) return Error::fencedLeaderEpoch;
    if (currentLeaderEpoch > leaderEpoch_) return Error::unknownLeaderEpoch;
  }
  return Error::none;
}

Error Partition::unserved(LeaderEpoch currentLeaderEpoch) const {
  if (Error error = epochProblem(currentLeaderEpoch); error != Error::none) return error;
  if (leader_ != self_) return Error::notLeaderOrFollower;
  if (log_->offlineReason()) return Error::kafkaStorageError;
  return Error::none;
}

// Why something that was begun in that reign will not come to its end.
std::optional<Failure> Partition::lost(uint64_t reign) const {
  if (stopped_) return stopped_;
  if (reign != reign_) return failure(Error::notLeaderOrFollower, "{} has got another leader", name_);
  if (offlineReason()) return storageFailure(*offlineReason());
  return std::nullopt;
}

kj::Promise<Result<Produced>> Partition::append(MutableBytes batch, Acks acks,
                                                std::vector<record::RecordError>* recordErrors, storage::Origin origin,
                                                uint64_t guard) {
  // The coroutine outlives this replica's removal: it keeps the object, and after each wait looks at stopped_.
  auto self = shared_from_this();
  auto run = [](std::shared_ptr<Partition> self, MutableBytes batch, Acks acks,
                std::vector<record::RecordError>* recordErrors, storage::Origin origin,
                uint64_t guard) -> Co<Result<Produced>> {
    if (Error error = self->unserved(kNoLeaderEpoch); error != Error::none) {
      if (error == Error::kafkaStorageError) co_return storageFailure(self->offlineReason().value_or(""));
      co_return error;
    }
    auto inSync = [&] { return self->followers_.inSync().size(); };
    if (acks == Acks::all && inSync() < self->inSyncNeeded()) {
      co_return failure(Error::notEnoughReplicas, "{}: {} in-sync replicas, {} needed (min.insync.replicas)",
                        self->name_, inSync(), self->inSyncNeeded());
    }
    const uint64_t reign = self->reign_;
    Result<storage::Appended> appended =
        co_await self->log_->append({batch, origin, self->leaderEpoch_, recordErrors, guard});
    if (!appended) co_return appended.failure();
    Produced produced{appended->offsets.first, appended->logAppendTime, self->logStart()};
    if (acks == Acks::none) co_return produced;
    if (auto why = self->lost(reign)) co_return *why;

    if (acks == Acks::leader) {
      co_await self->log_->whenDurable(appended->offsets.end);
    } else {
      co_await self->whenHighWatermark(appended->offsets.end);
    }
    if (auto why = self->lost(reign)) co_return *why;
    if (acks == Acks::all && inSync() < self->inSyncNeeded()) {
      co_return failure(Error::notEnoughReplicasAfterAppend, "{}: written, but only {} replicas were left in sync",
                        self->name_, inSync());
    }
    produced.logStart = self->logStart();
    co_return produced;
  };
  // A rejection is the log going away or offline under the wait: an answer, since the client can do something about it.
  return run(self, batch, acks, recordErrors, origin, guard)
      .catch_([self](kj::Exception&& exception) -> Result<Produced> {
        if (self->stopped_) return *self->stopped_;
        return storageFailure(std::string(exception.getDescription().cStr()));
      });
}

uint64_t Partition::guardTransaction(ProducerId producer, int16_t epoch) {
  return log_ ? log_->guardTransaction(producer, epoch) : 0;
}

void Partition::dropGuard(ProducerId producer, uint64_t guard) {
  if (log_) log_->dropGuard(producer, guard);
}

bool Partition::isInTransaction(ProducerId producer, int16_t epoch) const {
  return log_ != nullptr && log_->isInTransaction(producer, epoch);
}

bool Partition::admitsTransaction(ProducerId producer, int16_t epoch, uint64_t guard) const {
  return log_ != nullptr && log_->admitsTransaction(producer, epoch, guard);
}

Result<void> Partition::mayEnd(const storage::ProducerMarker& marker, bool strict) const {
  if (Error error = unserved(kNoLeaderEpoch); error != Error::none) return error;
  return log_->mayEnd(marker, strict);
}

kj::Promise<Result<void>> Partition::whenCommitted(Offset end) {
  if (Error error = unserved(kNoLeaderEpoch); error != Error::none) return Result<void>(error);
  return whenHighWatermark(end).then([self = shared_from_this(), reign = reign_]() -> Result<void> {
    if (auto why = self->lost(reign)) return std::move(*why);
    return {};
  });
}

kj::Promise<void> Partition::whenHighWatermark(Offset end) {
  if (end <= highWatermark_) return kj::READY_NOW;
  auto promise = kj::newPromiseAndFulfiller<void>();
  auto at = std::upper_bound(waiting_.begin(), waiting_.end(), end,
                             [](Offset wanted, const Waiting& waiting) { return wanted < waiting.end; });
  waiting_.insert(at, Waiting{end, kj::mv(promise.fulfiller)});
  return kj::mv(promise.promise);
}

void Partition::advanceHighWatermark() {
  // While fewer are in sync than min.insync.replicas asks for, the high watermark stands still (KIP-966).
  if (!log_ || !isLeader() || followers_.inSync().size() < inSyncNeeded()) return;
  Offset next = followers_.durableEnd(log_->durableEnd());
  if (next > highWatermark_) setHighWatermark(next);
}

void Partition::setHighWatermark(Offset next) {
  highWatermark_ = next;
  log_->setHighWatermark(next);
  while (!waiting_.empty() && waiting_.front().end <= highWatermark_) {
    waiting_.front().passed->fulfill();
    waiting_.pop_front();
  }
  uint64_t bytes = log_->sizeBytes();
  uint64_t more = bytes > readableBytes_ ? bytes - readableBytes_ : 1;
  readableBytes_ = bytes;
  watcher_.readable(*this, more);
}

void Partition::written(Offset end) {
  if (!isLeader() || followers_.isAlone()) return;
  followers_.grown(end, shard_.now());
  lookAtFollowers(false);
  watcher_.written(*this);
}

void Partition::durable(Offset) {
  if (isLeader()) {
    advanceHighWatermark();
  } else if (isFollower()) {
    watcher_.durableHere(*this);
  }
}

void Partition::readable() { watcher_.changed(*this); }
void Partition::startMoved(Offset) { watcher_.startMoved(*this); }

void Partition::wentOffline(const std::string&) {
  endWaits();
  watcher_.changed(*this);
}

void Partition::foundDamage(OffsetRange) {}

Offset Partition::readableEnd(Isolation isolation) const {
  return isolation == Isolation::readCommitted ? lastStableOffset() : highWatermark_;
}

Fetched Partition::fetch(const Fetch& request) {
  Fetched fetched;
  fetched.leaderEpoch = leaderEpoch_;
  fetched.leader = leader_;
  const bool asFollower = request.followerMayServe && isFollower() && !isCutting_;
  fetched.error = epochProblem(request.currentLeaderEpoch);
  if (fetched.error == Error::none && leader_ != self_ && !asFollower) fetched.error = Error::notLeaderOrFollower;
  if (fetched.error == Error::none && log_->offlineReason()) fetched.error = Error::kafkaStorageError;
  if (fetched.error != Error::none) return fetched;

  fetched.highWatermark = highWatermark_;
  fetched.lastStableOffset = lastStableOffset();
  fetched.logStart = log_->start();
  if (request.lastFetchedEpoch != kNoLeaderEpoch) {
    // KIP-595: a reader whose last epoch ended earlier here, or never was here, has records that are not ours.
    EpochEnd end = boundaryOf(request.lastFetchedEpoch);
    if (end.end.value() < 0) {
      fetched.error = Error::offsetOutOfRange;
      return fetched;
    }
    // Of the records behind its end a follower knows nothing.
    const bool isKnown = !asFollower || end.end < log_->end();
    if (isKnown && (end.epoch < request.lastFetchedEpoch || end.end < request.from)) {
      fetched.diverging = {end.epoch, end.end};
      return fetched;
    }
  }
  if (request.from < log_->start() || request.from > log_->end()) {
    // The leader may have it, and the reader would begin anew somewhere else (KIP-392).
    const bool isAhead = asFollower && request.from > log_->end();
    fetched.error = isAhead ? Error::offsetNotAvailable : Error::offsetOutOfRange;
    return fetched;
  }
  Offset upTo = request.isolation == Isolation::readCommitted ? fetched.lastStableOffset : fetched.highWatermark;
  if (request.from >= upTo || (request.bytesMax == 0 && !request.firstBatchWhole)) return fetched;
  Result<storage::LogSlice> slice = log_->read(request.from, request.bytesMax, upTo, request.firstBatchWhole);
  if (!slice) {
    fetched.error = slice.errorCode();
    return fetched;
  }
  if (request.isolation == Isolation::readCommitted && slice->file) fetched.aborted = abortedIn(*slice, upTo);
  fetched.file = std::move(slice->file);
  fetched.position = slice->position;
  fetched.length = slice->length;
  return fetched;
}

std::vector<AbortedTransaction> Partition::abortedIn(const storage::LogSlice& slice, Offset upTo) {
  Result<std::vector<storage::AbortedTransaction>> found = log_->abortedTransactions(slice.base, upTo);
  std::vector<AbortedTransaction> aborted;
  if (!found || found->empty()) return aborted;
  // Exactly those that overlap the bytes, no more: some clients take an entry whose marker they never see for one that
  // still waits, and then drop a later transaction of the same producer. Walk the headers to learn where the bytes end.
  Offset end = slice.base;
  uint8_t header[record::Layout::kHeaderBytes];
  for (uint64_t at = 0; at + sizeof header <= slice.length;) {
    if (slice.file->read(slice.position + at, header) < sizeof header) break;
    record::BatchView view{Bytes(header)};
    end = view.nextOffset();
    at += view.sizeBytes();
  }
  for (const storage::AbortedTransaction& transaction : *found) {
    if (transaction.first < end) aborted.push_back({transaction.producer, transaction.first});
  }
  return aborted;
}

// What an earlier leader has shown may still be above our high watermark (KIP-207).
Failure Partition::notYet() const {
  return failure(Error::offsetNotAvailable,
                 "{}: the high watermark {} has not reached {}, where the leader epoch began", name_, highWatermark_,
                 epochStart_);
}

kj::Promise<Result<FoundOffset>> Partition::findOffset(int64_t timestamp, Isolation isolation,
                                                       LeaderEpoch currentLeaderEpoch) {
  if (Error error = unserved(currentLeaderEpoch); error != Error::none) return Result<FoundOffset>(error);
  if (timestamp == static_cast<int64_t>(Position::latest)) {
    if (highWatermark_ < epochStart_) return Result<FoundOffset>(notYet());
    return Result<FoundOffset>(FoundOffset{readableEnd(isolation), kNoTimestamp, leaderEpoch_});
  }
  auto self = shared_from_this();
  auto run = [](std::shared_ptr<Partition> self, int64_t timestamp, Isolation isolation) -> Co<Result<FoundOffset>> {
    Result<storage::TimestampedOffset> found = co_await self->log_->offsetForTime(timestamp);
    if (self->stopped_) co_return *self->stopped_;
    if (!found) co_return found.failure();
    // Nobody may learn of records that nobody may read yet.
    bool special = timestamp == static_cast<int64_t>(Position::earliest) ||
                   timestamp == static_cast<int64_t>(Position::earliestLocal);
    if (found->offset.value() < 0 || (!special && found->offset >= self->readableEnd(isolation))) {
      if (!special && self->highWatermark_ < self->epochStart_) co_return self->notYet();
      co_return FoundOffset{};
    }
    co_return FoundOffset{found->offset, found->timestamp, found->epoch};
  };
  return run(self, timestamp, isolation).catch_([self](kj::Exception&& exception) -> Result<FoundOffset> {
    if (self->stopped_) return *self->stopped_;
    return storageFailure(std::string(exception.getDescription().cStr()));
  });
}

Result<Partition::EpochEnd> Partition::epochEnd(LeaderEpoch epoch, LeaderEpoch currentLeaderEpoch) {
  if (Error error = unserved(currentLeaderEpoch); error != Error::none) return error;
  return boundaryOf(epoch);
}

Partition::EpochEnd Partition::boundaryOf(LeaderEpoch epoch) const {
  if (epoch == leaderEpoch_) return EpochEnd{epoch, log_->end()};
  storage::EpochBoundary end = log_->epochEnd(epoch);
  // An epoch behind the last one of which there are records, that has left none here.
  if (end.end.value() < 0 && epoch < leaderEpoch_ && log_->lastEpoch() != kNoLeaderEpoch && epoch > log_->lastEpoch())
    return EpochEnd{log_->lastEpoch(), log_->end()};
  return EpochEnd{end.epoch, end.end};
}

kj::Promise<Result<Offset>> Partition::deleteRecords(Offset before) {
  if (Error error = unserved(kNoLeaderEpoch); error != Error::none) return Result<Offset>(error);
  if (!settings_.cleanup.deletes) {
    return Result<Offset>(failure(Error::policyViolation,
                                  "{}: records of a topic without cleanup.policy=delete cannot be deleted", name_));
  }
  Offset target = before.value() == -1 ? highWatermark_ : before;
  if (target.value() < 0 || target > highWatermark_) {
    return Result<Offset>(failure(Error::offsetOutOfRange, "{}: {} is not within 0 and the high watermark {}", name_,
                                  before, highWatermark_));
  }
  auto run = [](std::shared_ptr<Partition> self, Offset target) -> Co<Result<Offset>> {
    const uint64_t reign = self->reign_;
    Result<Offset> moved = co_await self->log_->deleteRecordsTo(target);
    if (!moved) co_return moved;
    self->durableStart_ = std::max(self->durableStart_, *moved);
    co_await self->whenAllBeginAt(*moved);
    if (auto why = self->lost(reign)) co_return *why;
    co_return moved;
  };
  auto self = shared_from_this();
  return run(self, target).catch_([self](kj::Exception&& exception) -> Result<Offset> {
    if (self->stopped_) return *self->stopped_;
    return storageFailure(std::string(exception.getDescription().cStr()));
  });
}

Result<std::vector<ActiveProducer>> Partition::producers() {
  if (Error error = unserved(kNoLeaderEpoch); error != Error::none) return error;
  std::vector<ActiveProducer> active;
  for (const storage::ProducerView& view : log_->producers()) {
    active.push_back(
        {view.id, view.epoch, view.lastSequence, view.lastTimestamp, view.coordinatorEpoch, view.transactionStart});
  }
  return active;
}

}  // namespace mq::replica
