// Partition: this node's replica of one partition, and the only way handlers and coordinators reach a log.
//
// It belongs to one shard (see shardOf) and is touched only there; other shards go through Shard::call. It knows
// leadership, epochs and the high watermark; what bytes are and where they lie is storage's business.
//
//   log start ≤ last stable offset ≤ high watermark ≤ durable end (of every in-sync replica) ≤ log end
//
// The leader's high watermark is the least durable end over the in-sync replicas and those that are proposed
// (followers.h); it stands still while fewer are in sync than min.insync.replicas asks for (KIP-966), and never moves
// back. A follower's is its leader's, as far as its own log goes. A new leader begins with the one that it knew as a
// follower; one that was started knows none, and begins at its log start unless nobody else has to be asked.
//
// Consumers see records below the high watermark; read_committed ones below the last stable offset, which is the first
// offset of the oldest transaction that is still open (or decided but not yet below the high watermark).
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kj/async.h>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "config/topic_settings.h"
#include "metadata/image.h"
#include "metrics/registry.h"
#include "record/validate.h"
#include "replica/followers.h"
#include "replica/replication.h"
#include "runtime/file.h"
#include "runtime/shard.h"
#include "storage/log.h"

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
  bool followerMayServe = false;                    // a consumer that may read from a replica near it (KIP-392)
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

