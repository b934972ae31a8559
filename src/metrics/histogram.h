// Histogram: a log-linear histogram of nanoseconds. Each power of two from 2^10 ns (1 us) to 2^36 ns (69 s) is cut into
// four equal parts, so a quantile is known within a quarter; below and above there is one bucket each. Fixed size, no
// allocation, merging is adding. Plain: one shard writes it, a copy travels.
#pragma once
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace mq::metrics {

class Histogram {
 public:
  static constexpr int kFirstPower = 10;
  static constexpr int kLastPower = 36;
  static constexpr size_t kParts = 4;
  // [0, 2^10), then the parts, then [2^36, inf).
  static constexpr size_t kBuckets = 1 + (kLastPower - kFirstPower) * kParts + 1;

  void observe(Duration duration) {
    int64_t nanoseconds = duration.count();
    uint64_t value = nanoseconds < 0 ? 0 : static_cast<uint64_t>(nanoseconds);
    ++counts_[bucketOf(value)];
    sum_ += value;
  }
  Histogram& operator+=(const Histogram& other);

  uint64_t count() const;
  uint64_t count(size_t bucket) const { return counts_[bucket]; }
  uint64_t sum() const { return sum_; }  // nanoseconds
  // The upper end of the bucket that holds the q-th part of all values, in nanoseconds; 0 if there are none. For values
  // in the last bucket, its lower end.
  uint64_t quantile(double q) const;

  static constexpr size_t bucketOf(uint64_t nanoseconds) {
    if (nanoseconds < (uint64_t{1} << kFirstPower)) return 0;
    if (nanoseconds >= (uint64_t{1} << kLastPower)) return kBuckets - 1;
    int power = std::bit_width(nanoseconds) - 1;
    uint64_t part = (nanoseconds - (uint64_t{1} << power)) >> (power - 2);
    return 1 + static_cast<size_t>(power - kFirstPower) * kParts + part;
  }
  // Exclusive upper end; meaningless for the last bucket.
  static constexpr uint64_t endOf(size_t bucket) {
    if (bucket == 0) return uint64_t{1} << kFirstPower;
    size_t power = kFirstPower + (bucket - 1) / kParts;
    uint64_t part = (bucket - 1) % kParts;
    return (uint64_t{1} << power) + ((part + 1) << (power - 2));
  }

 private:
  std::array<uint64_t, kBuckets> counts_{};
  uint64_t sum_ = 0;
};

static_assert(Histogram::bucketOf(1023) == 0 && Histogram::bucketOf(1024) == 1);
static_assert(Histogram::endOf(1) == 1280 && Histogram::bucketOf(1279) == 1 && Histogram::bucketOf(1280) == 2);
static_assert(Histogram::endOf(Histogram::kBuckets - 2) == uint64_t{1} << Histogram::kLastPower);

}  // namespace mq::metrics
