// Offline reading of a partition directory, ours or Kafka's, of a stopped or running broker: what `mq log dump|verify`
// prints. Opens files read-only, repairs nothing, needs no shard. Blocking.
//
// A damaged file ends in a problem, never in an exception; exceptions are I/O errors. After a damaged batch the walk
// goes on behind it where its length leads to another header, else the segment ends there.
#pragma once
#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "record/batch.h"
#include "runtime/file.h"
#include "storage/leader_epochs.h"
#include "storage/offset_index.h"
#include "storage/producer_state.h"
#include "storage/time_index.h"
#include "storage/transaction_index.h"

namespace mq::storage {

enum class LogFileKind {
  log,
  offsetIndex,
  timeIndex,
  transactionIndex,
  snapshot,
  leaderEpochs,
  partitionMetadata,
  cut,               // a damaged tail that recovery set aside
  deleted,           // *.deleted, whatever it was
  metadataSnapshot,  // BASE-EPOCH.checkpoint of Kafka's __cluster_metadata: batches, like a log
  other,
};

struct LogFileName {
  std::string name;
  LogFileKind kind = LogFileKind::other;
  Offset base;  // of kinds that carry one in their name
  uint64_t size = 0;
};

LogFileKind kindOf(std::string_view name);

struct LogProblem {
  std::string file;
  uint64_t position = 0;
  std::string what;
};

struct LogFileSummary {  // of one .log
  uint64_t size = 0;
  uint64_t batches = 0;  // whole ones, good or bad
  uint64_t badBatches = 0;
  uint64_t trailingBytes = 0;  // behind the last whole batch
  Offset nextOffset;
};

class LogReader {
 public:
  // Throws if the directory cannot be listed.
  LogReader(FileSystem& system, std::string directory);

  const std::vector<LogFileName>& files() const { return files_; }  // sorted by name

  struct DumpedBatch {
    const record::BatchView& batch;  // whole; of a bad one only the header can be trusted to be there
    uint64_t position;
    bool good;                   // checksum and header
    const std::string& problem;  // empty if good
  };
  // Walks one .log file; `visit` may be empty. Problems (bad batches, trailing bytes, offsets going back, offsets
  // outside the name's range) are added to problems().
  LogFileSummary readLog(const LogFileName& file, const std::function<void(const DumpedBatch&)>& visit);
  // The entries that hold, problems noted. Zero padding is no problem: Kafka preallocates. With `agree`, every entry is
  // compared with the batch it points at.
  std::vector<OffsetIndexEntry> readOffsetIndex(const LogFileName& file, bool agree);
  std::vector<TimeIndexEntry> readTimeIndex(const LogFileName& file, bool agree);
  std::vector<AbortedTransaction> readTransactionIndex(const LogFileName& file);
  ProducerState readSnapshot(const LogFileName& file);
  LeaderEpochs readLeaderEpochs(const LogFileName& file);
  std::optional<TopicId> readPartitionMetadata(const LogFileName& file);

  // Everything: each file as above, decoding each record of each batch, and how files fit together (a segment missing
  // between two, an index without its log, snapshots and epochs past the end).
  void verify();

  const std::vector<LogProblem>& problems() const { return problems_; }

 private:
  std::string pathOf(const LogFileName& file) const { return directory_ + "/" + file.name; }
  void problem(const LogFileName& file, uint64_t position, std::string what);
  std::string load(const LogFileName& file, size_t sizeMax);

  FileSystem& system_;
  std::string directory_;
  std::vector<LogFileName> files_;
  std::vector<LogProblem> problems_;
};

}  // namespace mq::storage
