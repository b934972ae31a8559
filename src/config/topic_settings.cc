#include "config/topic_settings.h"

#include <algorithm>

#include "config/broker_settings.h"
#include "config/names.h"
#include "config/text.h"

namespace mq::config {
namespace {

using T = TopicSettings;
constexpr int64_t kHour = 3600000;
constexpr Change kLive = Change::live;

constexpr Setting kDurability[] = {
    {.name = "durability",
     .broker = "durability",
     .field = &kField<&T::durability>,
     .change = kLive,
     .doc = "When an append counts as done. With fsync, acks=1 is answered after the leader has synced the data to "
            "disk and acks=all "
            "when every in-sync replica has; appends that come together share one sync. With page-cache, as in Kafka, "
            "it is "
            "answered once the operating system has the data: a power cut or a crash of the machine can then lose "
            "acknowledged records on that machine."},
    {.name = "flush.messages",
     .broker = "log.flush.interval.messages",
     .field = &kField<&T::flushMessages>,
     .min = 1,
     .change = kLive,
     .doc = "A sync after at most so many records; 1 syncs each append before it is acknowledged. Can only strengthen "
            "durability."},
    {.name = "flush.ms",
     .broker = "log.flush.interval.ms",
     .aliases = {{{"log.flush.scheduler.interval.ms", 1}}},
     .field = &kField<&T::flushMs>,
     .min = 0,
     .change = kLive,
     .doc = "A sync at most so long after an append. Can only strengthen durability."},
};

constexpr Setting kBatches[] = {
    {.name = "compression.type",
     .broker = "compression.type",
     .field = &kField<&T::compression>,
     .change = kLive,
     .doc = "How batches are stored. auto compresses with lz4 what arrives uncompressed, is big enough and gets "
            "smaller by an "
            "eighth, and leaves compressed batches as they are; clients that are not known to read lz4 get them "
            "uncompressed. "
            "producer stores what the producer sent. uncompressed, gzip, snappy, lz4 and zstd convert every batch."},
    {.name = "compression.gzip.level",
     .broker = "compression.gzip.level",
     .field = &kField<&T::gzipLevel>,
     .min = -1,
     .max = 9,
     .change = kLive,
     .doc = "Level for compression.type=gzip: 1 to 9, or -1 for zlib's default."},
    {.name = "compression.lz4.level",
     .broker = "compression.lz4.level",
     .field = &kField<&T::lz4Level>,
     .min = 1,
     .max = 17,
     .change = kLive,
     .doc = "Level for compression.type=lz4. auto always uses the fast one."},
    {.name = "compression.zstd.level",
     .broker = "compression.zstd.level",
     .field = &kField<&T::zstdLevel>,
     .min = -131072,
     .max = 22,
     .change = kLive,
     .doc = "Level for compression.type=zstd."},
    {.name = "max.message.bytes",
     .broker = "message.max.bytes",
     .field = &kField<&T::maxMessageBytes>,
     .min = 0,
     .change = kLive,
     .sim = {4096, 1048588},
     .doc = "The largest record batch that is accepted, as the producer sent it."},
    {.name = "message.timestamp.type",
     .broker = "log.message.timestamp.type",
     .field = &kField<&T::timestampType>,
     .change = kLive,
     .doc = "Whether a record keeps the time its producer gave it (CreateTime) or gets the time of its append "
            "(LogAppendTime)."},
    {.name = "message.timestamp.before.max.ms",
     .broker = "log.message.timestamp.before.max.ms",
     .field = &kField<&T::timestampBeforeMaxMs>,
     .min = 0,
     .change = kLive,
     .doc = "With CreateTime: records older than the broker's clock by more are refused."},
    {.name = "message.timestamp.after.max.ms",
     .broker = "log.message.timestamp.after.max.ms",
     .field = &kField<&T::timestampAfterMaxMs>,
     .min = 0,
     .change = kLive,
     .doc = "With CreateTime: records ahead of the broker's clock by more are refused."},
};

constexpr Setting kReplicas[] = {
    {.name = "min.insync.replicas",
     .broker = "min.insync.replicas",
     .field = &kField<&T::minInSyncReplicas>,
     .min = 0,
     .change = kLive,
     .doc = "With acks=all, an append is refused while fewer replicas than this are in sync; never more than the "
            "partition has. 0: two of three or more replicas, else one."},
    {.name = "unclean.leader.election.enable",
     .broker = "unclean.leader.election.enable",
     .field = &kField<&T::uncleanLeaderElection>,
     .change = kLive,
     .doc = "Whether a replica that may lack acknowledged records can become leader when no other is left. Loses "
            "records."},
    {.name = "leader.replication.throttled.replicas",
     .field = &kField<&T::leaderThrottledReplicas>,
     .change = kLive,
     .doc = "Replicas whose outgoing replication is throttled: a list of PARTITION:BROKER, or * for all."},
    {.name = "follower.replication.throttled.replicas",
     .field = &kField<&T::followerThrottledReplicas>,
     .change = kLive,
     .doc = "Replicas whose incoming replication is throttled: a list of PARTITION:BROKER, or * for all."},
};

constexpr Setting kSegments[] = {
    {.name = "segment.bytes",
     .broker = "log.segment.bytes",
     .field = &kField<&T::segmentBytes>,
     .min = 1048576,
     .change = kLive,
     .doc = "The active segment is sealed and a new one started when it would grow past this many bytes."},
    // Behind segment.bytes in this table, so that it wins where both are given.
    {.name = "internal.segment.bytes",
     .field = &kField<&T::segmentBytes>,
     .min = 14,
     .change = kLive,
     .hidden = true,
     .sim = {1024, 65536},
     .doc = "segment.bytes without its lower bound, for tests."},
    {.name = "segment.ms",
     .broker = "log.roll.ms",
     .aliases = {{{"log.roll.hours", kHour}}},
     .field = &kField<&T::segmentMs>,
     .min = 1,
     .change = kLive,
     .sim = {1000, 600000},
     .doc = "The active segment is sealed when its first record is older than this, however small it is, so that "
            "retention can remove it."},
    {.name = "segment.jitter.ms",
     .broker = "log.roll.jitter.ms",
     .aliases = {{{"log.roll.jitter.hours", kHour}}},
     .field = &kField<&T::segmentJitterMs>,
     .min = 0,
     .change = kLive,
     .doc = "segment.ms is shortened by a random time up to this, so that not all partitions roll at once."},
    {.name = "segment.index.bytes",
     .broker = "log.index.size.max.bytes",
     .field = &kField<&T::segmentIndexBytes>,
     .min = 4,
     .change = kLive,
     .doc = "A segment is sealed when its offset or time index has this size."},
    {.name = "index.interval.bytes",
     .broker = "log.index.interval.bytes",
     .field = &kField<&T::indexIntervalBytes>,
     .min = 0,
     .change = kLive,
     .sim = {64, 8192},
     .doc = "An index entry about every so many bytes of log."},
    {.name = "preallocate",
     .broker = "log.preallocate",
     .field = &kField<&T::preallocate>,
     .change = kLive,
     .doc = "Whether space for a whole segment is reserved when it is started."},
    {.name = "file.delete.delay.ms",
     .broker = "log.segment.delete.delay.ms",
     .field = &kField<&T::fileDeleteDelayMs>,
     .min = 0,
     .change = kLive,
     .doc = "How long the files of a deleted segment stay before they are removed."},
};

constexpr Setting kCleanup[] = {
    {.name = "cleanup.policy",
     .broker = "log.cleanup.policy",
     .field = &kField<&T::cleanup>,
     .change = kLive,
     .doc = "How old records go: delete removes whole segments by retention.ms and retention.bytes, compact keeps the "
            "last record "
            "of each key; both can be given. Empty: nothing is ever removed."},
    {.name = "retention.ms",
     .broker = "log.retention.ms",
     .aliases = {{{"log.retention.minutes", 60000}, {"log.retention.hours", kHour}}},
     .field = &kField<&T::retentionMs>,
     .min = -1,
     .change = kLive,
     .doc = "A sealed segment is deleted when its newest record is older than this. -1: never."},
    {.name = "retention.bytes",
     .broker = "log.retention.bytes",
     .field = &kField<&T::retentionBytes>,
     .min = -1,
     .change = kLive,
     .doc = "The oldest sealed segments of a partition are deleted while it would still have this many bytes without "
            "them. "
            "Counts per partition. -1: no limit."},
    {.name = "min.cleanable.dirty.ratio",
     .broker = "log.cleaner.min.cleanable.ratio",
     .field = &kField<&T::minCleanableDirtyRatio>,
     .min = 0,
     .max = 1,
     .change = kLive,
     .doc = "Compaction begins when this part of the log has not been compacted yet."},
    {.name = "min.compaction.lag.ms",
     .broker = "log.cleaner.min.compaction.lag.ms",
     .field = &kField<&T::minCompactionLagMs>,
     .min = 0,
     .change = kLive,
     .doc = "A record is not compacted away for at least this long."},
    {.name = "max.compaction.lag.ms",
     .broker = "log.cleaner.max.compaction.lag.ms",
     .field = &kField<&T::maxCompactionLagMs>,
     .min = 1,
     .change = kLive,
     .doc = "A record becomes subject to compaction after at most this long."},
    {.name = "delete.retention.ms",
     .broker = "log.cleaner.delete.retention.ms",
     .field = &kField<&T::deleteRetentionMs>,
     .min = 0,
     .change = kLive,
     .doc = "How long compaction keeps the tombstone of a deleted key, so that readers can see it."},
};

constexpr Setting kRemote[] = {
    {.name = "remote.storage.enable",
     .field = &kField<&T::remoteStorage>,
     .change = kLive,
     .doc = "Whether sealed segments are copied to the segment store. Refused while the broker has none."},
    {.name = "local.retention.ms",
     .broker = "log.local.retention.ms",
     .field = &kField<&T::localRetentionMs>,
     .min = -2,
     .change = kLive,
     .doc = "With remote storage: the local part of retention.ms. -2: all of it; -1: no limit."},
    {.name = "local.retention.bytes",
     .broker = "log.local.retention.bytes",
     .field = &kField<&T::localRetentionBytes>,
     .min = -2,
     .change = kLive,
     .doc = "With remote storage: the local part of retention.bytes. -2: all of it; -1: no limit."},
    {.name = "remote.log.copy.disable",
     .field = &kField<&T::remoteCopyDisabled>,
     .change = kLive,
     .doc = "With remote storage: copies nothing more and only reads."},
    {.name = "remote.log.delete.on.disable",
     .field = &kField<&T::remoteDeleteOnDisable>,
     .change = kLive,
     .doc = "Whether turning remote.storage.enable off deletes what was copied."},
    {.name = "remote.copy.lag.ms",
     .field = &kField<&T::remoteCopyLagMs>,
     .min = -1,
     .change = kLive,
     .doc =
         "With remote storage: a sealed segment is copied once it is this old. -1: at the end of its local retention."},
    {.name = "remote.copy.lag.bytes",
     .field = &kField<&T::remoteCopyLagBytes>,
     .min = -1,
     .change = kLive,
     .doc = "With remote storage: a sealed segment is copied once this many bytes follow it. -1: as many as are kept "
            "locally."},
};

constexpr Section kSections[] = {
    {"Durability", kDurability}, {"Batches", kBatches}, {"Replicas", kReplicas},
    {"Segments", kSegments},     {"Cleanup", kCleanup}, {"Remote storage", kRemote},
};

const Setting* findTopicRow(std::string_view name) { return find(topicTable(), name); }

Failure unknownTopicSetting(std::string_view name) {
  std::string near = nearest(name, topicNames());
  return failure(Error::invalidConfig, "Unknown topic config name: {}{}", quoted(name),
                 near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

// What single values cannot show.
Result<void> checkRelations(const TopicSettings& settings) {
  if (settings.minCompactionLagMs > settings.maxCompactionLagMs) {
    return failure(Error::invalidConfig, "min.compaction.lag.ms ({}) is above max.compaction.lag.ms ({})",
                   settings.minCompactionLagMs, settings.maxCompactionLagMs);
  }
  if (settings.remoteStorage) {
    return failure(Error::invalidConfig,
                   "Tiered storage is not available on this broker: remote.storage.enable cannot be true");
  }
  return {};
}

}  // namespace

Table topicTable() { return kSections; }

std::span<const std::string_view> topicNames() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> listed;
    for (const Section& section : topicTable()) {
      for (const Setting& row : section.rows) {
        if (!row.hidden) listed.push_back(row.name);
      }
    }
    std::sort(listed.begin(), listed.end());
    return listed;
  }();
  return names;
}

Result<void> checkTopic(const TopicSettings& defaults, const Overrides& overrides) {
  TopicSettings settings = defaults;
  for (const auto& [name, value] : overrides) {
    const Setting* row = findTopicRow(name);
    if (row == nullptr) return unknownTopicSetting(name);
    if (Result<void> assigned = assign(*row, value, &settings); !assigned) return assigned;
  }
  return checkRelations(settings);
}

Result<Overrides> alterTopic(const TopicSettings& defaults, const Overrides& now,
                             std::span<const Alteration> alterations) {
  auto effective = [&](const Setting& row) { return row.field->print(&defaults); };
  Result<Overrides> altered = alter(now, alterations, findTopicRow, unknownTopicSetting, effective);
  if (!altered) return altered;
  if (Result<void> checked = checkTopic(defaults, *altered); !checked) return checked.failure();
  return altered;
}

TopicSettings resolveTopic(const TopicSettings& defaults, const Overrides& overrides,
                           std::vector<std::string>* ignored) {
  TopicSettings settings = defaults;
  for (const auto& [name, value] : overrides) {
    const Setting* row = findTopicRow(name);
    if ((row == nullptr || !assign(*row, value, &settings)) && ignored != nullptr) ignored->push_back(name);
  }
  // internal.segment.bytes wins, whatever the order of names.
  if (auto internal = overrides.find("internal.segment.bytes"); internal != overrides.end()) {
    (void)assign(*findTopicRow(internal->first), internal->second, &settings);
  }
  return settings;
}

std::vector<Entry> describeTopic(const BrokerConfig& broker, const Overrides& overrides) {
  TopicSettings settings = resolveTopic(broker.settings().topicDefaults, overrides);
  std::vector<Entry> entries;
  for (std::string_view name : topicNames())
    entries.push_back(describeRow(*findTopicRow(name), &settings, overrides, Source::dynamicTopic, broker));
  return entries;
}

std::string_view nameOf(Durability durability) { return Names<Durability>::names[static_cast<size_t>(durability)]; }
std::string_view nameOf(CompressionType type) { return Names<CompressionType>::names[static_cast<size_t>(type)]; }
std::string_view nameOf(TimestampType type) { return Names<TimestampType>::names[static_cast<size_t>(type)]; }

}  // namespace mq::config
