// Partitions: the replicas that live on one shard. Each shard has one; all of them see every metadata image and each
// takes up the partitions that are its own.
#pragma once
#include <memory>
#include <vector>

#include "metadata/image.h"
#include "replica/partition.h"

namespace mq::replica {

// Which shard owns a partition: fixed for the life of the process, computed the same everywhere. Neighbouring
// partitions of a topic lie on neighbouring shards.
uint32_t shardOf(const TopicIdPartition& id, uint32_t shards);

struct WaitOn {
  TopicIdPartition partition;
  Offset from;  // wake when there is something to read at or after it
  Isolation isolation = Isolation::readUncommitted;
};

class Partitions {
 public:
  virtual ~Partitions() = default;

  // Null: this node holds no replica of it, or it is not on this shard, or it is still being opened.
  // The pointer is good until the end of the turn.
  virtual Partition* find(const TopicIdPartition& id) = 0;
  // Why find() was null: UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_TOPIC_ID, NOT_LEADER_OR_FOLLOWER, KAFKA_STORAGE_ERROR
  // (with the reason).
  virtual Failure whyMissing(const TopicIdPartition& id) = 0;

  // Long polls. Resolves when `bytesWanted` more bytes have become readable in the given partitions together, when one
  // of them is deleted, loses its leader or fails, when `atMost` has passed, or when cancelled. `token` is the
  // caller's, unique in the node; since a dropped Shard::call does not stop what it called, a fetch that ends early
  // cancels its waits.
  virtual kj::Promise<void> waitForData(uint64_t token, std::vector<WaitOn> partitions, uint64_t bytesWanted,
                                        Duration atMost) = 0;
  virtual void cancelWait(uint64_t token) = 0;

  // For DescribeLogDirs and metrics.
  struct Usage {
    TopicPartition name;
    TopicIdPartition id;
    uint64_t bytes = 0;
  };
  virtual std::vector<Usage> usage() = 0;
};

}  // namespace mq::replica
