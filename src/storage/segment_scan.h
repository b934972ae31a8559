// Blocking walks over one `.log` file and the files beside it: for recovery, scrubbing, index checks and offline tools.
// Everything here works on FileSystem and FileRef alone, touches no Segment and may run in an Offload job.
//
// Reads are pieces of at most 256 KiB; a batch that is larger than that has its checksum taken piece by piece, and is
// loaded whole only once it proved good. So memory is bounded by the largest good batch, whatever a length field says.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "record/batch.h"
#include "record/compression.h"
#include "runtime/file.h"
#include "storage/offset_index.h"
#include "storage/producer_state.h"
#include "storage/time_index.h"
#include "storage/transaction_index.h"

namespace mq::storage {

enum class ScanStop {
  end,        // every byte up to the end belongs to a good batch
  tornTail,   // the last batch is longer than the file: its length field claims bytes that are not there
  zeros,      // the header's place holds zeros: preallocated or never written
  badLength,  // a length below that of an empty batch
  badMagic,   // not a version 2 batch
  badCrc,
  badHeader,         // counts, deltas or attributes contradict each other
  offsetsBackwards,  // the base offset is below the end of the batch before it
  offsetGap,         // `dense` was asked and the base offset is above the end of the batch before it
  offsetOutOfRange,  // the offset does not fit into a segment of this base
};
std::string_view nameOf(ScanStop stop);  // "torn-tail"

struct ScanOptions {
  uint64_t from = 0;  // position of the first batch
  Offset nextOffset;  // least base offset it may have: the segment's base, or the end of what lies before `from`
  uint64_t sizeMax = UINT64_MAX;  // nothing behind this position is looked at
  bool checkCrc = true;           // false: headers only; the records are not read
  bool dense = false;             // no gaps between batches: true for a log that was never compacted
};

struct ScanResult {
  uint64_t validEnd = 0;  // position behind the last good batch: the first bad one if stop != end
  Offset nextOffset;      // behind the last good batch
  ScanStop stop = ScanStop::end;
  std::string problem;                 // for people: what is wrong at validEnd, with numbers; empty at the end
  uint64_t batches = 0;                // good ones seen
  uint64_t fileSize = 0;               // as it was when the scan ended
  WallMs maxTimestamp = kNoTimestamp;  // over the batches seen, and the last offset of the first batch that has it
  Offset maxTimestampOffset;
};

// Called with each good batch and its position, in order. With checkCrc the view is of the whole batch; without, of its
// header alone (61 bytes: no records). The view dies when the call returns.
using BatchVisitor = std::function<void(const record::BatchView& batch, uint64_t position)>;

ScanResult scanSegment(const File& log, Offset base, const ScanOptions& options, const BatchVisitor& visit = {});

// What is known of a segment besides its bytes.
struct SegmentFacts {
  Offset base;
  Offset end;                          // behind its last record; base when empty
  uint64_t size = 0;                   // validated bytes
  WallMs maxTimestamp = kNoTimestamp;  // kNoTimestamp: empty
  Offset maxTimestampOffset;           // last offset of the first batch that has it
};

// Finds the end of a segment that was stopped cleanly: from its last index entry on, headers only; a bad index is
// passed over. `problem` is set (and the facts are those of the good prefix) if the headers do not lead exactly to the
// end.
SegmentFacts inspectSegment(FileSystem& system, const std::string& directory, Offset base, std::string* problem);

// Builds index entries while batches go by: the one place that knows when Kafka writes an entry.
class IndexBuilder {
 public:
  // bytesSinceEntry: appended since the last offset index entry; maxTimestamp: so far; lastIndexed: last time entry's.
  explicit IndexBuilder(uint32_t intervalBytes) : intervalBytes_(intervalBytes) {}

