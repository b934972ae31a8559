// LogDirectory: one data directory, owned by this process, this cluster and this node; and LogShard: one shard's logs
// in it.
//
//   mq-directory                      format version, cluster id, node id, directory id (written once)
//   .lock                             flock, held while the process lives
//   partitions                        which partitions have files here, with topic ids: a listed one without files is
//   an
//                                     error, never an empty log
//   recovery-point-offset-checkpoint  durable marks: synced log ends, written every few seconds and at each roll
//   log-start-offset-checkpoint       log starts moved by DeleteRecords
//   cleaner-offset-checkpoint         how far compacted logs are compacted; without it that begins anew
//   clean-shutdown                    there after a clean stop; removed durably before anything else is written
//   reserve                           space that is given up when the disk is full at start
//   quarantine/                       partition directories that nobody knows: moved aside, never deleted
//   <topic>-<partition>/              a log; renamed to <topic id>-<partition>-delete when it is deleted
//
// LogDirectory lives on shard 0, which writes the files above; they are shared by all shards, so changes are posted to
// it and what many shards want at once shares one write. LogShard lives on each shard, owns that shard's Logs, and
// holds copies of what may be asked of the directory (offline, writable). The directory outlives its LogShards: stop
// them all with close() first.
//
// A directory that another process holds, that belongs to another cluster or node, that a newer mq wrote, or that is
// Apache Kafka's, is refused with one line of reason and left untouched.
//
// Offline: after an I/O error other than lack of space nothing in the directory is trusted any more; every log on every
// shard answers KAFKA_STORAGE_ERROR with the reason until the process is restarted.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kj/async.h>

#include "base/error.h"
#include "base/types.h"
#include "config/topic_settings.h"
#include "metrics/histogram.h"
#include "runtime/shard.h"
#include "storage/log.h"
#include "storage/options.h"

namespace mq::storage {

struct DirectoryOwner {
  std::optional<Uuid> clusterId;  // unset: what the directory says, or a new one
  NodeId node;
  bool joins = false;  // instead of a new one: none, until adopt()
};

struct ListedPartition {
  TopicPartition name;
  TopicId topic;
};

struct DirectoryUsage {
  uint64_t totalBytes = 0;  // of the file system
  uint64_t availableBytes = 0;
};

class ShardLogs;

class LogDirectory {
 public:
  // Locks, checks, claims and reads the directory; moves unknown partitions to quarantine, finishes half-done
  // deletions. Blocks: before anything is served. Throws kj::Exception whose description is one line for the person who
  // started mq.
  LogDirectory(Shard& shard0, Options options, DirectoryOwner owner);
  ~LogDirectory();
  KJ_DISALLOW_COPY(LogDirectory);

  const Options& options() const;
  const Uuid& clusterId() const;  // zero: of none yet
  // The cluster that it belongs to from now on, durably. Throws when it is another one's. Blocks.
  void adopt(const Uuid& clusterId);
  const Uuid& directoryId() const;
  bool isNew() const;                               // this is its first life
  bool wasClean() const;                            // the last stop was clean
  std::vector<ListedPartition> partitions() const;  // that have files, in order of name
  const std::optional<std::string>& offlineReason() const;
  bool writable() const;  // false at the free-disk floor
  DirectoryUsage usage() const;
  WallMs lastClean() const;          // when compaction last finished a log; kNoTimestamp: not since the start
  uint32_t dirtyPercentMax() const;  // of the compacted log of which most is not compacted

  // New values for all shards, in force within Options::spaceCheckInterval.
  void tune(const Tuning& tuning);

  // Settles what nobody opened, once all of the node's partitions have been: partitions of a topic that was deleted are
  // deleted, as remove() would have if the process had not ended; all else goes to quarantine.
  kj::Promise<void> settleUnknown(std::function<bool(const TopicId&)> wasDeleted);

  // After all LogShards are closed: writes marks, starts and the clean-shutdown mark.
  kj::Promise<void> close();

  struct State;  // log_directory_state.h

 private:
  friend class LogShard;
  std::unique_ptr<State> state_;
};

class LogShard {
 public:
  struct Figures {  // plain counters, read by metrics
    uint64_t appendedBatches = 0;
    uint64_t appendedBytes = 0;
    uint64_t recoveredLogs = 0;
    uint64_t cutBytes = 0;        // by recovery, kept as .cut
    uint64_t damagedBatches = 0;  // found by scrubbing
    uint64_t scrubbedBytes = 0;
    uint64_t deletedSegments = 0;
    uint64_t refusedForSpace = 0;
    uint64_t scannedBytes = 0;  // by recovery
    uint64_t trimmedBytes = 0;  // deleted before their time (Tuning::trim)
    uint64_t syncRounds = 0;
    uint64_t syncedFiles = 0;
    metrics::Histogram syncTime;  // of rounds
    uint64_t cleans = 0;          // of compacted logs
    uint64_t cleanReadBytes = 0;
    uint64_t cleanWrittenBytes = 0;
    uint64_t cleanRecordsDropped = 0;
    uint64_t cleanKeyless = 0;  // of these: without a key
    uint64_t uncleanable = 0;   // logs, now
    uint64_t openFiles = 0;     // now
    uint64_t openedFiles = 0;
  };

  // On its own shard, which may be any; the directory has been constructed on shard 0.
  LogShard(Shard& shard, LogDirectory& directory);
  ~LogShard();
  KJ_DISALLOW_COPY(LogShard);

  // Opens a log: one without files at once, one with files after recovery. A log whose files are damaged below its
  // durable mark, or missing, opens too: offlineReason() then says what and where. KAFKA_STORAGE_ERROR when the
  // directory is offline, INCONSISTENT_TOPIC_ID when the files there belong to another topic id. The Log belongs to
  // this LogShard and lives until remove() resolves or the LogShard goes; after close() it takes nothing any more.
  kj::Promise<Result<Log*>> open(TopicPartition name, TopicId topic, config::TopicSettings settings);
  Log* find(const TopicPartition& name);
  std::vector<Log*> logs();  // in order of name

  // Deletes a partition's data for good: what is in flight fails with UNKNOWN_TOPIC_OR_PARTITION, the directory is
  // renamed, the list synced (then this resolves), the files unlinked off the loop. Fine if there are no files. Also
  // for a partition that is not open.
  kj::Promise<void> remove(TopicPartition name, TopicId topic);

  bool writable() const;  // false at the free-disk floor
  const std::optional<std::string>& offlineReason() const;
  void onOffline(std::function<void(const std::string& reason)> call);
  Figures figures() const;

  // Flushes, syncs, seals the state of every log, so that the next start scans nothing.
  kj::Promise<void> close();

 private:
  std::unique_ptr<ShardLogs> logs_;
};

}  // namespace mq::storage