class Partition final : private storage::LogObserver, public std::enable_shared_from_this<Partition> {
 public:
  // Told when more can be read, and when something changed that a waiting fetch must hear of.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void readable(Partition& partition, uint64_t bytes) = 0;  // about so many more
    virtual void changed(Partition& partition) = 0;                   // deleted, offline, another leader or epoch
    virtual void startMoved(Partition& partition) = 0;                // followers are to follow
    // A leader with followers:
    virtual void written(Partition& partition) = 0;       // its log end moved
    virtual void lags(Partition& partition) = 0;          // an in-sync follower is behind, or something is proposed
    virtual void hasCandidate(Partition& partition) = 0;  // a follower may come into the ISR
    // A follower:
    virtual void followAnew(Partition& partition) = 0;   // from its place as it is now; see followPlace()
    virtual void durableHere(Partition& partition) = 0;  // its durable end or start moved
  };

  Partition(Shard& shard, TopicIdPartition id, TopicPartition name, NodeId self, storage::Log& log, Watcher& watcher);
  ~Partition();
  KJ_DISALLOW_COPY(Partition);

  const TopicPartition& name() const { return name_; }
  const TopicIdPartition& id() const { return id_; }
  bool isLeader() const { return leader_ == self_; }
  LeaderEpoch leaderEpoch() const { return leaderEpoch_; }
  int32_t partitionEpoch() const { return followers_.partitionEpoch(); }
  NodeId leader() const { return leader_; }
  Offset logStart() const;
  Offset logEnd() const;
  Offset highWatermark() const { return highWatermark_; }
  Offset lastStableOffset() const;
  uint64_t sizeBytes() const;
  // Set: every call answers KAFKA_STORAGE_ERROR, for this reason.
  const std::optional<std::string>& offlineReason() const;

  // Appends one batch from a client. Calls take effect in call order. The caller keeps `batch` alive and untouched
  // until the promise has resolved (offsets and, for LogAppendTime, times are written into it); dropping the promise
  // does not cancel the append, so a caller that stops waiting must keep both. Resolves when the acknowledgement is
  // due:
  //   none    once written;   leader  once durable here;   all  once the high watermark has passed it,
  // where durable means synced under durability=fsync and written under page-cache. Errors are Kafka's for Produce.
  // `recordErrors`, if given, lives as long as the batch and gets the records that alone made it be refused.
  // `origin`: a client, or one of our own coordinators. `guard`: see guardTransaction().
  kj::Promise<Result<Produced>> append(MutableBytes batch, Acks acks,
                                       std::vector<record::RecordError>* recordErrors = nullptr,
                                       storage::Origin origin = storage::Origin::client, uint64_t guard = 0);

  // Before a producer's first batch of a transaction here; as those of storage::Log.
  uint64_t guardTransaction(ProducerId producer, int16_t epoch);
  void dropGuard(ProducerId producer, uint64_t guard);
  bool isInTransaction(ProducerId producer, int16_t epoch) const;
  bool admitsTransaction(ProducerId producer, int16_t epoch, uint64_t guard) const;
  Result<void> mayEnd(const storage::ProducerMarker& marker, bool strict) const;
  // Resolves once the high watermark has reached `end`.
  kj::Promise<Result<void>> whenCommitted(Offset end);

  Fetched fetch(const Fetch& request);

  kj::Promise<Result<FoundOffset>> findOffset(int64_t timestamp, Isolation isolation, LeaderEpoch currentLeaderEpoch);
  struct EpochEnd {
    LeaderEpoch epoch = kNoLeaderEpoch;
    Offset end{-1};
  };
  Result<EpochEnd> epochEnd(LeaderEpoch epoch, LeaderEpoch currentLeaderEpoch);

  // Moves the log start to `before` (-1: the high watermark). Resolves with the new log start once that is durable at
  // every in-sync replica: whoever leads next does not show the records again.
  kj::Promise<Result<Offset>> deleteRecords(Offset before);

  Result<std::vector<ActiveProducer>> producers();

  // --- a leader and its followers (sessions of Partitions)

  // What the follower hears of the partition, from the place that it named: an error, a divergence, bytes up to the log
  // end, or none of these. unknownLeaderEpoch: not yet, ask again when something has changed. `isNew`: the place was
  // not looked at before; if it lies in our log it counts from now on.
  Followed follow(const FollowerId& who, const FollowPlace& place, bool isNew, uint32_t bytesMax, bool firstBatchWhole);
  void report(const FollowerId& who, const DurableReport& report);
  void followerGone(const FollowerId& who);

  // --- the in-sync replicas (InSync)

  // As they should be, if that is worth a proposal now.
  std::optional<std::vector<NodeId>> wantedInSync(
      Duration lagMax, const std::function<bool(NodeId node, const Uuid& incarnation)>& mayEnter) const;
  void proposeInSync(const std::vector<NodeId>& isr);
  void inSyncAnswered(LeaderEpoch leaderEpoch, int32_t partitionEpoch, Followers::Outcome outcome, Duration backoff);
  // Whether time may have something to say; false ends the watch that Watcher::lags() began.
  bool isInSyncWatched();
  const Followers& followers() const { return followers_; }

  // --- a follower and its leader (Fetcher)

  // Set: there is a leader to follow, and from where.
  std::optional<FollowPlace> followPlace() const;
  enum class Next : uint8_t {
    ask,    // named anew: the place has moved
    stay,   // as it is
    later,  // named anew after a back-off
  };
  // Takes what the leader said to the place of that epoch. Resolves when the bytes are written. A log that has to be
  // cut first says followAnew() when that is done.
  kj::Promise<Next> replicate(Followed news, std::shared_ptr<void> buffer);

  // --- the owner's side (Partitions)
  // A cut that is under way comes to its end first: until then the partition stays what it was, a follower.
  void setAssignment(const metadata::Partition& assignment);
  void setSettings(const config::TopicSettings& settings);
  void show(metrics::Registry& registry);  // its metrics, until stop()
  // Ends every wait; afterwards the log is not touched any more.
  void stop(const Failure& why);

 private:
  struct Waiting {
    Offset end;
    kj::Own<kj::PromiseFulfiller<void>> passed;  // or over for another reason: who waits looks
  };

  void written(Offset end) override;
  void readable() override;
  void durable(Offset end) override;
  void startMoved(Offset start) override;
  void wentOffline(const std::string& reason) override;
  void foundDamage(OffsetRange batch) override;

  // none, or why a client cannot be served with its idea of the leader epoch (-1: it has none).
  Error unserved(LeaderEpoch currentLeaderEpoch) const;
  Error epochProblem(LeaderEpoch currentLeaderEpoch) const;
  std::optional<Failure> lost(uint64_t reign) const;
  size_t inSyncNeeded() const { return config::inSyncNeeded(settings_, replicas_.size()); }
  // Where the records of an epoch end here, of our leader epoch or an earlier one; -1: nothing is known of it.
  EpochEnd boundaryOf(LeaderEpoch epoch) const;
  bool isFollower() const { return !stopped_ && leader_ != self_ && leader_ != kNoNode; }
  void endWaits();
  void lookAtFollowers(bool mayEnter);
  OffsetRange wantedOfFollowers() const;
  void setHighWatermark(Offset next);
  void followHighWatermark();
  void followStart();
  void cutTo(Offset end);
  void beginAt(Offset start);
  void cutDone(const Result<void>& outcome);
  void advanceHighWatermark();
  kj::Promise<void> whenHighWatermark(Offset end);
  kj::Promise<void> whenAllBeginAt(Offset start);
  void releaseDeletions();
  Failure notYet() const;
  Offset readableEnd(Isolation isolation) const;
  std::vector<AbortedTransaction> abortedIn(const storage::LogSlice& slice, Offset upTo);

  const TopicIdPartition id_;
  const TopicPartition name_;
  Shard& shard_;
  const NodeId self_;
  storage::Log* log_;  // null once stopped
  Watcher& watcher_;
  std::optional<Failure> stopped_;

  NodeId leader_ = kNoNode;
  LeaderEpoch leaderEpoch_ = kNoLeaderEpoch;
  std::vector<NodeId> replicas_;
  config::TopicSettings settings_;

  // As leader.
  uint64_t reign_ = 0;    // grows when leadership is lost: what waited in an earlier one will not come to be
  Offset epochStart_{0};  // our log's end when the leader epoch began
  Followers followers_;
  bool isWatched_ = false;
  Instant proposeAfter_;

  // As follower.
  Offset leaderHighWatermark_{-1};
  Offset leaderStart_{-1};
  Offset durableStart_{0};  // of our log, at least
  bool isMovingStart_ = false;
  bool isCutting_ = false;
  std::optional<metadata::Partition> nextAssignment_;  // that came meanwhile

  Offset highWatermark_{0};
  uint64_t readableBytes_ = 0;   // of the log when the high watermark last moved
  std::deque<Waiting> waiting_;  // by end, ascending
  std::deque<Waiting> deletions_;
  metrics::Registration shown_;
};

}  // namespace mq::replica
