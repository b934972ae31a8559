// Log: one partition's records on this node.
//
//   start ≤ durable end ≤ end (written) ≤ next offset to be given (end plus what is queued for this turn's write)
//
// Three moments of an append:
//   accepted  append() was called: calls take effect in this order;
//   written   the promise of append() resolves: the batch is in the page cache and can be read here;
//   durable   durableEnd() has passed it, whenDurable() resolves: under durability=fsync it survives power loss, under
//             page-cache this is the same as written (flush.messages and flush.ms can only strengthen it).
//
// Path of a batch: validate (more than 64 KiB of de- or compression on Pool::compute, the order kept by a queue) →
// check its sequence against producer state, which already includes what is queued → offsets, leader epoch and, where
// asked, time and codec put in place → queue. At the end of the turn what is queued goes to the active segment in one
// write. A roll writes what is queued first, so one write never spans segments.
//
// When a write fails everything of it is taken back before anything else is appended: producer state, epochs, next
// offset; the file is cut. No space: those appends answer KAFKA_STORAGE_ERROR and the log goes on. Anything else takes
// the log directory offline. A failed sync does so too and is never retried.
//
// Files appear at the first append; a Log without any has no directory either. Every Log belongs to one shard and is
// touched only there; LogShard owns it.
#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <kj/async.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "config/topic_settings.h"
#include "metrics/sets.h"
#include "record/validate.h"
#include "runtime/file.h"
#include "runtime/tasks.h"
#include "storage/clean_job.h"
#include "storage/leader_epochs.h"
#include "storage/producer_state.h"
#include "storage/recovery.h"
#include "storage/segment.h"
#include "storage/sync_rounds.h"

namespace mq::storage {

class ShardLogs;
class LogShard;

enum class Origin : uint8_t {
  client,       // a producer: fully validated; offsets, epoch, times are ours to give
  coordinator,  // our own group or transaction coordinator: also control batches; validated as structure only
  replica,      // copied from the leader: one or more whole batches that carry their offsets and epochs
};

struct AppendRequest {
  MutableBytes bytes;  // one batch (replica: one or more); see append() for how long they must live
  Origin origin = Origin::client;
  LeaderEpoch leaderEpoch;  // stamped into the batch; replica: unused
  // If given, gets the records that alone made the batch be refused. Lives as long as `bytes`.
  std::vector<record::RecordError>* recordErrors = nullptr;
  uint64_t guard = 0;  // of guardTransaction(): for a client's batch that begins a transaction here
};

struct Appended {
  OffsetRange offsets;                  // of a duplicate: those of the first append
  WallMs logAppendTime = kNoTimestamp;  // set for LogAppendTime
  bool duplicate = false;
};

// Whole batches in one file. The handle pins the file, so the bytes stay readable whatever happens to the log.
struct LogSlice {
  FileRef file;  // null: no bytes
  uint64_t position = 0;
  uint32_t length = 0;
  Offset base;  // of the first batch: may be below the offset asked for
  Offset end;   // behind the last record of the slice
};

struct TimestampedOffset {
  Offset offset{-1};
  WallMs timestamp = kNoTimestamp;
  LeaderEpoch epoch = kNoLeaderEpoch;
};

// Special timestamps of ListOffsets.
inline constexpr int64_t kLatestTimestamp = -1;
inline constexpr int64_t kEarliestTimestamp = -2;
inline constexpr int64_t kMaxTimestamp = -3;
inline constexpr int64_t kEarliestLocalTimestamp = -4;
inline constexpr int64_t kLatestTieredTimestamp = -5;
inline constexpr int64_t kEarliestPendingUploadTimestamp = -6;

struct ProducerView {  // as DescribeProducers lists it
  ProducerId id;
  int16_t epoch = -1;
  int32_t lastSequence = -1;
  WallMs lastTimestamp = kNoTimestamp;
  int32_t coordinatorEpoch = -1;
  Offset transactionStart{-1};
};

// What the replica above wants to know. Called in a turn of the log's shard, never from inside a call into the log.
class LogObserver {
 public:
  virtual ~LogObserver() = default;
  virtual void written(Offset end) = 0;                     // more can be read
  virtual void readable() = 0;                              // what a read() had to wait for is there now
  virtual void durable(Offset end) = 0;                     // the durable end moved
  virtual void startMoved(Offset start) = 0;                // by retention or deleteRecordsTo
  virtual void wentOffline(const std::string& reason) = 0;  // every call answers KAFKA_STORAGE_ERROR from now on
  virtual void foundDamage(OffsetRange batch) = 0;          // by scrubbing: the batch is not served any more
};

class Log final : private Syncable {
 public:
  ~Log() noexcept(false);
  KJ_DISALLOW_COPY(Log);

