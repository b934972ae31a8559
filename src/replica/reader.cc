#include "replica/reader.h"

#include <algorithm>

namespace mq::replica {

void Reader::makeDue(const TopicIdPartition& id, Kept& kept) {
  if (kept.isDue) return;
  kept.isDue = true;
  kept.due = due_.insert(due_.end(), id);
}

void Reader::name(const Place& place) {
  Kept& kept = places_[place.id];
  kept.tag = place.tag;
  kept.fetch = place.fetch;
  makeDue(place.id, kept);
}

void Reader::drop(const TopicIdPartition& id) {
  auto found = places_.find(id);
  if (found == places_.end()) return;
  if (found->second.isDue) due_.erase(found->second.due);
  places_.erase(found);
}

void Reader::serveLast(const TopicIdPartition& id) {
  auto found = places_.find(id);
  if (found == places_.end() || !found->second.isDue) return;
  due_.splice(due_.end(), due_, found->second.due);
}

void Reader::readable(const TopicIdPartition& id, uint64_t bytes) {
  auto found = places_.find(id);
  if (found == places_.end()) return;
  makeDue(id, found->second);
  readable_ += bytes;
  if (waiting_ && isOver()) endWait();
}

void Reader::changed(const TopicIdPartition& id, bool isUrgent) {
  auto found = places_.find(id);
  if (found == places_.end()) return;
  makeDue(id, found->second);
  urgent_ |= isUrgent;
  if (waiting_ && isOver()) endWait();
}

kj::Promise<void> Reader::wait(uint64_t bytesWanted) {
  endWait();
  wanted_ = std::max<uint64_t>(bytesWanted, 1);
  if (isOver()) return kj::READY_NOW;
  auto paf = kj::newPromiseAndFulfiller<void>();
  waiting_ = kj::mv(paf.fulfiller);
  return kj::mv(paf.promise);
}

void Reader::endWait() {
  if (!waiting_) return;
  waiting_->fulfill();
  waiting_ = nullptr;
}

}  // namespace mq::replica
