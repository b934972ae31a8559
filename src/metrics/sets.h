// The sets of metrics: plain structs of counters, made from catalog.def. Whoever counts owns a set (or gets a reference
// to its shard's), writes it on its own shard without any lock, and keeps it registered (registry.h) while it lives.
//
//   ShardMetrics       one per shard: Registry::shard
//   ApiMetrics         one per request type and shard; label api
//   PartitionMetrics   one per replica; label topic, and partition on demand
//   DirectoryMetrics   one per log directory and shard; label directory
//   ProcessMetrics     one per node
#pragma once
#include <cstdint>
#include <string_view>

#include "metrics/histogram.h"

namespace mq::metrics {

struct Counter {
  uint64_t value = 0;
  void add(uint64_t by = 1) { value += by; }
  Counter& operator+=(const Counter& other) {
    value += other.value;
    return *this;
  }
};

struct Gauge {
  int64_t value = 0;
  void set(int64_t to) { value = to; }
  void add(int64_t by = 1) { value += by; }
  void subtract(int64_t by = 1) { value -= by; }
  Gauge& operator+=(const Gauge& other) {
    value += other.value;
    return *this;
  }
};

// A row of the catalogue.
struct Family {
  std::string_view name;  // without _total
  std::string_view unit;
  std::string_view help;
};

// Every set has rows(fn), which calls fn(Family, pointer to member) in the order of the catalogue.

struct ShardMetrics {
  static constexpr std::string_view kLabel = "";
#define MQ_SHARD_METRIC(kind, field, name, unit, help) kind field;
#include "metrics/catalog.def"

  template <class Fn>
  static void rows(Fn&& fn) {
#define MQ_SHARD_METRIC(kind, field, name, unit, help) fn(Family{name, unit, help}, &ShardMetrics::field);
#include "metrics/catalog.def"
  }
};

struct ApiMetrics {
  static constexpr std::string_view kLabel = "api";
#define MQ_API_METRIC(kind, field, name, unit, help) kind field;
#include "metrics/catalog.def"

  template <class Fn>
  static void rows(Fn&& fn) {
#define MQ_API_METRIC(kind, field, name, unit, help) fn(Family{name, unit, help}, &ApiMetrics::field);
#include "metrics/catalog.def"
  }
};

struct PartitionMetrics {
  static constexpr std::string_view kLabel = "topic";
#define MQ_PARTITION_METRIC(kind, field, name, unit, help) kind field;
#include "metrics/catalog.def"

  template <class Fn>
  static void rows(Fn&& fn) {
#define MQ_PARTITION_METRIC(kind, field, name, unit, help) fn(Family{name, unit, help}, &PartitionMetrics::field);
#include "metrics/catalog.def"
  }
};

struct DirectoryMetrics {
  static constexpr std::string_view kLabel = "directory";
#define MQ_DIRECTORY_METRIC(kind, field, name, unit, help) kind field;
#include "metrics/catalog.def"

  template <class Fn>
  static void rows(Fn&& fn) {
#define MQ_DIRECTORY_METRIC(kind, field, name, unit, help) fn(Family{name, unit, help}, &DirectoryMetrics::field);
#include "metrics/catalog.def"
  }
};

struct ProcessMetrics {
  static constexpr std::string_view kLabel = "";
#define MQ_PROCESS_METRIC(kind, field, name, unit, help) kind field;
#include "metrics/catalog.def"

  template <class Fn>
  static void rows(Fn&& fn) {
#define MQ_PROCESS_METRIC(kind, field, name, unit, help) fn(Family{name, unit, help}, &ProcessMetrics::field);
#include "metrics/catalog.def"
  }
};

template <class Set>
void merge(Set& into, const Set& from) {
  Set::rows([&](const Family&, auto member) { into.*member += from.*member; });
}

}  // namespace mq::metrics