  const TopicPartition& name() const { return name_; }
  const TopicId& topic() const { return topic_; }
  void observe(LogObserver* observer) {
    observer_ = observer;
  }  // null: nobody. The observer outlives the log or calls observe(nullptr).

  Offset start() const { return start_; }
  Offset end() const { return end_; }  // written
  Offset durableEnd() const { return durableEnd_; }
  uint64_t sizeBytes() const;
  size_t segmentCount() const { return segments_.size(); }
  LeaderEpoch lastEpoch() const;                                                // of the last batch; -1: none
  const std::optional<std::string>& offlineReason() const { return offline_; }  // set: unusable, and why

  void setSettings(const config::TopicSettings& settings);  // takes effect with the next append
  // Where the replica's high watermark is: segments at or above it are never deleted, transactions whose marker is not
  // below it still hold the last stable offset.
  void setHighWatermark(Offset highWatermark);

  // Resolves when written. The caller keeps the bytes alive and untouched until then, also if it stops waiting:
  // dropping the promise does not take the append back. Errors are Kafka's for Produce: CORRUPT_MESSAGE,
  // INVALID_RECORD, MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE, INVALID_TIMESTAMP, UNSUPPORTED_COMPRESSION_TYPE,
  // OUT_OF_ORDER_SEQUENCE_NUMBER, INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, TRANSACTION_COORDINATOR_FENCED,
  // KAFKA_STORAGE_ERROR.
  kj::Promise<Result<Appended>> append(AppendRequest request);
  // The replica has got another role: what was accepted and has no offsets yet is refused with this; what has them is
  // written now.
  void withdrawPending(const Failure& why);
  // Resolves once durableEnd() >= end. Rejects when the log goes offline, is truncated below `end`, or is removed.
  kj::Promise<void> whenDurable(Offset end);

  // The records of [from, upTo), as whole batches of one segment, at most bytesMax of them; with atLeastOne the first
  // batch even if it is larger. No bytes when from == min(upTo, end()), and when the segment's indexes must be looked
  // at or rebuilt first, after which observer.readable() is called. OFFSET_OUT_OF_RANGE below start() and above end();
  // CORRUPT_MESSAGE when `from` is in a batch that scrubbing found damaged.
  Result<LogSlice> read(Offset from, uint32_t bytesMax, Offset upTo, bool atLeastOne);
  // Every aborted transaction that overlaps [first, end).
  Result<std::vector<AbortedTransaction>> abortedTransactions(Offset first, Offset end);
  // min(highWatermark, first offset of the oldest transaction that is open or whose marker is not below highWatermark).
  Offset lastStableOffset(Offset highWatermark) const;
  // The first record with a timestamp >= the one given; offset -1: none. The special timestamps above; latest is end(),
  // so callers that mean the high watermark ask themselves.
  kj::Promise<Result<TimestampedOffset>> offsetForTime(int64_t timestamp);
  // The largest epoch at or below `epoch` and where it ends here; {-1, -1}: nothing is known of it.
  EpochBoundary epochEnd(LeaderEpoch epoch) const;
  std::vector<ProducerView> producers() const;

