// SyncRounds: group commit of one shard's logs in one log directory.
//
// A log that wrote says so (request). A round takes what all logs have unsynced at that moment, as few jobs as
// `parallel` allows, each syncing its share of files and then their directories; requests that arrive meanwhile join
// the next round. A log's `synced` is called only when every file and directory it handed over is safe, so its durable
// end cannot skip a file, and a new segment's name is as safe as what is in it.
//
// An error goes to the log concerned (it decides whether it matters: a partition that is being deleted does not care)
// and nothing is retried. Belongs to its shard.
#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <kj/async.h>

#include "metrics/histogram.h"
#include "runtime/file.h"
#include "runtime/shard.h"

namespace mq::storage {

struct Unsynced {
  std::vector<FileRef> files;
  std::vector<std::string> directories;  // in which names appeared or vanished
};

class Syncable {
 public:
  virtual ~Syncable() noexcept(false) {}
  // What has to be synced so that everything written so far survives. The log remembers how far that is.
  virtual Unsynced takeUnsynced() = 0;
  virtual void synced() = 0;  // what the last takeUnsynced() gave is safe
  virtual void syncFailed(const kj::Exception& reason) = 0;

 private:
  friend class SyncRounds;
  bool waiting_ = false;
};

class SyncRounds {
 public:
  struct Figures {
    uint64_t rounds = 0;
    uint64_t files = 0;
    metrics::Histogram time;
  };

  SyncRounds(Shard& shard, uint32_t parallel);
  ~SyncRounds();
  KJ_DISALLOW_COPY(SyncRounds);

  void request(Syncable& who);  // more than once does no harm
  void forget(Syncable& who);   // it is going away: none of its methods is called any more
  bool busy() const;
  const Figures& figures() const;

 private:
  struct State;
  void startSoon();
  void start();
  std::shared_ptr<State> state_;
};

}  // namespace mq::storage
