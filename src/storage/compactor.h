// Compactor: cleans the compacted logs of one shard, the dirtiest first, one at a time, under an I/O budget
// (log.cleaner.*). Works on Pool::background in pieces of about 1 MiB, so that it stops soon and shares the pool; only
// the renames of finished segments happen on the loop. How many cleans run in a node at a time the directory on shard 0
// says.
//
// A log that cannot be cleaned (a damaged batch, an unreadable file) is left alone with a reason until it is cut or the
// process starts anew; the others go on. Lack of space puts a clean off. Failed writes take the directory offline.
// Belongs to its ShardLogs.
#pragma once
#include <optional>
#include <string>

#include "base/types.h"
#include "runtime/coro.h"
#include "runtime/tasks.h"
#include "storage/clean_job.h"

namespace mq::storage {

class Log;
class ShardLogs;

class Compactor {
 public:
  explicit Compactor(ShardLogs& logs);
  void tuned();                // looks again at once
  kj::Promise<void> stop();    // resolves when nothing is under way any more
  size_t uncleanable() const;  // logs

 private:
  Co<void> run();
  Co<bool> cleanDirtiest();
  Co<void> pause(Duration wait);
  bool enabled() const;
  Log* dirtiest();
  Co<bool> clean(TopicPartition name, uint64_t epoch);
  Co<bool> work(TopicPartition name, uint64_t epoch, std::shared_ptr<CleanJob> job, Offset first);
  Log* find(const TopicPartition& name, uint64_t epoch);
  Co<void> discard(TopicPartition name, uint64_t epoch, std::string directory);

  ShardLogs& logs_;
  bool stopping_ = false;
  kj::Own<kj::PromiseFulfiller<void>> wake_;
  kj::ForkedPromise<void> ended_;
  Tasks tasks_;
};

}  // namespace mq::storage
