// SimNode: a machine of the world: a host on the network, a disk, and at most one process on it at a time. SimShard is
// one shard of that process; all shards of all nodes run on the world's one loop.
//
//                      start()                    body settles: an orderly end
//   (no process) ──────────────────▶ (running) ────────────────────────────────▶ (no process, all on disk or in cache)
//         ▲                              │ kill():  frozen, destroyed; the page cache survives
//         └──────────────────────────────┘ crash(): frozen, destroyed; the disk loses what was not synced
//
// Frozen: the process can change nothing any more, neither on disk nor on the network, while its objects are destroyed.
//
// Mailboxes keep the order of each sender; between senders chance decides. Pools: a job runs at some moment between
// being given and being answered, and jobs overtake each other.
#pragma once
#include <kj/async.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"
#include "sim_disk.h"
#include "sim_loop.h"
#include "sim_network.h"

namespace mq::sim {

struct Latency {
  Duration min{0};
  Duration max{0};
  Duration draw(Prng& random) const {
    return Duration(
        static_cast<int64_t>(random.between(static_cast<uint64_t>(min.count()), static_cast<uint64_t>(max.count()))));
  }
};

struct NodeOptions {
  Latency mailbox{200ns, 50us};
  Latency sync{100us, 5ms};  // by Pool
  Latency read{20us, 2ms};
  Latency compute{10us, 1ms};
  Latency background{50us, 10ms};
};

class SimNode {
 public:
  using Body = std::move_only_function<kj::Promise<void>(Shard& first)>;

  SimNode(SimLoop& loop, SimNetwork& network, uint32_t id, Prng random, NodeOptions options);
  ~SimNode();
  SimNode(const SimNode&) = delete;
  SimNode& operator=(const SimNode&) = delete;

  uint32_t id() const { return id_; }
  std::string host() const { return SimNetwork::hostName(id_); }
  SimDisk& disk() { return disk_; }
  NodeOptions& options() { return options_; }  // a slow disk: longer sync and read

  // Starts a process: the body runs on shard 0 in a later turn, as in UvNode::run().
  void start(uint32_t shards, Body body);
  bool running() const { return process_ != nullptr; }
  void crash();
  void kill();
  // Resolves when the present process has ended, however; rejects with the exception of its body. Without a process: at
  // once.
  kj::Promise<void> ended();
  void jumpWallClock(Duration by) { wallOffset_ += by; }
  WallMs wallNow() const;
  Shard& shard(uint32_t index);  // of the running process

 private:
  friend class SimShard;
  struct Process;

  void begin();
  void end(std::unique_ptr<Process> process);
  void destroyAbruptly(bool powerLost);

  SimLoop& loop_;
  SimNetwork& network_;
  const uint32_t id_;
  Prng random_;
  NodeOptions options_;
  SimDisk disk_;
  Duration wallOffset_{0};
  int64_t processes_ = 0;
  std::unique_ptr<Process> process_;
  std::vector<kj::Own<kj::PromiseFulfiller<void>>> waiting_;  // in ended()
};

}  // namespace mq::sim
