#include "kafka/fetch_sessions.h"

namespace mq::kafka {

void FetchSession::update(FetchWish wish) {
  auto found = byTarget_.find({wish.topic, wish.id, wish.partition});
  if (found == byTarget_.end()) {
    uint64_t number = nextNumber_++;
    const FetchWish& kept = entries_.emplace(number, Entry{.wish = std::move(wish)}).first->second.wish;
    byTarget_.emplace(FetchTarget{kept.topic, kept.id, kept.partition}, number);
    stale_.insert(number);
    return;
  }
  FetchWish& known = entries_.at(found->second).wish;
  known.from = wish.from;
  known.bytesMax = wish.bytesMax;
  known.currentLeaderEpoch = wish.currentLeaderEpoch;
  known.lastFetchedEpoch = wish.lastFetchedEpoch;
  stale_.insert(found->second);
}

void FetchSession::forget(const FetchTarget& target) {
  auto found = byTarget_.find(target);
  if (found == byTarget_.end()) return;
  uint64_t number = found->second;
  byTarget_.erase(found);
  auto entry = entries_.find(number);
  if (!entry->second.followed.topic.isZero()) dropped_.push_back(entry->second.followed);
  entries_.erase(entry);
  stale_.erase(number);
}

FetchSession::Entry* FetchSession::find(uint64_t number) {
  auto found = entries_.find(number);
  return found == entries_.end() ? nullptr : &found->second;
}

std::vector<uint64_t> FetchSession::takeStale() {
  std::vector<uint64_t> numbers(stale_.begin(), stale_.end());
  stale_.clear();
  return numbers;
}

void FetchSession::setAllStale() {
  for (const auto& [number, entry] : entries_) stale_.insert(number);
}

FetchSessionUse FetchSessions::create(bool byTopicId, Instant now) {
  if (sessions_.size() >= slots_) {
    if (uses_.empty() || now - sessions_.at(uses_.front()).lastUsed < kEvictAfter) return {};
    close(uses_.front());
  }
  int32_t id;
  do {
    uint64_t wide = random_.below(uint64_t{INT32_MAX} / shards_) * shards_ + shard_;
    id = static_cast<int32_t>(wide);
  } while (id == 0 || sessions_.contains(id));
  auto session = std::make_shared<FetchSession>(id, byTopicId);
  sessions_.emplace(id, Slot{session, uses_.insert(uses_.end(), id), now});
  return FetchSessionUse(std::move(session));
}

Result<FetchSessionUse> FetchSessions::resume(int32_t id, int32_t epoch, bool byTopicId, Instant now) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return Error::fetchSessionIdNotFound;
  Slot& slot = found->second;
  if (slot.session->nextEpoch() != epoch || slot.session->inUse) return Error::invalidFetchSessionEpoch;
  if (slot.session->byTopicId() != byTopicId) return Error::fetchSessionTopicIdError;
  slot.session->advance();
  slot.lastUsed = now;
  uses_.splice(uses_.end(), uses_, slot.use);
  return FetchSessionUse(slot.session);
}

void FetchSessions::close(int32_t id) {
  auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  uses_.erase(found->second.use);
  sessions_.erase(found);
}

}  // namespace mq::kafka
