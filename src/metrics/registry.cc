#include "metrics/registry.h"

#include <type_traits>

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
void Registry::collect(Snapshot& into, Detail detail) const {
  auto& values = std::get<Values<Set>>(into.values);
  for (const auto& [key, slot] : std::get<Slots<Set>>(slots_)) {
    if (slot.refresh) slot.refresh();
    if (std::is_same_v<Set, PartitionMetrics> && detail == Detail::topic) {
      metrics::merge(values[Labels{slot.labels.value}], *slot.set);
    } else {
      metrics::merge(values[slot.labels], *slot.set);
    }
  }
}

Snapshot Registry::snapshot(Detail detail) const {
  Snapshot snapshot;
  // Refreshing may set gauges of the shard, so it is copied last.
  collect<ApiMetrics>(snapshot, detail);
  collect<PartitionMetrics>(snapshot, detail);
  collect<DirectoryMetrics>(snapshot, detail);
  collect<ProcessMetrics>(snapshot, detail);
  std::get<Values<ShardMetrics>>(snapshot.values)[Labels{}] = shard;
  return snapshot;
}

}  // namespace mq::metrics
