// The field's nouns as types. Kafka's names where Kafka has one.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

#include "base/id.h"
#include "base/uuid.h"

namespace mq {

using Offset = Id<int64_t, struct OffsetTag>;            // of a record in its partition
using LeaderEpoch = Id<int32_t, struct LeaderEpochTag>;  // grows with each new leader of a partition
using NodeId = Id<int32_t, struct NodeIdTag>;            // one mq process; -1: none
using ProducerId = Id<int64_t, struct ProducerIdTag>;    // -1: not idempotent
using TopicId = Uuid;                                    // survives nothing: a recreated topic has another one

inline constexpr NodeId kNoNode{-1};
inline constexpr ProducerId kNoProducer{-1};
inline constexpr LeaderEpoch kNoLeaderEpoch{-1};

struct OffsetRange {  // [first, end)
  Offset first;
  Offset end;
  friend bool operator==(const OffsetRange&, const OffsetRange&) = default;
};

// Record and retention times: milliseconds since 1970 by somebody's wall clock. -1: none.
using WallMs = Id<int64_t, struct WallMsTag>;
inline constexpr WallMs kNoTimestamp{-1};

// Waits, sessions and deadlines: a monotonic clock that knows nothing of dates. Only runtime/clock.h reads it.
using Duration = std::chrono::nanoseconds;
struct MonotonicTag {
  using duration = Duration;
  using rep = Duration::rep;
  using period = Duration::period;
  static constexpr bool is_steady = true;
};
using Instant = std::chrono::time_point<MonotonicTag, Duration>;
using namespace std::chrono_literals;

inline constexpr uint64_t operator""_KiB(unsigned long long n) { return n << 10; }
inline constexpr uint64_t operator""_MiB(unsigned long long n) { return n << 20; }
inline constexpr uint64_t operator""_GiB(unsigned long long n) { return n << 30; }

struct TopicPartition {
  std::string topic;
  int32_t partition = 0;
  friend auto operator<=>(const TopicPartition&, const TopicPartition&) = default;
};

struct TopicIdPartition {
  TopicId topic;
  int32_t partition = 0;
  friend auto operator<=>(const TopicIdPartition&, const TopicIdPartition&) = default;
};

}  // namespace mq

template <>
struct std::hash<mq::TopicIdPartition> {
  size_t operator()(const mq::TopicIdPartition& p) const noexcept {
    return std::hash<mq::Uuid>{}(p.topic) ^
           (static_cast<size_t>(static_cast<uint32_t>(p.partition)) * 0x9E3779B97F4A7C15u);
  }
};

template <>
struct fmt::formatter<mq::TopicPartition> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const mq::TopicPartition& p, Context& context) const {
    return fmt::format_to(context.out(), "{}-{}", p.topic, p.partition);
  }
};
