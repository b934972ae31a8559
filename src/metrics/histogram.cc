#include "metrics/histogram.h"

#include <cmath>

namespace mq::metrics {

Histogram& Histogram::operator+=(const Histogram& other) {
  for (size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  sum_ += other.sum_;
  return *this;
}

uint64_t Histogram::count() const {
  uint64_t total = 0;
  for (uint64_t count : counts_) total += count;
  return total;
}

uint64_t Histogram::quantile(double q) const {
  uint64_t total = count();
  if (total == 0) return 0;
  auto rank = static_cast<uint64_t>(std::ceil(q * static_cast<double>(total)));
  if (rank < 1) rank = 1;
  if (rank > total) rank = total;
  uint64_t seen = 0;
  for (size_t i = 0; i < kBuckets - 1; ++i) {
    seen += counts_[i];
    if (seen >= rank) return endOf(i);
  }
  return endOf(kBuckets - 2);
}

}  // namespace mq::metrics
