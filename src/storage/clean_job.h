// CleanJob: one clean of one log, as blocking steps over its files, for a pool. It reads sealed segments and writes new
// ones beside them; putting those in place is the Log's (Log::replaceSegments).
//
//   mapping     KeyPass over the dirty part
//   filtering   FilterPass over all segments up to what was mapped, in groups of neighbours that fit into one segment.
//               What comes out of a group stands in *.cleaned files, synced, with indexes. A segment alone in its group
//               of which nothing changes is not written at all.
//
// State group: the caller commits or discards group() and goes on. Nothing is held in memory but the key map, one batch
// (bounded as everywhere, also decompressed) and the index entries of one segment.
// Belongs to one job at a time; the plan is all it knows of the log.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/file.h"
#include "storage/cleaner.h"
#include "storage/segment_scan.h"

namespace mq::storage {

struct CleanPlan {
  struct Aborted {  // the first `count` entries of a segment's transaction index
    Offset base;
    size_t count = 0;
  };
  std::string directory;
  std::vector<SegmentFacts> segments;  // sealed, in order: from the log start, all below `uncleanable`
  std::vector<Aborted> aborted;        // of these and all later ones that have any
  Offset dirty;                        // records from here on have never been cleaned
  Offset uncleanable;                  // the base of the first segment that may not be
  std::map<ProducerId, LastOfProducer> producers;
  WallMs now;
  int64_t deleteRetentionMs = 0;
  uint64_t segmentBytesMax = 0;  // of what is written; a single batch may be larger
  uint64_t indexBytesMax = 0;    // of each index
  uint32_t indexIntervalBytes = 4096;
  uint64_t mapBytes = 0;
  double loadFactor = 0.9;
  size_t ioBytes = 0;
  uint64_t seed = 0;
};

struct CleanedSegment {
  SegmentFacts facts;
  IndexCounts indexes;
  size_t aborted = 0;
};

struct CleanedGroup {
  Offset uncleanable;  // of the clean
  std::vector<SegmentFacts> replaced;
  std::vector<CleanedSegment> segments;  // the first has the base of the first replaced, and may be empty
};

class CleanJob {
 public:
  enum class State { mapping, filtering, group, done };
  struct Figures {
    uint64_t readBytes = 0;
    uint64_t writtenBytes = 0;
    FilterPass::Figures records;
  };

  CleanJob(FileSystem& files, CleanPlan plan);
  ~CleanJob();

  // About `bytes` of reading and writing. A Failure: the log cannot be cleaned, and why. Exceptions: writing failed.
  Result<State> step(uint64_t bytes);
  State state() const { return state_; }
  const CleanedGroup& group() const { return group_; }  // in state group; step() goes on behind it
  Offset end() const;                                   // once mapping is over: records below are cleaned when done
  Figures figures() const;

 private:
  class Source;
  class Writer;
  struct Mapped;
  Result<void> map(uint64_t bytes);
  Result<void> filter(uint64_t bytes);
  void nextGroup();
  void startWriting();
  void write(Bytes batch);
  void finishGroup();
  Result<std::vector<AbortedTransaction>> readAborted(Offset from);
  uint64_t done() const { return figures_.readBytes + figures_.writtenBytes; }

  FileSystem& files_;
  CleanPlan plan_;
  State state_ = State::mapping;
  KeyMap keys_;
  std::unique_ptr<KeyPass> mapping_;
  std::unique_ptr<FilterPass> filtering_;
  record::Workspace workspace_;
  size_t at_ = 0;  // in plan_.segments
  std::unique_ptr<Source> source_;
  std::vector<std::unique_ptr<Writer>> writers_;  // of the group
  CleanedGroup group_;
  size_t groupLeft_ = 0;  // segments of the group not yet begun
  Buffer rewritten_;
  Figures figures_;
};

// Below it compaction may have left gaps between offsets; above it a gap is loss. 0: never compacted. Of a damaged
// note: everywhere.
Offset gapsBelow(FileSystem& files, const std::string& directory);

// How a group takes the place of what it replaces; a crash between two steps is finished or undone by recovery.
//   commitGroup   notes in `compacted` below which offset there may be gaps, removes producer snapshots before the
//   group's end; *.cleaned → *.swap, the first segment's log last of all: from then on the group is the truth.
//                 Synced. Throws with nothing changed when there is no space
//   placeGroup    the replaced files → *.deleted, then *.swap → final names, logs last
//   discardGroup  removes *.cleaned
void commitGroup(FileSystem& files, const std::string& directory, const CleanedGroup& group);
void placeGroup(FileSystem& files, const std::string& directory, const CleanedGroup& group);
void discardGroup(FileSystem& files, const std::string& directory, const CleanedGroup& group);
// Whatever an interrupted clean left unfinished.
void discardCleaned(FileSystem& files, const std::string& directory);

}  // namespace mq::storage
