// Recovery: from the files of one partition to what a Log needs to go on. Plain functions over a FileSystem, run on
// Pool::background before the log is used; they touch that partition's directory and their arguments, nothing else.
//
// The durable mark (a log end that was synced) divides the log:
//   below it     everything was safe once, so a missing file, a hole or a batch that does not parse is corruption:
//   nothing
//                is cut, `damage` says what is wrong in which file at which offset, and the log stays offline;
//   from it on   pages were written back in any order, so the first bad batch ends the log, whatever follows: the rest
//   of its
//                file is kept beside it as <offset>.cut, later segments as <base>.log.cut, reported with numbers, and
//                cut.
// What was scanned behind the mark may sit in the page cache only: files and directory are synced before the end
// counts.
//
// After a clean stop the mark is the log end, so no batch is read but the headers behind the last index entry.
// Otherwise the headers from the newest usable producer snapshot on are read, and from the mark on the batches whole.
// Derived files (indexes, snapshots, epoch checkpoint, partition.metadata) that are missing or wrong are rebuilt; but a
// partition.metadata that names another topic is damage: somebody moved directories. `.deleted` and `.cleaned`
// files are removed, complete `.swap` ones put in place.
#pragma once
#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/types.h"
#include "record/compression.h"
#include "runtime/file.h"
#include "storage/leader_epochs.h"
#include "storage/producer_state.h"
#include "storage/segment_scan.h"

namespace mq::storage {

struct RecoverySettings {
  std::optional<TopicId> topic;  // what partition.metadata has to say; unset: it is not looked at
  bool clean = false;            // the last stop was clean: the mark is the log end
  Offset mark{0};
  Offset start{0};           // as last stored
  bool gapsAllowed = false;  // everywhere; else only below what the file `compacted` says
  uint32_t indexIntervalBytes = 4096;
  WallMs now = kNoTimestamp;  // stands in for append times that are not known or not credible
};

struct RecoveredSegment {
  SegmentFacts facts;
  WallMs modified = kNoTimestamp;      // when its last batch was appended, as the file system tells
  std::optional<IndexCounts> indexes;  // checked or rebuilt; unset: to be checked on first use
  std::optional<size_t> aborted;       // entries of its transaction index; unset only when there are no records
  std::vector<AbortedTransaction> abortedUnwritten;  // and those that there was no space for
};

struct RecoveredLog {
  bool exists = false;  // there was a directory
  bool listed = false;  // the data directory's list names it
  Offset start{0};
  Offset end{0};
  Offset cleanedTo{0};  // everything below has been compacted once
  std::vector<RecoveredSegment> segments;
  LeaderEpochs epochs;
  bool epochsChanged = false;  // the file must be written
  ProducerState producers;
  std::optional<std::string> damage;
  bool wasClean = false;  // nothing had to be looked at
  uint64_t cutBytes = 0;
  uint64_t scannedBytes = 0;
  std::vector<std::string> notes;  // what was repaired or cut, one line each, for the person who runs mq
};

// Bytes read so far, over all recoveries that share it.
using RecoveryProgress = std::atomic<uint64_t>;

RecoveredLog recoverLog(FileSystem& files, const std::string& directory, const RecoverySettings& settings,
                        RecoveryProgress* progress = nullptr);

// Producer state at `end`, from the newest snapshot at or below it that is sound and the headers behind that.
ProducerState rebuildProducers(FileSystem& files, const std::string& directory,
                               const std::vector<SegmentFacts>& segments, Offset end, WallMs now);

}  // namespace mq::storage