  // The batch that is about to be appended at `position`. True: offsetEntry() and, if hasTime(), timeEntry() are new.
  bool add(Offset lastOffset, WallMs maxTimestamp, uint64_t position, uint32_t size);
  const OffsetIndexEntry& offsetEntry() const { return offset_; }
  bool hasTime() const { return hasTime_; }
  // The closing entry of the time index: true if timeEntry() is new.
  bool close();
  const TimeIndexEntry& timeEntry() const { return time_; }

  WallMs maxTimestamp() const { return maxTimestamp_; }
  Offset maxTimestampOffset() const { return maxTimestampOffset_; }
  void setInterval(uint32_t bytes) { intervalBytes_ = bytes; }
  // Goes on from what a segment already has. lastTimeEntry: the last entry of the time index, kNoTimestamp for none.
  void resume(WallMs maxTimestamp, Offset maxTimestampOffset, WallMs lastTimeEntry, uint64_t bytesSinceEntry);

 private:
  uint32_t intervalBytes_;
  uint64_t bytesSinceEntry_ = 0;
  WallMs maxTimestamp_ = kNoTimestamp;
  Offset maxTimestampOffset_;
  WallMs lastTimeEntry_ = kNoTimestamp;
  OffsetIndexEntry offset_;
  TimeIndexEntry time_;
  bool hasTime_ = false;
};

// What is in the index files of a segment, once they were found or made good.
struct IndexCounts {
  size_t offsetEntries = 0;  // whole entries in .index and .timeindex
  size_t timeEntries = 0;
  WallMs maxTimestamp = kNoTimestamp;  // of the segment, and the last offset of the first batch that has it
  Offset maxTimestampOffset;
  std::string mended;  // what was wrong with the files, and was written anew or added; empty: they were good
};

// Makes .index and .timeindex agree with the log's first facts.size bytes (facts.maxTimestamp is not used). Reads them,
// checks order, range and a sample of entries against the batch headers they point to; whatever is wrong (missing,
// short, zero padded, garbage, of another segment, past the end) is rebuilt by a walk over the headers. Not synced:
// they are derived. rebuildIndexes does not look at what is there.
IndexCounts checkIndexes(FileSystem& system, const std::string& directory, const SegmentFacts& facts,
                         uint32_t intervalBytes);
IndexCounts rebuildIndexes(FileSystem& system, const std::string& directory, const SegmentFacts& facts,
                           uint32_t intervalBytes);

// How many aborted transactions a segment's .txnindex lists; 0 without the file. nullopt: the file is damaged.
std::optional<size_t> checkTransactionIndex(FileSystem& system, const std::string& directory,
                                            const SegmentFacts& facts);
// What a batch says to producer state. nullopt: it has no producer, is a control batch (producerBatchOf) or none that
// ends a transaction (markerOf). Timestamps are the batch's; the caller may put another one in.
std::optional<ProducerBatch> producerBatchOf(const record::BatchView& batch);
std::optional<ProducerMarker> markerOf(const record::BatchView& batch, record::Workspace& workspace);
// Applies a batch that is in the log: what recovery does with each. *aborted is set as by ProducerState::apply.
void replay(ProducerState& producers, const record::BatchView& batch, record::Workspace& workspace,
            std::optional<AbortedTransaction>* aborted = nullptr);

// Keeps the bytes [from, end of file) of the segment's log, of zeros at the end only the first page, as <offset>.cut in
// the same directory (<offset>-1.cut and so on if that exists) and syncs file and directory. Returns the path; empty if
// all were zeros.
std::string keepCutTail(FileSystem& system, const std::string& directory, Offset base, uint64_t from, Offset offset);

// The segment's files that exist: renamed to NAME.deleted (the log first: what is left then is an orphan, not a log
// without indexes), or removed. `suffix` is "" or kDeletedSuffix. The directory is not synced.
void markFilesDeleted(FileSystem& system, const std::string& directory, Offset base);
void removeFiles(FileSystem& system, const std::string& directory, Offset base, std::string_view suffix);

}  // namespace mq::storage
