#include "coordinator/committed_offsets.h"

#include <algorithm>

namespace mq::coordinator {
namespace {

template <class Entries>
auto placeOf(Entries& entries, int32_t partition) {
  return std::lower_bound(
      entries.begin(), entries.end(), partition,
      [](const CommittedOffsets::Entry& entry, int32_t wanted) { return entry.partition < wanted; });
}

}  // namespace

void CommittedOffsets::set(std::string_view name, const TopicId& id, int32_t partition, const CommittedOffset& offset) {
  auto found = topics_.find(name);
  if (found == topics_.end()) found = topics_.emplace(std::string(name), Topic{id, {}}).first;
  Topic& topic = found->second;
  if (!id.isZero() && id != topic.id) {
    if (!topic.id.isZero()) topic.entries.clear();
    topic.id = id;
  }
  auto at = placeOf(topic.entries, partition);
  if (at == topic.entries.end() || at->partition != partition) at = topic.entries.insert(at, Entry{});
  at->partition = partition;
  at->leaderEpoch = offset.leaderEpoch;
  at->offset = offset.offset;
  at->committed = offset.committed;
  at->expires = offset.expires;
  at->metadata = offset.metadata.empty() ? nullptr : std::make_unique<const std::string>(offset.metadata);
}

void CommittedOffsets::remove(std::string_view name, int32_t partition) {
  auto found = topics_.find(name);
  if (found == topics_.end()) return;
  auto& entries = found->second.entries;
  auto at = placeOf(entries, partition);
  if (at != entries.end() && at->partition == partition) entries.erase(at);
  if (entries.empty()) topics_.erase(found);
}

const CommittedOffsets::Entry* CommittedOffsets::find(std::string_view name, int32_t partition) const {
  auto found = topics_.find(name);
  if (found == topics_.end()) return nullptr;
  auto at = placeOf(found->second.entries, partition);
  return at == found->second.entries.end() || at->partition != partition ? nullptr : &*at;
}

}  // namespace mq::coordinator
