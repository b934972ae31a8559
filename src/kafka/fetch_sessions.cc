#include "kafka/fetch_sessions.h"

namespace mq::kafka {

void FetchSession::update(FetchWish wish) {
  auto found = byTarget_.find({wish.topic, wish.id, wish.partition});
  if (found != byTarget_.end()) {
    FetchWish& known = found->second->wish;
    known.from = wish.from;
    known.bytesMax = wish.bytesMax;
    known.currentLeaderEpoch = wish.currentLeaderEpoch;
    known.lastFetchedEpoch = wish.lastFetchedEpoch;
    return;
  }
  entries_.push_back({.wish = std::move(wish)});
  auto entry = std::prev(entries_.end());
  byTarget_.emplace(FetchTarget{entry->wish.topic, entry->wish.id, entry->wish.partition}, entry);
}

void FetchSession::forget(const FetchTarget& target) {
  auto found = byTarget_.find(target);
  if (found == byTarget_.end()) return;
  auto entry = found->second;
  byTarget_.erase(found);
  entries_.erase(entry);
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
