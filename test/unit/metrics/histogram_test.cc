#include "metrics/histogram.h"

#include <doctest/doctest.h>

using namespace mq;
using namespace mq::metrics;

TEST_CASE("histogram: every value lies below the end of its bucket and not below the end of the one before") {
  for (uint64_t value : {uint64_t{0}, uint64_t{1}, uint64_t{1023}, uint64_t{1024}, uint64_t{1279}, uint64_t{1280},
                         uint64_t{999'999}, uint64_t{1'000'000'000}, (uint64_t{1} << 36) - 1}) {
    size_t bucket = Histogram::bucketOf(value);
    CAPTURE(value);
    CHECK(value < Histogram::endOf(bucket));
    if (bucket > 0) CHECK(value >= Histogram::endOf(bucket - 1));
  }
  CHECK(Histogram::bucketOf(uint64_t{1} << 36) == Histogram::kBuckets - 1);
  CHECK(Histogram::bucketOf(~uint64_t{0}) == Histogram::kBuckets - 1);
}

TEST_CASE("histogram: buckets follow each other without a gap") {
  for (size_t bucket = 0; bucket + 1 < Histogram::kBuckets; ++bucket) {
    CHECK(Histogram::bucketOf(Histogram::endOf(bucket) - 1) == bucket);
    CHECK(Histogram::bucketOf(Histogram::endOf(bucket)) == bucket + 1);
  }
}

TEST_CASE("histogram: a quantile is at most a quarter above the value") {
  Histogram histogram;
  for (int i = 1; i <= 1000; ++i) histogram.observe(std::chrono::microseconds(i * 10));
  CHECK(histogram.count() == 1000);
  CHECK(histogram.sum() == 5'005'000'000);
  CHECK(histogram.quantile(0.5) >= 5'000'000);
  CHECK(histogram.quantile(0.5) <= 6'250'000);
  CHECK(histogram.quantile(0.99) >= 9'900'000);
  CHECK(histogram.quantile(0.99) <= 12'375'000);
  CHECK(histogram.quantile(0) > 0);
}

TEST_CASE("histogram: nothing seen, nothing claimed; odd values land at the ends") {
  Histogram histogram;
  CHECK(histogram.quantile(0.99) == 0);
  histogram.observe(Duration(-5));
  CHECK(histogram.count(0) == 1);
  CHECK(histogram.sum() == 0);
  histogram.observe(1h);
  CHECK(histogram.count(Histogram::kBuckets - 1) == 1);
  CHECK(histogram.quantile(1) == uint64_t{1} << 36);
}

TEST_CASE("histogram: merging is adding") {
  Histogram a, b;
  a.observe(3us);
  b.observe(3us);
  b.observe(5s);
  a += b;
  CHECK(a.count() == 3);
  CHECK(a.count(Histogram::bucketOf(3000)) == 2);
  CHECK(a.sum() == 5'000'006'000);
}
