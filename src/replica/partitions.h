// Partitions: the replicas that live on one shard. Each shard has one; all of them see every metadata image and each
// takes up the partitions that are its own.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "config/broker_settings.h"
#include "controller/metadata_feed.h"
#include "metadata/image.h"
#include "metrics/registry.h"
#include "replica/following.h"
#include "replica/in_sync.h"
#include "replica/partition.h"
#include "replica/reader.h"
#include "replica/served_follower.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"
#include "storage/log_directory.h"

namespace mq::replica {

// Which shard owns a partition: fixed for the life of the process, computed the same everywhere. Neighbouring
// partitions of a topic lie on neighbouring shards.
uint32_t shardOf(const TopicIdPartition& id, uint32_t shards);

struct WaitOn {
  TopicIdPartition partition;
  // Where the readable bytes ended when the caller looked: the high watermark it got, or for read_committed the last
  // stable offset. If they end elsewhere by now the wait is over at once.
  Offset end;
  Isolation isolation = Isolation::readUncommitted;
};

// How a node of a cluster reaches the others; each shard has its own.
struct Peers {
  LeaderSessions* leaders = nullptr;  // null: nothing is followed
  ProposeInSync propose;              // none: the in-sync replicas stay as they are
};

class Partitions final : private Partition::Watcher, private ServedFollower::Home {
 public:
  Partitions(Shard& shard, NodeId self, config::BrokerConfig config, storage::LogShard& logs,
             controller::MetadataFeed& feed, metrics::Registry& metrics);
  ~Partitions() noexcept;
  KJ_DISALLOW_COPY(Partitions);

  // Once, at any time before close(): until then nothing is followed or proposed. What `peers` points at outlives
  // close().
  void connect(Peers peers);
  // A session of a follower on this shard. The session may outlive this object, and is over then.
  kj::Own<FollowerSession> serveFollower(Follower who);

  // Null: this node holds no replica of it, or it is not on this shard, or it is still being opened. The pointer is
  // good until the end of the turn; what it returns as a promise is good for longer.
  Partition* find(const TopicIdPartition& id);
  // Why find() was null: UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR (with the reason).
  Failure whyMissing(const TopicIdPartition& id) const;

  // Long polls. Resolves when `bytesWanted` more bytes have become readable in the given partitions together, when one
  // of them is deleted, loses its leader or fails, when `atMost` has passed, or when cancelled. `token` is the
  // caller's, unique in the node; since a dropped Shard::call does not stop what it called, a fetch that ends early
  // cancels its waits.
  kj::Promise<void> waitForData(uint64_t token, std::vector<WaitOn> partitions, uint64_t bytesWanted, Duration atMost);
  void cancelWait(uint64_t token);

  // The same for who follows many partitions over many fetches, of which few have news at a time. `token` is the
  // caller's, unique in the node; the reader is made by the first look and lives until endReader(). Of a partition that
  // is not here (any more) a look tells whyMissing(), until the caller drops it.
  struct ReaderChanges {
    std::vector<Reader::Place> named;  // new, or to be read from elsewhere
    std::vector<TopicIdPartition> dropped;
    std::vector<TopicIdPartition> served;  // their bytes were sent, so they come last now
  };
  // What the reader should hear of since its last look. `bytesMax`: of all of them, as for Partition::fetch.
  std::vector<Reader::Found> look(uint64_t token, const ReaderChanges& changes, uint64_t bytesMax);
  // Until bytesWanted more than the last look saw are readable, or as waitForData(). cancelWait() ends it too.
  kj::Promise<void> waitForNews(uint64_t token, uint64_t bytesWanted, Duration atMost);
  void endReader(uint64_t token);
  size_t readerCount() const { return readers_.size(); }

  // Ends every wait and every later one at once: the node is stopping.
  void stopWaiting();

  // Lets go of every log: before LogShard::close().
  void close();

  // For DescribeLogDirs.
  struct Usage {
    TopicPartition name;
    TopicIdPartition id;
    uint64_t bytes = 0;
    bool offline = false;
  };
  std::vector<Usage> usage() const;
  struct Counts {
    size_t held = 0;
    size_t led = 0;
    size_t offline = 0;  // cannot be served: damaged, could not be opened, or the directory failed
    uint64_t bytes = 0;  // of their logs
  };
  Counts counts() const;

  // Resolves when every partition of the present image is open or has failed to open.
  kj::Promise<void> whenOpened();
  struct Progress {
    size_t opened = 0;
    size_t total = 0;
  };
  Progress progress() const {
    return {partitions_.size() + failed_.size(), partitions_.size() + failed_.size() + opening_.size()};
  }

 private:
  struct Wait {
    uint64_t bytesWanted;
    std::vector<TopicIdPartition> partitions;
    kj::Own<kj::PromiseFulfiller<void>> done;
  };

  void readable(Partition& partition, uint64_t bytes) override;
  void changed(Partition& partition) override;
  void startMoved(Partition& partition) override;
  void written(Partition& partition) override;
  void lags(Partition& partition) override;
  void hasCandidate(Partition& partition) override;
  void followAnew(Partition& partition) override;
  void durableHere(Partition& partition) override;

  Partition* partitionOf(const TopicIdPartition& id) override { return find(id); }
  const metadata::Image& image() const override { return *image_; }
  void hear(const TopicIdPartition& id, ServedFollower& session) override;
  void hearNoMore(const TopicIdPartition& id, ServedFollower& session) override;
  void recognised(ServedFollower& session) override;
  void forget(ServedFollower& session) override;
  Co<void> endSilentSessions();
  void tellFollowers(const TopicIdPartition& id, bool isUrgent);
  bool isHeldHere(const metadata::Partition* assignment) const;

  void follow(const metadata::ImageRef& image, const metadata::Delta& delta);
  void take(const metadata::Topic& topic, int32_t index);
  void drop(const metadata::Topic& topic, int32_t index, Error why);
  kj::Promise<void> remove(TopicIdPartition id, TopicPartition name);
  void applySettings(const std::string& topic);
  kj::Promise<void> open(TopicIdPartition id, TopicPartition name);
  config::TopicSettings settingsOf(std::string_view topic) const;
  void wake(uint64_t token);
  void checkOpened();

  Shard& shard_;
  const NodeId self_;
  const config::BrokerConfig started_;  // as the process was started
  config::BrokerConfig config_;         // with the dynamic values
  storage::LogShard& logs_;
  metrics::Registry& metrics_;
  metadata::ImageRef image_;

  std::map<TopicIdPartition, std::shared_ptr<Partition>> partitions_;
  std::map<TopicIdPartition, Failure> failed_;  // could not be opened
  std::set<TopicIdPartition> opening_;
  std::set<TopicIdPartition> removing_;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> whenOpened_;

  // Who wants to hear of a partition, by token.
  struct Audience {
    std::set<uint64_t> waits;
    std::set<uint64_t> readers;
    std::set<uint64_t> followers;
  };
  Audience* audienceOf(const TopicIdPartition& id);
  void leave(const TopicIdPartition& id, std::set<uint64_t> Audience::* part, uint64_t token);

  std::map<uint64_t, Wait> waits_;
  std::map<uint64_t, Reader> readers_;
  std::map<TopicIdPartition, Audience> audiences_;
  std::map<uint64_t, ServedFollower*> sessions_;  // of followers
  uint64_t lastSession_ = 0;
  bool stopping_ = false;

  Peers peers_;
  std::unique_ptr<InSync> inSync_;
  std::unique_ptr<Following> following_;
  Tasks tasks_;
  kj::Own<void> subscription_;  // last: follow() is not called once this is gone
};

}  // namespace mq::replica
