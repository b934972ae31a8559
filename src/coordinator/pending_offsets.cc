#include "coordinator/pending_offsets.h"

namespace mq::coordinator {

void PendingOffsets::add(ProducerId producer, const Place& place, Offset offset) {
  offset.order = ++lastOrder_;
  auto [at, isNew] = byProducer_[producer].insert_or_assign(place, std::move(offset));
  if (isNew) ++size_;
  byPlace_[place].insert(producer);
}

void PendingOffsets::overtake(const Place& place, uint64_t order) {
  auto found = byPlace_.find(place);
  if (found == byPlace_.end()) return;
  for (ProducerId producer : found->second) {
    Offset& offset = byProducer_.at(producer).at(place);
    if (offset.order < order) offset.isOvertaken = true;
  }
}

void PendingOffsets::remove(const Place& place) {
  auto found = byPlace_.find(place);
  if (found == byPlace_.end()) return;
  for (ProducerId producer : found->second) {
    auto of = byProducer_.find(producer);
    size_ -= of->second.erase(place);
    if (of->second.empty()) byProducer_.erase(of);
  }
  byPlace_.erase(found);
}

PendingOffsets::Offsets PendingOffsets::take(ProducerId producer) {
  auto found = byProducer_.find(producer);
  if (found == byProducer_.end()) return {};
  Offsets taken = std::move(found->second);
  byProducer_.erase(found);
  size_ -= taken.size();
  for (const auto& [place, offset] : taken) {
    auto at = byPlace_.find(place);
    at->second.erase(producer);
    if (at->second.empty()) byPlace_.erase(at);
  }
  return taken;
}

PendingOffsets::Places::const_iterator PendingOffsets::firstOf(const std::string& group) const {
  return byPlace_.lower_bound(Place{group, "", INT32_MIN});
}

bool PendingOffsets::has(const std::string& group) const {
  auto first = firstOf(group);
  return first != byPlace_.end() && first->first.group == group;
}

std::vector<PendingOffsets::Place> PendingOffsets::placesOf(const std::string& group) const {
  std::vector<Place> places;
  for (auto at = firstOf(group); at != byPlace_.end() && at->first.group == group; ++at) places.push_back(at->first);
  return places;
}

}  // namespace mq::coordinator
