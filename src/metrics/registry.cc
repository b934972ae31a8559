#include "metrics/registry.h"

namespace mq::metrics {
namespace {

template <class Set>
void mergeValues(Values<Set>& into, const Values<Set>& from) {
  for (const auto& [labels, set] : from) metrics::merge(into[labels], set);
}

}  // namespace

void Snapshot::merge(const Snapshot& other) {
  mergeValues(std::get<Values<ShardMetrics>>(values), std::get<Values<ShardMetrics>>(other.values));
  mergeValues(std::get<Values<ApiMetrics>>(values), std::get<Values<ApiMetrics>>(other.values));
  mergeValues(std::get<Values<PartitionMetrics>>(values), std::get<Values<PartitionMetrics>>(other.values));
  mergeValues(std::get<Values<DirectoryMetrics>>(values), std::get<Values<DirectoryMetrics>>(other.values));
  mergeValues(std::get<Values<ProcessMetrics>>(values), std::get<Values<ProcessMetrics>>(other.values));
}

template <class Set>
void Registry::collect(Snapshot& into) const {
  auto& values = std::get<Values<Set>>(into.values);
  for (const auto& [key, slot] : std::get<Slots<Set>>(slots_)) {
    if (slot.refresh) slot.refresh();
    metrics::merge(values[slot.labels], *slot.set);
  }
}

Snapshot Registry::snapshot(Detail detail, Cursor& cursor, size_t partitionsMax) const {
  Snapshot part;
  if (cursor.next == 0) {
    collect<ApiMetrics>(part);
    collect<DirectoryMetrics>(part);
    collect<ProcessMetrics>(part);
  }
  const auto& partitions = std::get<Slots<PartitionMetrics>>(slots_);
  auto& values = std::get<Values<PartitionMetrics>>(part.values);
  auto slot = partitions.lower_bound(cursor.next);
  for (size_t count = 0; slot != partitions.end() && count < partitionsMax; ++slot, ++count) {
    const auto& [set, labels, refresh] = slot->second;
    if (refresh) refresh();
    metrics::merge(values[{labels.value, detail == Detail::partition ? labels.partition : -1}], *set);
  }
  // Refreshing may set gauges of the shard, so it is copied last.
  cursor.done = slot == partitions.end();
  if (cursor.done) std::get<Values<ShardMetrics>>(part.values)[Labels{}] = shard;
  cursor.next = cursor.done ? next_ : slot->first;
  return part;
}

Snapshot Registry::snapshot(Detail detail) const {
  Cursor cursor;
  return snapshot(detail, cursor, std::get<Slots<PartitionMetrics>>(slots_).size());
}

}  // namespace mq::metrics
