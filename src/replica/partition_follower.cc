// Partition: the follower and its leader.
#include "record/batch.h"
#include "replica/partition.h"

namespace mq::replica {
namespace {

constexpr Duration kCutAgainAfter = 1s;

}  // namespace

std::optional<FollowPlace> Partition::followPlace() const {
  if (!isFollower() || isCutting_ || log_->offlineReason()) return std::nullopt;
  return FollowPlace{.id = id_,
                     .leaderEpoch = leaderEpoch_,
                     .from = log_->end(),
                     .lastEpoch = log_->lastEpoch(),
                     .durable = log_->durableEnd(),
                     .logStart = std::min(durableStart_, log_->start())};
}

kj::Promise<Partition::Next> Partition::replicate(Followed news, std::shared_ptr<void> buffer) {
  if (!isFollower() || isCutting_) return Next::stay;
  switch (news.error) {
    case Error::none:
    case Error::offsetOutOfRange: break;
    case Error::fencedLeaderEpoch: return Next::stay;  // the metadata with the new epoch is on its way to us
    default: return Next::later;
  }
  if (news.leaderEpoch != leaderEpoch_) return Next::stay;
  if (news.error == Error::offsetOutOfRange) {
    beginAt(news.logStart);
    return Next::stay;
  }
  if (news.diverging.end.value() >= 0) {
    // Our last records up to the leader's epoch may end before its do (KIP-279).
    storage::EpochBoundary own = log_->epochEnd(news.diverging.epoch);
    Offset cut = own.end.value() >= 0 ? std::min(news.diverging.end, own.end) : news.diverging.end;
    if (cut >= log_->end()) return Next::later;  // an answer that makes no sense must not be asked for again at once
    leaderStart_ = news.logStart;
    cutTo(cut);
    return Next::stay;
  }
  leaderHighWatermark_ = news.highWatermark;
  leaderStart_ = news.logStart;
  if (news.bytes.empty()) {
    followHighWatermark();
    return Next::stay;
  }
  auto outcome = kj::newPromiseAndFulfiller<Next>();
  auto done = [self = shared_from_this(), epoch = leaderEpoch_](const Result<storage::Appended>& appended) {
    if (!self->isFollower() || self->leaderEpoch_ != epoch) return Next::stay;
    if (!appended) {
      // What an append that failed has left of an empty log may not take the leader's first batch.
      if (appended.failure().error == Error::offsetOutOfRange && self->log_->start() == self->log_->end()) {
        self->beginAt(self->log_->start());
        return Next::stay;
      }
      self->shard_.log().warning("replication-failed", "{}: {} {}", self->name_, appended.failure().error,
                                 appended.failure().message);
      return Next::later;
    }
    self->followHighWatermark();
    return Next::ask;
  };
  // The shard keeps the bytes until they are written, whoever waits for that.
  shard_.spawn(log_->append({.bytes = news.bytes, .origin = storage::Origin::replica, .leaderEpoch = leaderEpoch_})
                   .catch_([](kj::Exception&& exception) -> Result<storage::Appended> {
                     return Failure(Error::kafkaStorageError, describe(exception));
                   })
                   .then([done, to = kj::mv(outcome.fulfiller)](Result<storage::Appended>&& appended) mutable {
                     to->fulfill(done(appended));
                   })
                   .attach(std::move(buffer)));
  return kj::mv(outcome.promise);
}

void Partition::followHighWatermark() {
  Offset next = std::min(leaderHighWatermark_, log_->end());
  if (next > highWatermark_) setHighWatermark(next);
  followStart();
}

// The leader waits for it when records are deleted, so it hears of what is durable.
void Partition::followStart() {
  Offset start = std::min(leaderStart_, highWatermark_);
  if (start <= durableStart_ || isMovingStart_) return;
  isMovingStart_ = true;
  shard_.spawn(log_->deleteRecordsTo(start)
                   .then([self = shared_from_this()](Result<Offset>&& moved) {
                     self->isMovingStart_ = false;
                     if (!moved || self->stopped_) return;  // without space: again with the next news
                     self->durableStart_ = std::max(self->durableStart_, *moved);
                     if (self->isFollower()) self->watcher_.durableHere(*self);
                   })
                   .catch_([self = shared_from_this()](kj::Exception&&) { self->isMovingStart_ = false; }));
}

// --- cuts: the log does them by itself, and is not touched until they are done

void Partition::cutTo(Offset end) {
  if (end < highWatermark_) {
    shard_.log().warning("committed-records-lost", "{}: cut to {}, below its high watermark {}, to follow node {}",
                         name_, end, highWatermark_, leader_);
  } else {
    shard_.log().info("truncated", "{}: from {} to {}, to follow node {} in epoch {}", name_, log_->end(), end, leader_,
                      leaderEpoch_);
  }
  if (end < log_->start()) return beginAt(std::max(end, leaderStart_));
  isCutting_ = true;
  shard_.spawn(log_->truncateTo(end)
                   .catch_([](kj::Exception&& exception) -> Result<void> {
                     return Failure(Error::kafkaStorageError, describe(exception));
                   })
                   .then([self = shared_from_this()](Result<void>&& outcome) { self->cutDone(outcome); }));
}

void Partition::beginAt(Offset start) {
  shard_.log().info("log-begins-anew", "{}: at {} instead of [{}, {}), to follow node {} in epoch {}", name_, start,
                    log_->start(), log_->end(), leader_, leaderEpoch_);
  isCutting_ = true;
  shard_.spawn(log_->restartAt(start)
                   .catch_([](kj::Exception&& exception) -> Result<void> {
                     return Failure(Error::kafkaStorageError, describe(exception));
                   })
                   .then([self = shared_from_this(), start](Result<void>&& outcome) {
                     if (outcome && !self->stopped_) self->highWatermark_ = self->durableStart_ = start;
                     self->cutDone(outcome);
                   }));
}

void Partition::cutDone(const Result<void>& outcome) {
  if (stopped_) return;
  isCutting_ = false;
  highWatermark_ = std::min(highWatermark_, log_->end());
  readableBytes_ = log_->sizeBytes();
  if (nextAssignment_) {
    metadata::Partition next = std::move(*nextAssignment_);
    nextAssignment_.reset();
    setAssignment(next);
  }
  if (outcome) return watcher_.followAnew(*this);
  shard_.log().warning("truncation-failed", "{}: {}", name_, outcome.failure().message);
  shard_.spawn(shard_.after(kCutAgainAfter).then([self = shared_from_this()] {
    if (!self->stopped_) self->watcher_.followAnew(*self);
  }));
}

}  // namespace mq::replica