  // A transaction begins in a log only when its coordinator has been asked, or nobody would ever end it (KIP-890). Who
  // is about to ask takes a guard first and drops it after the append. It is good until the producer's next marker or
  // batch, so that a batch which was overtaken by the end of its transaction is refused. 0: the transaction is open
  // here, there is nothing to ask.
  uint64_t guardTransaction(ProducerId producer, int16_t epoch);
  void dropGuard(ProducerId producer, uint64_t guard);
  bool isInTransaction(ProducerId producer, int16_t epoch) const;
  // Whether a batch of the producer's transaction would be taken now.
  bool admitsTransaction(ProducerId producer, int16_t epoch, uint64_t guard) const;
  // Whether the marker would be taken. With `strict` (KIP-890, where each transaction has an epoch of its own) one of
  // the producer's present epoch ends no open transaction: that is a later one.
  Result<void> mayEnd(const ProducerMarker& marker, bool strict) const;

  // Moves the start up to `offset`; it need not be at a batch's beginning. Resolves with the start once that is
  // durable. OFFSET_OUT_OF_RANGE above end().
  kj::Promise<Result<Offset>> deleteRecordsTo(Offset offset);
  // Cuts everything at or above `offset` (a follower whose log diverged). Appends called later wait for it.
  kj::Promise<Result<void>> truncateTo(Offset offset);
  // Throws everything away and begins anew at `offset` (a follower that is wholly behind its leader's start).
  kj::Promise<Result<void>> restartAt(Offset offset);
  // Seals the active segment if it holds anything.
  Result<void> roll();
  // Deletes what retention.ms and retention.bytes allow now. The directory calls it regularly.
  void enforceRetention();

  // What happened to it since it was opened; the gauges are as of the last refreshMetrics().
  metrics::PartitionMetrics& metrics() { return metrics_; }
  void refreshMetrics();

 private:
  friend class ShardLogs;
  friend class LogShard;
  friend class Scrubber;
  friend class Compactor;

  // An append on its way from accepted to written.
  struct Pending {
    AppendRequest request;
    kj::Own<kj::PromiseFulfiller<Result<Appended>>> answer;
    bool checked = false;
    std::optional<Failure> refused;
    std::optional<Failure> withdrawn;
    MutableBytes stored;  // what is written: the request's bytes, or `rewritten`
    Buffer rewritten;
    record::BatchFacts facts;
    std::vector<MutableBytes> batches;  // of a replica's request
    Offset copiedEnd{0};                // behind the last of them
    WallMs now = kNoTimestamp;          // by this broker's clock
  };
  struct Queued {
    Bytes bytes;  // none: a duplicate of something queued
    BatchMark mark;
    int64_t records = 0;
    std::optional<ProducerState::Undo> undo;
    std::optional<AbortedTransaction> aborted;
    std::unique_ptr<Pending> pending;  // the append this was the last batch of
    Appended answer;
  };
  struct Held {
    std::unique_ptr<Segment> segment;
    WallMs firstAppend = kNoTimestamp;  // by this broker's clock
    WallMs lastAppend = kNoTimestamp;
    int64_t rollAfterMs = 0;
    WallMs firstTimestamp = kNoTimestamp;  // of its first batch, once it was asked for
    uint64_t replacement = 0;              // by which clean it was put here; 0: none
  };
  using Segments = std::map<Offset, Held>;

  Log(ShardLogs& home, TopicPartition name, TopicId topic, config::TopicSettings settings, RecoveredLog recovered);

  std::optional<Failure> unusable() const;

  // append
  void check(Pending& pending);
  void checkCopied(Pending& pending);
  void pump();
  void sequence(std::unique_ptr<Pending> pending);
  Result<void> queueBatch(std::unique_ptr<Pending>& pending, MutableBytes batch, bool last);
  std::optional<Failure> makeRoom(uint64_t bytes, OffsetRange batch);
  std::optional<Failure> noteGaps(Offset below);
  bool mustRoll(const Held& active, uint64_t bytes, Offset last);
  void makeDirectory();
  void openSegment(Offset base);
  void sealActive();
  void refuse(std::unique_ptr<Pending> pending, Failure failure);
  void flush();
  void takeBack(std::vector<Queued>& writes, Offset end, uint64_t size, const kj::Exception& reason);
  void endTurn();

