// The clients of a simulated cluster: producers, readers, an administrator, and the reader of the end.
//
// Each runs until it is told to stop and retries for ever: a fault may slow it down, never end it. What it learns goes
// into the History. All live in one process of their own, which no fault touches.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "cluster_client.h"
#include "history.h"
#include "runtime/shard.h"

namespace mq::sim {

struct Workload {
  Shard& shard;
  std::vector<Address> brokers;
  History& history;
  Prng random;  // each actor forks its own
  bool stopping = false;
  int partitions = 2;    // of each topic
  int16_t replicas = 1;  // of each partition
  bool singles = false;  // some topics have one replica nevertheless
  uint32_t nextProducer = 0;
  uint64_t retries = 0, duplicatesAnswered = 0, deletedTopics = 0, trims = 0, belowMinInSync = 0;
};

// Sends rounds of batches, several under way at a time, and goes on with the next round when all are acknowledged.
Co<void> produceUntilStopped(Workload& workload, bool idempotent);
// Reads all partitions of all topics from the beginning, again and again.
Co<void> readUntilStopped(Workload& workload);
// Makes topics, deletes some, trims, changes settings.
Co<void> administerUntilStopped(Workload& workload, int topicsMax);
Co<void> createTopic(Workload& workload, ClusterClient& client, std::string name);
// When all is healed: the end of what was committed. A new leader tells it only once it knows it, though its high
// watermark is lower at first.
Co<int64_t> latestOffset(Workload& workload, ClusterClient& client, TopicPartition partition);
// What the cluster holds, read from the log starts to the high watermarks.
Co<std::map<TopicPartition, FinalPartition>> readAll(Workload& workload);

}  // namespace mq::sim
