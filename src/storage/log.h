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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kj/async.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "config/topic_settings.h"
#include "runtime/file.h"

namespace mq::storage {

class LogShard;
struct AbortedTransaction;  // transaction_index.h

enum class Origin : uint8_t {
  client,       // a producer: fully validated; offsets, epoch, times are ours to give
  coordinator,  // our own group or transaction coordinator: also control batches; validated as structure only
  replica,      // copied from the leader: one or more whole batches that carry their offsets and epochs
};

struct AppendRequest {
  MutableBytes bytes;  // one batch (replica: one or more); see append() for how long they must live
  Origin origin = Origin::client;
  LeaderEpoch leaderEpoch;  // stamped into the batch; replica: unused
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
  Offset base;        // of the first batch; may be below the offset asked for
  bool cold = false;  // in a sealed segment that was not read lately: its pages may need the disk
};

struct TimestampedOffset {
  Offset offset{-1};
  WallMs timestamp = kNoTimestamp;
  LeaderEpoch epoch = kNoLeaderEpoch;
};

struct EpochEnd {
  LeaderEpoch epoch = kNoLeaderEpoch;  // the largest epoch ≤ the one asked for
  Offset end{-1};                      // where the next epoch starts, or the log end
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
  virtual void durable(Offset end) = 0;                     // the durable end moved
  virtual void startMoved(Offset start) = 0;                // by retention or deleteRecordsTo
  virtual void wentOffline(const std::string& reason) = 0;  // every call answers KAFKA_STORAGE_ERROR from now on
  virtual void foundDamage(OffsetRange batch) = 0;          // by scrubbing: the batch is not served any more
};

class Log {
 public:
  ~Log();
  KJ_DISALLOW_COPY(Log);

  const TopicPartition& name() const;
  const TopicId& topic() const;
  void observe(LogObserver* observer);  // null: nobody. The observer outlives the log or calls observe(nullptr).

  Offset start() const;
  Offset end() const;  // written
  Offset durableEnd() const;
  uint64_t sizeBytes() const;
  size_t segmentCount() const;
  LeaderEpoch lastEpoch() const;                            // of the last batch; -1: none
  const std::optional<std::string>& offlineReason() const;  // set: unusable, and why

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
  // Resolves once durableEnd() >= end. Rejects when the log goes offline, is truncated below `end`, or is removed.
  kj::Promise<void> whenDurable(Offset end);

  // The records of [from, upTo), as whole batches of one segment, at most bytesMax of them; with atLeastOne the first
  // batch even if it is larger. No bytes when from == min(upTo, end()). OFFSET_OUT_OF_RANGE below start() and above
  // end(); CORRUPT_MESSAGE when `from` is in a batch that scrubbing found damaged.
  Result<LogSlice> read(Offset from, uint32_t bytesMax, Offset upTo, bool atLeastOne);
  // Every aborted transaction that overlaps [first, end).
  Result<std::vector<AbortedTransaction>> abortedTransactions(Offset first, Offset end);
  // min(highWatermark, first offset of the oldest transaction that is open or whose marker is not below highWatermark).
  Offset lastStableOffset(Offset highWatermark) const;
  // The first record with a timestamp >= the one given; offset -1: none. The special timestamps above; latest is end(),
  // so callers that mean the high watermark ask themselves.
  kj::Promise<Result<TimestampedOffset>> offsetForTime(int64_t timestamp);
  EpochEnd epochEnd(LeaderEpoch epoch) const;
  std::vector<ProducerView> producers() const;

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

 private:
  friend class LogShard;
  struct AbortedTransaction;  // transaction_index.h
  struct Parts;               // log_parts.h
  explicit Log(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace mq::storage
