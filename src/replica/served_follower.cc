#include "replica/served_follower.h"

#include <algorithm>

namespace mq::replica {
namespace {

constexpr uint32_t kPartitionBytesMax = 1_MiB;  // in one answer, so that one partition does not fill it
constexpr uint32_t kBytesMax = 64_MiB;
constexpr Duration kWaitMax = 30s;

}  // namespace

ServedFollower::ServedFollower(Shard& shard, Home& home, FollowerId who)
    : shard_(shard), home_(&home), who_(who), lastAsked_(shard.now()) {}

ServedFollower::~ServedFollower() noexcept { end("the session is closed"); }

void ServedFollower::end(const char* why) {
  if (home_ == nullptr) return;
  Home& home = *std::exchange(home_, nullptr);
  ended_ = why;
  for (auto& [id, kept] : places_) {
    home.hearNoMore(id, *this);
    if (Partition* partition = home.partitionOf(id)) partition->followerGone(who_);
  }
  places_.clear();
  due_.clear();
  home.forget(*this);
  wake();
}

bool ServedFollower::isRecognised() const {
  const metadata::Broker* broker = home_->image().broker(who_.node);
  return broker != nullptr && broker->incarnation == who_.incarnation;
}

void ServedFollower::brokersChanged() {
  if (home_ == nullptr) return;
  if (wasRecognised_ && !isRecognised()) return end("the node has been started anew");
  if (!wasRecognised_) wake();
}

// --- places

void ServedFollower::makeDue(const TopicIdPartition& id, Kept& kept) {
  if (kept.isDue) return;
  kept.isDue = true;
  kept.due = due_.insert(due_.end(), id);
}

void ServedFollower::notDue(Kept& kept) {
  if (!kept.isDue) return;
  kept.isDue = false;
  due_.erase(kept.due);
}

void ServedFollower::take(const FollowRequest& request) {
  for (const TopicIdPartition& id : request.dropped) {
    auto found = places_.find(id);
    if (found == places_.end()) continue;
    notDue(found->second);
    places_.erase(found);
    home_->hearNoMore(id, *this);
    if (Partition* partition = home_->partitionOf(id)) partition->followerGone(who_);
  }
  for (const FollowPlace& place : request.places) {
    auto [found, isFirst] = places_.try_emplace(place.id);
    Kept& kept = found->second;
    if (isFirst || kept.place.leaderEpoch != place.leaderEpoch) kept.toldHighWatermark = kept.toldStart = Offset(-1);
    kept.place = place;
    kept.isNew = true;
    kept.isAwaited = false;
    makeDue(place.id, kept);
    if (isFirst) home_->hear(place.id, *this);
  }
}

void ServedFollower::moved(const TopicIdPartition& id, bool isUrgent) {
  auto found = places_.find(id);
  if (found == places_.end() || found->second.isAwaited) return;
  makeDue(id, found->second);
  isUrgent_ |= isUrgent;
  if (isUrgent) wake();
}

void ServedFollower::report(const std::vector<DurableReport>& reports) {
  if (home_ == nullptr || !wasRecognised_) return;
  for (const DurableReport& report : reports) {
    if (report.durable.value() < 0) {
      isUrgent_ = isNews_ = true;
      wake();
      continue;
    }
    auto found = places_.find(report.id);
    if (found == places_.end() || found->second.isNew) continue;
    if (Partition* partition = home_->partitionOf(report.id)) partition->report(who_, report);
  }
}

// --- answers

FollowResponse ServedFollower::look(uint32_t bytesMax) {
  isUrgent_ = false;
  FollowResponse response;
  uint32_t left = bytesMax;
  bool isFirst = true;
  for (auto next = due_.begin(); next != due_.end();) {
    const TopicIdPartition id = *next++;
    Kept& kept = places_.at(id);
    Partition* partition = home_->partitionOf(id);
    if (partition == nullptr) {  // we may have it soon
      notDue(kept);
      continue;
    }
    Followed news = partition->follow(who_, kept.place, kept.isNew, std::min(left, kPartitionBytesMax), isFirst);
    if (news.error == Error::unknownLeaderEpoch) {
      notDue(kept);
      continue;
    }
    if (news.error != Error::none || news.diverging.end.value() >= 0) {
      isNews_ = true;
      response.partitions.push_back(std::move(news));
      continue;
    }
    kept.isNew = false;
    if (news.length > 0) {
      isNews_ = true;
      isFirst = false;
      left -= std::min(left, news.length);
    } else if (kept.place.from >= partition->logEnd()) {
      bool isQuiet = news.highWatermark == kept.toldHighWatermark && news.logStart == kept.toldStart;
      if (isQuiet) {
        notDue(kept);
        continue;
      }
      isNews_ |= kept.toldStart.value() >= 0 && news.logStart != kept.toldStart;  // somebody may wait for that
    } else {
      continue;  // there is more than fits, or its indexes are being looked at
    }
    response.partitions.push_back(std::move(news));
  }
  return response;
}

void ServedFollower::noteTold(const FollowResponse& response) {
  for (const Followed& news : response.partitions) {
    Kept& kept = places_.at(news.id);
    kept.toldHighWatermark = news.highWatermark;
    kept.toldStart = news.logStart;
    kept.isAwaited = news.error != Error::none || news.diverging.end.value() >= 0 || news.length > 0;
    notDue(kept);
  }
}

kj::Promise<FollowResponse> ServedFollower::follow(FollowRequest request) {
  if (isAsked_) {
    return kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                         kj::str("one follow() of a session at a time"));
  }
  isAsked_ = true;
  return serve(std::move(request)).attach(kj::defer([this] {
    isAsked_ = false;
    lastAsked_ = shard_.now();
  }));
}

Co<FollowResponse> ServedFollower::serve(FollowRequest request) {
  const Instant deadline = shard_.now() + std::clamp<Duration>(request.atMost, Duration::zero(), kWaitMax);
  const uint32_t bytesMax = std::clamp<uint32_t>(request.bytesMax, 1, kBytesMax);
  bool isTaken = false;
  for (;;) {
    if (home_ == nullptr) {
      throw kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str(ended_.c_str()));
    }
    const Duration left = deadline - shard_.now();
    if (!wasRecognised_) {
      if (isRecognised()) {
        wasRecognised_ = true;
        home_->recognised(*this);
        continue;
      }
      if (left <= Duration::zero()) end("the metadata does not know the node in this incarnation");
    } else {
      if (!std::exchange(isTaken, true)) {
        isNews_ = false;
        take(request);
      }
      FollowResponse response = look(bytesMax);
      if (isNews_ || left <= Duration::zero()) {
        noteTold(response);
        co_return response;
      }
    }
    if (home_ != nullptr) co_await wait(left);
  }
}

kj::Promise<void> ServedFollower::wait(Duration atMost) {
  if (isUrgent_) return kj::READY_NOW;
  auto paf = kj::newPromiseAndFulfiller<void>();
  waiting_ = kj::mv(paf.fulfiller);
  return paf.promise.exclusiveJoin(shard_.after(atMost));
}

void ServedFollower::wake() {
  if (waiting_) waiting_->fulfill();
  waiting_ = nullptr;
}

}  // namespace mq::replica
