// SimWorld: any number of machines on one thread, with virtual time, a fake network and fake disks, all from one seed.
//
//   SimWorld world({.seed = 7});
//   SimNode& node = world.addNode();
//   node.start(2, [](Shard& first) -> Co<void> { ... production code ... });
//   world.run([&]() -> Co<void> {            // the test: drives clients, breaks things, checks
//     co_await world.sleep(100ms);
//     node.crash();
//     node.start(2, ...);
//   });
//
// The same seed and the same code give the same traceHash(). So code under test must not depend on addresses, hashes of
// pointers, the real clock or other threads.
#pragma once
#include <kj/async.h>

#include <functional>
#include <memory>
#include <vector>

#include "base/random.h"
#include "runtime/coro.h"
#include "sim_loop.h"
#include "sim_network.h"
#include "sim_node.h"

namespace mq::sim {

struct WorldOptions {
  uint64_t seed = 1;
  NetworkOptions network;
  NodeOptions node;
  uint64_t stepsMax = 200'000'000;  // then the run fails instead of going on for ever
};

class SimWorld {
 public:
  explicit SimWorld(WorldOptions options);
  ~SimWorld();
  SimWorld(const SimWorld&) = delete;
  SimWorld& operator=(const SimWorld&) = delete;

  SimNode& addNode();  // ids from 1
  SimNode& node(uint32_t id) { return *nodes_[id - 1]; }
  uint32_t nodes() const { return static_cast<uint32_t>(nodes_.size()); }
  SimNetwork& network() { return network_; }
  Prng& random() { return random_; }
  Instant now() const { return loop_.now(); }
  kj::Promise<void> sleep(Duration duration);
  Trace& trace() { return loop_.trace(); }
  uint64_t traceHash() { return loop_.trace().hash(); }
  void watchLog(SimLoop::LogWatcher watcher) { loop_.watchLog(std::move(watcher)); }
  template <class... Args>
  void tell(fmt::format_string<Args...> format, Args&&... args) {
    loop_.tell(format, std::forward<Args>(args)...);
  }

  // Runs the world until the test's promise settles; its exception, or that the world is stuck, is thrown.
  void run(std::function<kj::Promise<void>()> test);

 private:
  const WorldOptions options_;
  Prng random_;
  SimLoop loop_;
  kj::EventLoop events_;
  kj::WaitScope scope_;
  SimNetwork network_;
  std::vector<std::unique_ptr<SimNode>> nodes_;
};

}  // namespace mq::sim
