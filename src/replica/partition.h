// Partition: this node's replica of one partition, and the only way handlers and coordinators reach a log.
//
// It belongs to one shard (see shardOf) and is touched only there; other shards go through Shard::call. It knows
// leadership, epochs and the high watermark; what bytes are and where they lie is storage's business.
//
//   log start ≤ last stable offset ≤ high watermark ≤ durable end (of every in-sync replica) ≤ log end
//
// Consumers see records below the high watermark; read_committed ones below the last stable offset, which is the first
// offset of the oldest transaction that is still open (or decided but not yet below the high watermark).
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include <kj/async.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "runtime/file.h"

namespace mq::replica {

enum class Acks : int16_t { none = 0, leader = 1, all = -1 };
enum class Isolation : int8_t { readUncommitted = 0, readCommitted = 1 };

struct Produced {
  Offset baseOffset;
  WallMs logAppendTime = kNoTimestamp;  // set for LogAppendTime topics
  Offset logStart;
};

struct Fetch {
  Offset from;
  uint32_t bytesMax = 0;         // of this partition
  bool firstBatchWhole = false;  // answer one batch even if it alone is over bytesMax (KIP-74)
  Isolation isolation = Isolation::readUncommitted;
  LeaderEpoch currentLeaderEpoch = kNoLeaderEpoch;  // the client's idea; checked unless -1 (KIP-320)
  LeaderEpoch lastFetchedEpoch = kNoLeaderEpoch;    // for divergence checks; -1: none
};

struct AbortedTransaction {
  ProducerId producer;
  Offset first;
};

// What a fetch of one partition found. The slice pins its file; it may cross shards. Offsets are -1 when not known.
struct Fetched {
  Error error = Error::none;
  Offset highWatermark{-1};
  Offset lastStableOffset{-1};
  Offset logStart{-1};
  FileRef file;           // null: no bytes
  uint64_t position = 0;  // whole batches [position, position + length) of the file
  uint32_t length = 0;
  uint8_t codecs = 0;  // bit n: a batch with codec n may be inside (0 none .. 4 zstd); 0 when not known
  std::vector<AbortedTransaction> aborted;  // read_committed: every aborted transaction that overlaps the bytes
  struct {
    LeaderEpoch epoch = kNoLeaderEpoch;
    Offset end{-1};
  } diverging;                               // set: the reader must truncate
  LeaderEpoch leaderEpoch = kNoLeaderEpoch;  // ours; sent with NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
  NodeId leader = kNoNode;
};

// Special timestamps of ListOffsets.
enum class Position : int64_t {
  latest = -1,
  earliest = -2,
  maxTimestamp = -3,
  earliestLocal = -4,
  latestTiered = -5,
  earliestPendingUpload = -6,
};

struct FoundOffset {
  Offset offset{-1};  // -1: no record is that young
  WallMs timestamp = kNoTimestamp;
  LeaderEpoch epoch = kNoLeaderEpoch;
};

struct ActiveProducer {  // as DescribeProducers lists it
  ProducerId id;
  int16_t epoch = -1;
  int32_t lastSequence = -1;
  WallMs lastTimestamp = kNoTimestamp;
  int32_t coordinatorEpoch = -1;
  Offset transactionStart{-1};
};

class Partition {
 public:
  virtual ~Partition() = default;

  virtual const TopicPartition& name() const = 0;
  virtual const TopicIdPartition& id() const = 0;
  virtual LeaderEpoch leaderEpoch() const = 0;
  virtual Offset logStart() const = 0;
  virtual Offset logEnd() const = 0;
  virtual Offset highWatermark() const = 0;
  virtual Offset lastStableOffset() const = 0;
  virtual uint64_t sizeBytes() const = 0;

  // Appends one batch from a client. Calls take effect in call order. The caller keeps `batch` alive and untouched
  // until the promise has resolved (offsets and, for LogAppendTime, times are written into it); dropping the promise
  // does not cancel the append, so a caller that stops waiting must keep both. Resolves when the acknowledgement is
  // due:
  //   none    once written;   leader  once durable here;   all  once the high watermark has passed it,
  // where durable means synced under durability=fsync and written under page-cache. Errors are Kafka's for Produce.
  virtual kj::Promise<Result<Produced>> append(MutableBytes batch, Acks acks) = 0;

  virtual Fetched fetch(const Fetch& request) = 0;

  virtual kj::Promise<Result<FoundOffset>> findOffset(int64_t timestamp, Isolation isolation,
                                                      LeaderEpoch currentLeaderEpoch) = 0;
  struct EpochEnd {
    LeaderEpoch epoch = kNoLeaderEpoch;
    Offset end{-1};
  };
  virtual Result<EpochEnd> epochEnd(LeaderEpoch epoch, LeaderEpoch currentLeaderEpoch) = 0;

  // Moves the log start to `before` (-1: the high watermark). Resolves with the new log start once that is durable.
  virtual kj::Promise<Result<Offset>> deleteRecords(Offset before) = 0;

  virtual Result<std::vector<ActiveProducer>> producers() = 0;
};

}  // namespace mq::replica
