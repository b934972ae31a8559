// Segment: consecutive record batches of one partition in one file, with two sparse indexes and the aborted
// transactions.
//
//   00000000000000004096.log   [batch 4096..4103][batch 4104..4104]...
//
// Invariants:  the file name is the base offset, at or below that of the first batch;  offsets grow from batch to batch
//              (with gaps after compaction);  every index entry is that of the batch at its position;  a sealed
//              segment never grows;  bytes behind size() are not ours and are overwritten by the next append.
// After append() returned, the batches are readable here and lie in the page cache. They survive power loss only after
// a sync of syncFile() that began later, and, for a new segment, of its directory.
//
// Belongs to its partition's shard, with the FileCache of that shard; SegmentContext outlives it. An idle segment costs
// this object alone: no descriptor, no index in memory. Methods block on the page cache for microseconds; where
// the bytes may be cold, take a view() and run its functions in an Offload job.
// Errors: I/O errors are the kj::Exceptions of File. A failed append leaves size() as it was, and so the segment usable
// if the failure was lack of space (isNoSpace).
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "storage/file_cache.h"
#include "storage/offset_index.h"
#include "storage/segment_scan.h"
#include "storage/time_index.h"
#include "storage/transaction_index.h"

namespace mq::storage {

struct SegmentContext {  // of one Log, shared by its segments
  FileCache& files;
  std::string directory;               // of the partition; changed by the Log when it renames it (close() all first)
  uint32_t indexIntervalBytes = 4096;  // may change at any time
};

struct BatchMark {  // what the indexes need to know of a batch that is appended
  Offset last;
  WallMs maxTimestamp;
  uint32_t size = 0;
};

// Whole batches in a file, ready to be sent. Holding it keeps the file open.
struct Slice {
  FileRef file;
  uint64_t position = 0;
  uint64_t length = 0;           // 0: nothing that fits the wishes
  Offset base;                   // of the first batch: at or below the offset asked for, unless compaction left a gap
  Offset end;                    // every record in the slice is below, every one behind it in this segment at or above
  uint64_t firstBatchBytes = 0;  // size of the batch that holds the offset asked for, or the next one; 0: none in here
};

struct ReadWish {
  Offset offset;  // first record wanted
  Offset upper;   // batches that reach this offset or lie above are left out; at most end()
  uint64_t bytesMax = 0;
  bool atLeastOneBatch = false;  // the first batch also if it is larger than bytesMax
};

struct TimestampOffset {
  WallMs timestamp;
  Offset offset;
  LeaderEpoch epoch = kNoLeaderEpoch;
};

// A snapshot of a segment for another thread: what it held when it was taken. Blocking functions; cold reads welcome.
// Pins the files. An index whose entry turns out wrong is passed over (the walk begins at the first batch) and reported
// in badIndex(), after which the owner lets checkIndexes run.
class SegmentView {
 public:
  const SegmentFacts& facts() const { return facts_; }
  const FileRef& log() const { return log_; }
  bool badIndex() const { return badIndex_; }

  // corruptMessage, with the position, when a damaged header bars the way to the offset.
  Result<Slice> read(const ReadWish& wish);
  // The first record, in offset order, at or above `from` and below `upper` whose own timestamp is at or above `time`.
  // Compressed batches are opened. nullopt: none in this segment. A batch that cannot be decoded is an
  // Error::corruptMessage that names its position.
  Result<std::optional<TimestampOffset>> findTimestamp(WallMs time, Offset from, Offset upper);
  // The record with the largest timestamp among those in [from, upper), the first of equals. nullopt: no record there.
  Result<std::optional<TimestampOffset>> findMaxTimestamp(Offset from, Offset upper);

 private:
  friend class Segment;
  SegmentFacts facts_;
  FileRef log_, offsetIndex_, timeIndex_;  // indexes null: no entries
  size_t offsetEntries_ = 0, timeEntries_ = 0;
  bool badIndex_ = false;
};

class Segment {
 public:
  // A new, empty segment: creates its .log, which must not exist. The caller syncs the directory before anything
  // counts.
  static std::unique_ptr<Segment> create(SegmentContext& context, Offset base);
  // An existing one, of which the facts are known: touches no file. Its indexes count as unchecked until
  // adoptIndexes().
  Segment(SegmentContext& context, const SegmentFacts& facts);
  ~Segment();

