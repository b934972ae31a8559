// Registry: the sets of metrics of one shard. A scrape asks each shard, in turns of its own, for a Snapshot (copies,
// summed per label), and one shard merges and prints them (openmetrics.h): nobody reads a counter of another shard, and
// the data path waits for nothing.
//
// A set is registered while its Registration lives; then its series are gone.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "metrics/sets.h"

namespace mq::metrics {

struct Labels {
  std::string value;       // of the set's own label; empty for sets without
  int32_t partition = -1;  // -1: no such label
  friend auto operator<=>(const Labels&, const Labels&) = default;
};

// The values of one or more shards.
template <class Set>
using Values = std::map<Labels, Set>;
struct Snapshot {
  std::tuple<Values<ShardMetrics>, Values<ApiMetrics>, Values<PartitionMetrics>, Values<DirectoryMetrics>,
             Values<ProcessMetrics>>
      values;
  void merge(const Snapshot& other);
};

enum class Detail {
  topic,      // partitions summed per topic
  partition,  // one series per partition
};

// How far a scrape has come in one registry.
struct Cursor {
  uint64_t next = 0;  // registrations below are done
  bool done = false;
};

class Registry;

class [[nodiscard]] Registration {
 public:
  Registration() = default;
  Registration(Registration&& other) noexcept : release_(std::exchange(other.release_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    if (this != &other) {
      if (release_) release_();
      release_ = std::exchange(other.release_, nullptr);
    }
    return *this;
  }
  ~Registration() {
    if (release_) release_();
  }

 private:
  friend class Registry;
  explicit Registration(std::function<void()> release) : release_(std::move(release)) {}
  std::function<void()> release_;
};

class Registry {
 public:
  Registry() = default;
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  ShardMetrics shard;

  // The set must outlive the registration, and both this registry. `refresh`, if given, runs before the set is read:
  // for gauges that are cheaper to ask than to keep.
  template <class Set>
  Registration add(Set& set, Labels labels = {}, std::function<void()> refresh = nullptr) {
    auto& slots = std::get<Slots<Set>>(slots_);
    uint64_t key = next_++;
    slots.emplace(key, Slot<Set>{&set, std::move(labels), std::move(refresh)});
    return Registration([&slots, key] { slots.erase(key); });
  }

  // The next part of a scrape: at most `partitionsMax` partitions, so that a turn stays short with many thousands; all
  // else comes with the first part.
  Snapshot snapshot(Detail detail, Cursor& cursor, size_t partitionsMax) const;
  Snapshot snapshot(Detail detail) const;  // all at once

 private:
  template <class Set>
  struct Slot {
    Set* set;
    Labels labels;
    std::function<void()> refresh;
  };
  template <class Set>
  using Slots = std::map<uint64_t, Slot<Set>>;
  template <class Set>
  void collect(Snapshot& into) const;

  std::tuple<Slots<ApiMetrics>, Slots<PartitionMetrics>, Slots<DirectoryMetrics>, Slots<ProcessMetrics>> slots_;
  uint64_t next_ = 0;
};

}  // namespace mq::metrics
