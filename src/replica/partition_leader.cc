// Partition: the leader and its followers.
#include "replica/partition.h"

namespace mq::replica {

Followed Partition::follow(const FollowerId& who, const FollowPlace& place, bool isNew, uint32_t bytesMax,
                           bool firstBatchWhole) {
  Followed news{.id = id_, .leaderEpoch = leaderEpoch_};
  news.error = unserved(place.leaderEpoch);
  if (news.error != Error::none) return news;
  if (!followers_.isReplica(who.node)) {  // it is being added, and we have not heard of that yet
    news.error = Error::unknownLeaderEpoch;
    return news;
  }
  news.highWatermark = highWatermark_;
  news.logStart = log_->start();
  // Where the follower's last epoch ended earlier here, or never was, it has records that are not ours (KIP-101,
  // KIP-279). Only then is an end behind ours out of range: both say so together.
  if (place.lastEpoch != kNoLeaderEpoch) {
    EpochEnd end = boundaryOf(place.lastEpoch);
    if (end.end.value() >= 0 && (end.epoch < place.lastEpoch || end.end < place.from)) {
      news.diverging = {end.epoch, end.end};
      return news;
    }
  }
  if (place.from < log_->start() || place.from > log_->end()) {
    news.error = Error::offsetOutOfRange;
    return news;
  }
  if (isNew && followers_.placed(who, place.from, {place.logStart, place.durable}, shard_.now())) {
    advanceHighWatermark();
    releaseDeletions();
    lookAtFollowers(true);
    news.highWatermark = highWatermark_;
  }
  if (place.from >= log_->end() || (bytesMax == 0 && !firstBatchWhole)) return news;
  Result<storage::LogSlice> slice = log_->read(place.from, bytesMax, log_->end(), firstBatchWhole);
  if (!slice) {
    news.error = slice.errorCode();
    return news;
  }
  news.file = std::move(slice->file);
  news.position = slice->position;
  news.length = slice->length;
  return news;
}

void Partition::report(const FollowerId& who, const DurableReport& report) {
  if (!isLeader() || stopped_ || report.leaderEpoch != leaderEpoch_) return;
  if (!followers_.reported(who, {report.logStart, report.durable}, shard_.now())) return;
  advanceHighWatermark();
  releaseDeletions();
  lookAtFollowers(true);
}

void Partition::followerGone(const FollowerId& who) {
  if (!isLeader() || stopped_) return;
  followers_.gone(who, shard_.now());
  lookAtFollowers(false);
}

// --- deletions: acknowledged when no in-sync replica would show the records again if it led

kj::Promise<void> Partition::whenAllBeginAt(Offset start) {
  if (!isLeader() || stopped_ || followers_.beginAt(start)) return kj::READY_NOW;
  auto promise = kj::newPromiseAndFulfiller<void>();
  deletions_.push_back({start, kj::mv(promise.fulfiller)});
  return kj::mv(promise.promise);
}

void Partition::releaseDeletions() {
  std::erase_if(deletions_, [&](Waiting& waiting) {
    if (!followers_.beginAt(waiting.end)) return false;
    waiting.passed->fulfill();
    return true;
  });
}

// --- the in-sync replicas

void Partition::lookAtFollowers(bool mayEnter) {
  if (!isWatched_ && (followers_.someoneLags() || followers_.isUndecided())) {
    isWatched_ = true;
    watcher_.lags(*this);
  }
  if (mayEnter && followers_.mayPropose() && shard_.now() >= proposeAfter_ &&
      followers_.someoneMayEnter(wantedOfFollowers())) {
    isWatched_ = true;
    watcher_.hasCandidate(*this);
  }
}

// All that was committed, all that an earlier leader may have shown, and nothing that was deleted.
OffsetRange Partition::wantedOfFollowers() const { return {log_->start(), std::max(highWatermark_, epochStart_)}; }

bool Partition::isInSyncWatched() {
  isWatched_ =
      !stopped_ && isLeader() &&
      (followers_.isUndecided() || followers_.someoneLags() || followers_.someoneMayEnter(wantedOfFollowers()));
  return isWatched_;
}

std::optional<std::vector<NodeId>> Partition::wantedInSync(
    Duration lagMax, const std::function<bool(NodeId, const Uuid&)>& mayEnter) const {
  const Instant now = shard_.now();
  if (stopped_ || !isLeader() || !followers_.mayPropose() || now < proposeAfter_) return std::nullopt;
  auto wanted = followers_.wanted(now, lagMax, wantedOfFollowers(), mayEnter);
  // With a proposal of which nobody knows, any other one brings the partition epoch that settles it.
  if (wanted == followers_.inSync() && !followers_.isUndecided()) return std::nullopt;
  return wanted;
}

void Partition::proposeInSync(const std::vector<NodeId>& isr) { followers_.propose(isr); }

void Partition::inSyncAnswered(LeaderEpoch leaderEpoch, int32_t partitionEpoch, Followers::Outcome outcome,
                               Duration backoff) {
  if (stopped_ || !isLeader() || leaderEpoch != leaderEpoch_ || partitionEpoch != followers_.partitionEpoch()) return;
  followers_.answered(partitionEpoch, outcome);
  proposeAfter_ = shard_.now() + backoff;
  advanceHighWatermark();
  lookAtFollowers(false);
}

}  // namespace mq::replica