  // sync
  Unsynced takeUnsynced() override;
  void synced() override;
  void syncFailed(const kj::Exception& reason) override;
  bool hasUnsynced() const;
  std::vector<FileRef> unsyncedFiles();
  void listAgainLater();
  void advanceDurable();
  void dropWaiters(Offset from, const kj::Exception& reason);
  void armFlushTimer();
  std::optional<Offset> durableMark() const;  // nullopt: the directory does not list it yet

  // files beside the segments
  void startSideWork();
  Co<void> sideWork();
  std::string path(std::string_view file) const { return context_.directory + "/" + std::string(file); }

  // segments
  Segments::iterator segmentOf(Offset offset);
  void ensureIndexes(Segment& segment);
  bool indexesReady(Segment& segment);
  void advanceStart(Offset start, kj::Own<kj::PromiseFulfiller<Result<Offset>>> answer);
  void storeStart(kj::Own<kj::PromiseFulfiller<Result<Offset>>> answer);  // answer may be null: nobody waits
  void dropSegmentsBelowStart();
  void unlinkLater(std::vector<std::string> paths);

  // room on a full disk
  struct Trimmable {
    WallMs lastAppend;
    uint64_t bytes;
    Offset end;
  };
  std::optional<Trimmable> trimmable() const;  // the oldest segment, if it may go before its time
  kj::Promise<bool> trimTo(Offset start);      // its files are unlinked at once; false: it could not be
  void expireProducers();

  // scrubbing
  struct ScrubTarget {
    uint64_t replacement = 0;
    std::string path;
    std::string directory;
    SegmentFacts facts;
    uint32_t indexInterval = 0;
    bool indexesChecked = false;
  };
  std::optional<Offset> firstSealed() const;
  std::optional<Offset> sealedAfter(Offset base) const;
  std::optional<ScrubTarget> sealedForScrub(Offset base) const;
  void indexesScrubbed(const SegmentFacts& facts, const IndexCounts& counts);
  void damageFound(const SegmentFacts& facts, OffsetRange batch, const std::string& problem);

  // compaction
  struct CleanRange {
    Offset dirty;        // from here on nothing has been cleaned
    Offset uncleanable;  // the base of the first segment that may not be
    uint64_t cleanBytes = 0;
    uint64_t dirtyBytes = 0;  // of [dirty, uncleanable)
    bool isLate = false;      // max.compaction.lag.ms is over for some of it
    double ratio() const {
      return static_cast<double>(dirtyBytes) / static_cast<double>(std::max<uint64_t>(cleanBytes + dirtyBytes, 1));
    }
  };
  Offset endOf(Segments::const_iterator segment) const;  // of what it stands for, gaps included
  WallMs ageOf(const Held& held) const;
  std::optional<WallMs> firstTimestamp(Held& held);
  void rollForCompaction();
  std::optional<CleanRange> cleanRange();                // nullopt: there is nothing to clean
  std::optional<CleanPlan> planClean(CleanRange range);  // nullopt: not now
  // Puts a group of a clean that was planned at `epoch` in place. False: the log has moved on, nothing was done.
  Co<bool> replaceSegments(const CleanedGroup& group, uint64_t epoch);
  bool isReplaceable(const CleanedGroup& group) const;
  bool isBusy(const CleanedGroup& group);
  void placeSegments(const CleanedGroup& group);
  Co<void> cleanedTo(Offset end);  // once all groups are in place

  // one at a time, appends wait
  Co<void> truncateNow(Offset offset, kj::Own<kj::PromiseFulfiller<Result<void>>> answer);
  Co<void> restartNow(Offset offset, kj::Own<kj::PromiseFulfiller<Result<void>>> answer);
  Co<void> removeSegmentsFrom(Offset base);
  Co<std::optional<Failure>> lowerMark(Offset mark);
  void finishCut(std::optional<Failure> failed, kj::PromiseFulfiller<Result<void>>& answer);
  Co<Result<TimestampedOffset>> timeLookUp(int64_t timestamp);

