// UvNode: the real world of one process. N shards on N threads, shard 0 on the caller's; pools shared by the shards;
// the real clock, disk and network.
//
//   auto log = stderrLogger(LogLevel::info);
//   UvNode node({.shards = 4}, *log);
//   node.run([&](Shard& first) -> Co<void> {
//     Broker broker(first, ...);          // builds its parts on the other shards with first.call()
//     co_await broker.start();
//     co_await node.signal();
//     co_await broker.stop();
//   });
//
// The body lives in the frame of run(), so its captures outlive its promise. When the promise settles, the node ends as
// shard.h describes, and run() returns or rethrows.
#pragma once
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/shard.h"

namespace mq {

class UvShard;
class WorkerPool;

struct UvNodeOptions {
  uint32_t shards = 0;       // 0: one per processor
  uint32_t syncThreads = 8;  // bounds; a thread starts when it is first needed
  uint32_t readThreads = 4;
  uint32_t computeThreads = 0;  // 0: one per processor
  uint32_t backgroundThreads = 2;
  uint64_t seed = 0;  // of Shard::random(); 0: the system's entropy
};

class UvNode {
 public:
  using Body = std::move_only_function<kj::Promise<void>(Shard& first)>;

  UvNode(UvNodeOptions options, Logger& log);
  ~UvNode();
  UvNode(const UvNode&) = delete;
  UvNode& operator=(const UvNode&) = delete;

  void run(Body body);  // once
  // The number of the next SIGINT or SIGTERM. Without such a promise waiting, they do what the system does by default.
  // Shard 0, while run() runs.
  kj::Promise<int> signal();
  uint32_t shards() const { return static_cast<uint32_t>(shards_.size()); }

 private:
  friend class UvShard;
  void serve(uint32_t index);
  void arrive(uint32_t index);  // this shard has stopped; returns when it is its turn to be destroyed
  void leave(uint32_t index);

  UvNodeOptions options_;
  Logger& log_;
  std::unique_ptr<FileSystem> files_;
  std::unique_ptr<WorkerPool> pools_[4];  // by Pool
  std::unique_ptr<WorkerPool> resolver_;  // getaddrinfo may take many seconds: not with the others
  std::vector<std::unique_ptr<UvShard>> shards_;

  std::mutex mutex_;  // of what follows: the end
  std::condition_variable changed_;
  uint32_t stopped_ = 0;  // shards whose loop runs no more
  int64_t turn_ = -1;     // the shard to be destroyed next; -1: not yet, or all gone
};

}  // namespace mq
