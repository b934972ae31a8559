// What LogDirectory keeps on shard 0, as its LogShards reach it: every method is called by tasks on shard 0. Inside
// storage/ only.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "runtime/tasks.h"
#include "storage/checkpoint.h"
#include "storage/log_directory.h"

namespace mq::storage {

class ShardLogs;

// What a LogShard needs to know to open a partition.
struct OpenTicket {
  bool files = false;   // there may be some
  bool listed = false;  // there must be some
  bool clean = false;
  Offset mark{0};
  Offset start{0};
  Offset cleanedTo{0};
};

struct LogDirectory::State {
  State(Shard& shard0, Options options);

  // --- opening; blocking
  void claim(const DirectoryOwner& owner);
  void adopt(const Uuid& cluster);
  void readLists();
  void survey();
  void startTasks();

  // --- for LogShards
  void join(ShardLogs& logs);
  Co<void> leave(uint32_t shard, std::vector<TopicPartition> closed);
  Co<OpenTicket> prepareOpen(TopicPartition name, TopicId topic);
  kj::Promise<void> list(TopicPartition name, TopicId topic);
  Co<void> removePartition(TopicPartition name, TopicId topic);
  kj::Promise<void> storeStart(TopicPartition name, Offset start);
  kj::Promise<void> storeMark(TopicPartition name, Offset mark);
  kj::Promise<void> storeCleaned(TopicPartition name, Offset cleanedTo);
  bool takeClean();
  void giveClean(bool cleaned);
  void noteMarks(std::vector<std::pair<TopicPartition, Offset>> moved);
  void forgetOffsets(const TopicPartition& name);
  void goOffline(const std::string& reason);

  Co<void> settleUnknown(std::function<bool(const TopicId&)> wasDeleted);
  Co<void> close();

  // --- inside
  std::string path(std::string_view name) const { return options.path + "/" + std::string(name); }
  uint64_t floorBytes(const DiskSpace& space) const;
  uint64_t reserveBytes(const DiskSpace& space) const;
  kj::Promise<void> stored();  // resolves when every change made so far is on disk
  Co<void> writeChanges();
  Co<void> watchSpace();
  Co<void> trim(uint64_t bytes);
  size_t unrecovered() const;
  Co<void> unlinkDirectory(std::string name);
  Co<void> quarantine(std::string name);
  Co<bool> renameDurably(std::string from, std::string to);
  Co<void> discard(std::string directory, std::string as);
  std::optional<TopicId> topicOf(const std::string& directory) const;
  Co<void> makeReserve(uint64_t bytes);

  Shard& shard;
  const Options options;
  Tuning tuning;
  std::unique_ptr<FileLock> lock;
  Uuid clusterId;
  Uuid directoryId;
  bool isNew = false;
  bool clean = false;                  // it was when it was claimed
  bool surveyed = false;               // every partition of the node has been opened
  std::set<TopicPartition> recovered;  // and closed in order

  std::map<TopicPartition, TopicId> listed;
  std::map<std::string, bool> unlisted;  // partition directories that the list does not name
  std::vector<std::string> deleted;      // found at the start: half-deleted
  Checkpoint marks;
  Checkpoint starts;
  Checkpoint cleaned;
  struct Open {
    TopicId topic;
    std::vector<kj::Own<kj::PromiseFulfiller<void>>> waiting;  // for its removal
  };
  std::map<TopicPartition, Open> open;

  bool listChanged = false;
  bool marksChanged = false;
  bool startsChanged = false;
  bool cleanedChanged = false;
  uint32_t cleans = 0;  // under way
  WallMs lastClean = kNoTimestamp;
  std::vector<uint32_t> dirtyPercents;  // of the dirtiest log, by shard
  bool writing = false;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> waiting;

  std::vector<ShardLogs*> members;  // by shard; null: none
  std::optional<std::string> offline;
  bool writable = true;
  bool reserved = false;
  DiskSpace space;
  Tasks tasks;
};

}  // namespace mq::storage