  Offset base() const { return facts_.base; }
  Offset end() const { return facts_.end; }
  uint64_t size() const { return facts_.size; }
  WallMs maxTimestamp() const { return facts_.maxTimestamp; }
  const SegmentFacts& facts() const { return facts_; }
  std::string path() const;

  // --- writing: the active segment only

  // False: the segment would outgrow what its indexes can address (2^31 - 1 bytes or offsets). Roll first.
  bool fits(uint64_t bytes, Offset last) const;
  // Writes the pieces, which together are the marked batches in order, in one File::write, then notes index entries.
  // Without checked indexes it makes no entries; the next check finds them.
  void append(std::span<const Bytes> pieces, std::span<const BatchMark> batches);
  void noteAborted(const AbortedTransaction& aborted);  // in marker order; written by flushIndexes()
  // Writes index entries that wait in memory. The indexes are derived: not synced, and a crash may lose or tear them.
  void flushIndexes();
  // No more appends: closing time index entry, indexes flushed and trimmed, files closed. For rolls and clean stops;
  // an append after it (a reopened active segment) is fine and goes on where it stopped.
  void seal();
  // Cuts the log at `position`, the start of a batch or its end, so that `end` is the new end; indexes follow. The
  // caller syncs syncFile() before it appends again, and has told readers: slices behind the cut must be gone or
  // unsendable.
  void truncate(uint64_t position, Offset end);

  // The file, pinned here from the first append on until synced() with the size it had: a descriptor that saw the
  // writes must see the sync, or a write-back error could be missed. Null: nothing unsynced.
  FileRef syncFile() const { return unsynced_; }
  void synced(uint64_t size);

  // --- reading

  // Errors as SegmentView::read. Without checked indexes it walks from the first batch or from where a reader stopped.
  Result<Slice> read(const ReadWish& wish);
  // Position of the first batch that reaches `offset` (holds it, or is the next one); size() if there is none.
  Result<uint64_t> positionOf(Offset offset);
  SegmentView view();  // flushes index entries first
  // Aborted transactions of this segment that overlap [first, end), appended in marker order. True: later segments need
  // not be asked. The entries must be there: see transactionsChecked().
  bool collectAborted(Offset first, Offset end, std::vector<AbortedTransaction>& into);

  // --- derived files: checked once per life, off the loop, before the first read or append of an existing segment

  bool indexesChecked() const { return indexesChecked_; }
  // What checkIndexes() answered for facts(): also brings the largest timestamp.
  void adoptIndexes(const IndexCounts& counts);
  bool transactionsChecked() const { return transactionsChecked_; }
  size_t abortedCount() const { return transactionIndex_.count(); }
  // How many entries the file has, once it is known to be good.
  void adoptTransactions(size_t count);
  // A look-up met an index entry that is not its batch's: indexesChecked() is false from then on, answers stay right.
  bool badIndex() const { return badIndex_; }

  // --- the end

  // Closes the files (a later use opens them again). For renames of the directory, and under descriptor pressure.
  void close();
  // Pins survive both. markDeleted renames the files to NAME.deleted; the Segment must not be used any more.
  void markDeleted();

 private:
  FileRef logFile();
  FileRef indexFile(FileCache::Slot& slot, std::string_view suffix, size_t written);
  void resumeIndexes();
  void forgetIndexes();
  void reserve(File& file, uint64_t bytes);
  struct Hint {  // the batch at `position` is the first to reach any offset in [first, last]
    Offset first{-1};
    Offset last{-1};
    uint64_t position = 0;
  };

  SegmentContext& context_;
  SegmentFacts facts_;
  FileCache::Slot logSlot_, offsetSlot_, timeSlot_, transactionSlot_;
  OffsetIndex offsetIndex_;
  TimeIndex timeIndex_;
  TransactionIndex transactionIndex_;
  IndexBuilder builder_;
  bool indexesChecked_ = false;
  bool transactionsChecked_ = false;
  bool resumed_ = false;  // builder_ knows where the indexes stopped
  bool badIndex_ = false;
  FileRef unsynced_;
  uint64_t reserved_ = 0;        // disk space is set aside up to here, so far as this life of the segment knows
  std::array<Hint, 4> hints_{};  // where the last readers stopped: sequential readers need no index
  uint32_t nextHint_ = 0;
};

}  // namespace mq::storage