  // the end
  kj::Promise<void> whenIdle();
  void checkIdle();
  void goOffline(const std::string& reason);
  Co<void> close();    // to a clean stop
  Co<void> abandon();  // the partition is being removed: fails what waits, returns when nothing is in flight

  ShardLogs& home_;
  TopicPartition name_;
  TopicId topic_;
  config::TopicSettings settings_;
  SegmentContext context_;
  LogObserver* observer_ = nullptr;

  Segments segments_;  // the last one is active
  Offset start_{0};
  Offset storedStart_{0};   // what a crash would find
  size_t startStores_ = 0;  // under way
  Offset end_{0};
  Offset next_{0};
  Offset highWatermark_{0};
  uint64_t sealedBytes_ = 0;  // of all segments but the last
  ProducerState producers_;
  struct Guard {
    uint64_t number;
    uint32_t holders;
  };
  std::map<ProducerId, Guard> guards_;
  uint64_t lastGuard_ = 0;
  LeaderEpochs epochs_;
  metrics::PartitionMetrics metrics_;
  std::set<Offset> checking_;         // segments whose indexes a job looks at
  std::set<Offset> checkFailed_;      // and those where it failed
  std::map<Offset, Offset> damaged_;  // batches that scrubbing found: first → end

  std::deque<std::unique_ptr<Pending>> pending_;
  std::vector<Queued> writes_;
  uint64_t queuedBytes_ = 0;
  bool endsTurn_ = false;  // endTurn() will be called
  Offset announced_{0};    // the end that the observer knows

  Offset syncedEnd_{0};
  Offset durableEnd_{0};
  std::optional<OffsetRange> held_;  // page-cache: not durable before its sync, by flush.messages
  int64_t unsyncedRecords_ = 0;
  struct Taken {
    Offset base;
    uint64_t size;
  };
  std::vector<Taken> taken_;  // by the sync that is running
  Offset takenEnd_{0};
  bool syncing_ = false;  // a round has what takeUnsynced() gave
  std::vector<FileRef> newFiles_;
  bool hasDirectory_ = false;
  bool newDirectory_ = false;
  bool newNames_ = false;
  bool listed_ = false;
  bool listing_ = false;
  bool flushTimerArmed_ = false;
  std::multimap<Offset, kj::Own<kj::PromiseFulfiller<void>>> waiters_;

  bool sideWorking_ = false;
  bool epochsDirty_ = false;
  std::optional<Offset> epochsUnsavedFrom_;
  std::vector<std::pair<Offset, Buffer>> snapshots_;  // to be written
  std::vector<Offset> sealed_;                        // segments whose derived files are to be synced
  bool sideFull_ = false;                             // the last try to do so found no space

  Offset takenStable_{0};  // the last stable offset when the sync that is running began
  Offset syncedStable_{0};
  Offset cleanedTo_{0};              // everything below has been compacted once
  uint64_t cleanEpoch_;              // changes with every cut; unlike that of any other log of the shard
  uint64_t replacements_ = 0;        // cleans' groups put in place
  std::optional<Offset> gapsBelow_;  // what the file `compacted` says, once it was asked for
  // Segments with these bases are about to be replaced: nobody else may touch them.
  std::optional<OffsetRange> replacing_;
  std::optional<std::string> uncleanable_;                                  // why compaction leaves it alone
  std::shared_ptr<const bool> scrubbing_ = std::make_shared<const bool>();  // shared by jobs that read segments by name

  bool trimming_ = false;
  bool exclusive_ = false;
  std::optional<Offset> cutTo_;  // the durable mark stays at or below it until the cut is done
  bool changed_ = false;         // since the state on disk was last sealed by a clean stop
  bool closing_ = false;
  bool stopping_ = false;  // closing, and all but the last state beside the log is safe
  bool removed_ = false;
  size_t jobs_ = 0;  // on pools, using what is ours
  std::optional<std::string> offline_;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> idleWaiters_;
  Tasks tasks_;  // last: goes first
};

}  // namespace mq::storage
