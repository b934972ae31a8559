// ShardLogs: the Logs of one shard, what they share, and how they reach the log directory on shard 0. What LogShard
// shows of it is for the modules above; this is for Log. Inside storage/ only. Belongs to its shard and outlives its
// Logs.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "record/compression.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"
#include "storage/file_cache.h"
#include "storage/log.h"
#include "storage/log_directory.h"
#include "storage/log_directory_state.h"
#include "storage/options.h"
#include "storage/steady_wall.h"
#include "storage/sync_rounds.h"

namespace mq::storage {

class Compactor;
class Scrubber;

class ShardLogs {
 public:
  ShardLogs(Shard& shard, LogDirectory::State& directory);
  ~ShardLogs();
  KJ_DISALLOW_COPY(ShardLogs);

  // --- for LogShard
  kj::Promise<Result<Log*>> open(TopicPartition name, TopicId topic, config::TopicSettings settings);
  kj::Promise<void> remove(TopicPartition name, TopicId topic);
  kj::Promise<void> close();

  size_t uncleanable() const;

  // --- for the directory
  void tune(const Tuning& tuning);
  // Deletes the oldest sealed segments, `wanted` bytes of them or a little more; resolves when they are off the disk.
  kj::Promise<void> trim(uint64_t wanted);

  // --- for Log: what the directory on shard 0 keeps. Each resolves when it is durable.
  kj::Promise<void> list(TopicPartition name, TopicId topic);
  kj::Promise<void> storeStart(TopicPartition name, Offset start);
  kj::Promise<void> storeMark(TopicPartition name, Offset mark);
  kj::Promise<void> storeCleaned(TopicPartition name, Offset cleanedTo);
  void markMoved();  // a durable mark has moved by a whole segment: it is stored soon
  // An I/O error that is not lack of space: the directory goes offline, for all shards.
  void diskFailed(const std::string& what, const kj::Exception& reason);
  void goOffline(const std::string& reason);

  // One of the cleans that may run in the node at a time; give it back. False: all are taken.
  kj::Promise<bool> takeClean();
  void giveClean(bool cleaned);
  void tellDirty(uint32_t percent);  // the dirty part of the dirtiest log

  void flushAtEndOfTurn(Log& log);
  void forget(Log& log);

  // A workspace for a job on a pool; give it back for the next.
  std::unique_ptr<record::Workspace> takeWorkspace();
  void giveBack(std::unique_ptr<record::Workspace> workspace);

  Shard& shard;
  const Options options;
  Tuning tuning;
  FileCache files;
  SyncRounds syncs;
  record::Workspace workspace;  // for work on the loop
  SteadyWall wall;
  LogShard::Figures figures;
  bool writable = true;
  size_t unlinking = 0;  // jobs of trim()
  uint64_t cleanEpochs = 0;
  std::optional<std::string> offline;
  std::vector<std::function<void(const std::string&)>> offlineCalls;
  std::map<TopicPartition, std::unique_ptr<Log>> logs;

 private:
  Co<void> openNow(TopicPartition name, TopicId topic, config::TopicSettings settings,
                   kj::PromiseFulfiller<Result<Log*>>& answer);
  Co<void> removeNow(TopicPartition name, TopicId topic);
  Co<void> closeNow();
  Co<void> storeMarksRegularly();
  Co<void> syncPageCacheRegularly();
  Co<void> enforceRetentionRegularly();
  Co<void> expireProducersRegularly();
  Co<void> trimNow(uint64_t wanted);
  std::vector<std::pair<TopicPartition, Offset>> movedMarks();
  void endTurn();

  LogDirectory::State& directory_;
  std::map<TopicPartition, Offset> sentMarks_;
  std::vector<Log*> toFlush_;
  std::vector<std::unique_ptr<record::Workspace>> idle_;
  bool turnEnds_ = false;
  bool marksSoon_ = false;
  uint32_t dirtyPercent_ = 0;
  std::unique_ptr<Scrubber> scrubber_;
  std::unique_ptr<Compactor> compactor_;
  Tasks tasks_;
};

}  // namespace mq::storage
