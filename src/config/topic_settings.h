// TopicSettings: what a topic can be told, by Kafka 4.4's names, defaults and ranges. Effective values are resolved
// from the broker's defaults (BrokerSettings::topicDefaults) and the topic's overrides, which metadata holds as text.
// A plain value: copy it, or share it immutable.
#pragma once
#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/types.h"
#include "config/setting.h"

namespace mq::config {

struct BrokerSettings;
class BrokerConfig;

// When an append counts as done: after its sync, or once it is in the page cache (Kafka's default).
enum class Durability : uint8_t { fsync, pageCache };

// What a batch looks like on disk. autoLz4: lz4 when it came uncompressed, is big enough and gets smaller by an eighth.
// producer: as it came. The others: recompressed to that codec unless it came so.
enum class CompressionType : uint8_t { autoLz4, producer, uncompressed, gzip, snappy, lz4, zstd };

enum class TimestampType : uint8_t { createTime, logAppendTime };  // of MessageTimestampType

struct CleanupPolicy {
  bool deletes = true;    // whole segments by retention.ms and retention.bytes
  bool compacts = false;  // older records of a key
  friend bool operator==(const CleanupPolicy&, const CleanupPolicy&) = default;
};

struct TopicSettings {
  static constexpr int64_t kUnlimited = std::numeric_limits<int64_t>::max();

  Durability durability = Durability::fsync;
  int64_t flushMessages = kUnlimited;  // a sync at least every so many records; only ever strengthens durability
  int64_t flushMs = kUnlimited;

  CompressionType compression = CompressionType::autoLz4;
  int32_t gzipLevel = -1;
  int32_t lz4Level = 9;
  int32_t zstdLevel = 3;

  int32_t maxMessageBytes = 1048588;  // of a batch, as stored
  TimestampType timestampType = TimestampType::createTime;
  int64_t timestampBeforeMaxMs = kUnlimited;
  int64_t timestampAfterMaxMs = 3600000;
  int32_t minInSyncReplicas = 0;  // 0: by the number of replicas; see inSyncNeeded()
  bool uncleanLeaderElection = false;

  int32_t segmentBytes = 1073741824;
  int64_t segmentMs = 604800000;
  int64_t segmentJitterMs = 0;
  int32_t segmentIndexBytes = 10485760;
  int32_t indexIntervalBytes = 4096;
  bool preallocate = false;
  int64_t fileDeleteDelayMs = 60000;

  CleanupPolicy cleanup;
  int64_t retentionMs = 604800000;  // -1: forever
  int64_t retentionBytes = -1;      // of one partition; negative: no limit

  double minCleanableDirtyRatio = 0.5;
  int64_t minCompactionLagMs = 0;
  int64_t maxCompactionLagMs = kUnlimited;
  int64_t deleteRetentionMs = 86400000;

  std::vector<std::string> leaderThrottledReplicas;  // "partition:broker", or one "*"
  std::vector<std::string> followerThrottledReplicas;

  bool remoteStorage = false;
  int64_t localRetentionMs = -2;     // -2: as retentionMs
  int64_t localRetentionBytes = -2;  // -2: as retentionBytes
  bool remoteCopyDisabled = false;
  bool remoteDeleteOnDisable = false;
  int64_t remoteCopyLagMs = 0;  // -1: as the local retention
  int64_t remoteCopyLagBytes = 0;

  friend bool operator==(const TopicSettings&, const TopicSettings&) = default;
};

// How many replicas must be in sync before an append with acks=all is taken and the high watermark moves: the setting,
// but never more than there are; where it is 0, two of three or more replicas, else one.
inline size_t inSyncNeeded(const TopicSettings& settings, size_t replicas) {
  size_t wanted = settings.minInSyncReplicas > 0 ? static_cast<size_t>(settings.minInSyncReplicas)
                  : replicas >= 3                ? 2
                                                 : 1;
  return std::min(wanted, std::max<size_t>(replicas, 1));
}

Table topicTable();

// Checks names, values and their relations as CreateTopics, AlterConfigs and IncrementalAlterConfigs must:
// Error::invalidConfig and a message that names key, value and what is allowed.
Result<void> checkTopic(const TopicSettings& defaults, const Overrides& overrides);

// The overrides after the alterations, checked; the same error if a list operation meets no list, a name comes twice,
// or the outcome is refused. Append and subtract work on the effective list, as Kafka's do.
Result<Overrides> alterTopic(const TopicSettings& defaults, const Overrides& now,
                             std::span<const Alteration> alterations);

// Effective settings. Overrides were checked before they were committed; one that a newer version wrote and this one
// does not understand leaves the default in place (`ignored` then names it).
TopicSettings resolveTopic(const TopicSettings& defaults, const Overrides& overrides,
                           std::vector<std::string>* ignored = nullptr);

// Rows in order of name, as Kafka lists them.
std::vector<Entry> describeTopic(const BrokerConfig& broker, const Overrides& overrides);

std::string_view nameOf(Durability durability);  // "fsync", "page-cache"
std::string_view nameOf(CompressionType type);   // "auto", "producer", ...
std::string_view nameOf(TimestampType type);     // "CreateTime", "LogAppendTime"

}  // namespace mq::config
