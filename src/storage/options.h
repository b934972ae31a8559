// Options of storage/ for one node: what is not a topic's setting. The broker fills it from its own settings.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "base/types.h"

namespace mq::storage {

// What can be changed while logs are open: LogDirectory::tune().
struct Tuning {
  uint64_t freeBytesMin = 1_GiB;         // the floor: with less free disk, appends are refused; 0: no floor
  uint32_t freePercentMin = 5;           // the smaller of the two floors counts
  bool trim = false;                     // below the floor the oldest sealed segments are deleted before their time
  uint64_t scrubBytesPerSecond = 4_MiB;  // of one shard; 0: no scrubbing
  uint32_t cleansMax = 1;                // compactions of the node at a time; 0: none
  Duration cleanBackoff = 15s;           // after looking for what to compact in vain
  double cleanBytesPerSecond = 1e18;     // read and written, of one compaction
  uint64_t cleanMapBytes = 128_MiB;      // memory for the keys of one
  double cleanLoadFactor = 0.9;          // how full it may get
  size_t cleanIoBytes = 256_KiB;         // of each buffer of one
};

struct Options {
  std::string path;                     // the data directory
  std::vector<std::string> otherNames;  // entries of the data directory that belong to other modules ("metadata")

  Tuning tuning;                   // at the start
  uint64_t reserveBytes = 16_MiB;  // a file that is given up when the disk is full at start; 0: none
  Duration spaceCheckInterval = 1s;

  Duration markInterval = 3s;            // the durable marks of what changed are written this often
  Duration pageCacheSyncInterval = 30s;  // under page-cache: how often the unsynced is synced behind the appends' back
  uint32_t syncParallel = 4;             // syncs of one shard in flight at a time

  Duration retentionInterval = 300s;     // Kafka's log.retention.check.interval.ms
  Duration producerExpiration = 86400s;  // Kafka's producer.id.expiration.ms
  Duration producerCheckInterval = 600s;
  uint32_t openFilesMax = 512;  // of one shard's logs

  // The indexes of a larger segment are looked at on a pool before its first read.
  uint64_t inlineCheckBytesMax = 64_MiB;

  Duration scrubPassMin = 10s;  // from the beginning of one pass over all sealed segments to that of the next
};

}  // namespace mq::storage
