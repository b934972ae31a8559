// What the runtime itself costs, in ns of wall and of CPU (all threads of the process):
//
//   ninja -C build perf/micro/runtime_bench && build/perf/micro/runtime_bench
//   build/perf/micro/runtime_bench idle        memory and start time of a node of two shards that does nothing
//
// "in flight": that many calls are under way at once, as when a request fans out to partitions.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

#include "runtime/uv/log.h"
#include "runtime/uv/node.h"

using namespace mq;

namespace {

double cpuNanos() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) * 1e9 + static_cast<double>(used.tv_nsec);
}

class Measure {
 public:
  Measure(Shard& shard, const char* name, int count) : shard_(shard), name_(name), count_(count) {}
  ~Measure() {
    double wall = static_cast<double>((shard_.now() - begin_).count());
    std::printf("%-44s %8.0f ns wall %8.0f ns cpu\n", name_, wall / count_, (cpuNanos() - cpu_) / count_);
  }

 private:
  Shard& shard_;
  const char* name_;
  const int count_;
  const Instant begin_ = shard_.now();
  const double cpu_ = cpuNanos();
};

Co<int> one() { co_return 1; }
Co<int> oneThroughAnother() { co_return co_await one(); }

Co<void> measureAll(Shard& shard) {
  constexpr int kMany = 1'000'000, kSome = 50'000, kInFlight = 64;
  int sum = 0;
  {
    Measure m(shard, "co_await of a ready promise", kMany);
    for (int i = 0; i < kMany; ++i) sum += co_await kj::Promise<int>(1);
  }
  {
    Measure m(shard, "co_await of a coroutine", kMany);
    for (int i = 0; i < kMany; ++i) sum += co_await one();
  }
  {
    Measure m(shard, "co_await of two nested coroutines", kMany);
    for (int i = 0; i < kMany; ++i) sum += co_await oneThroughAnother();
  }
  {
    Measure m(shard, "call to the own shard", kMany);
    for (int i = 0; i < kMany; ++i) sum += co_await shard.call(0, [i] { return i; });
  }
  {
    Measure m(shard, "call, one at a time", kSome);
    for (int i = 0; i < kSome; ++i) sum += co_await shard.call(1, [i] { return i; });
  }
  {
    Measure m(shard, "call, 64 in flight", kMany);
    for (int i = 0; i < kMany; i += kInFlight) {
      std::vector<kj::Promise<int>> calls;
      for (int k = 0; k < kInFlight; ++k) calls.push_back(shard.call(1, [k] { return k; }));
      for (auto& call : calls) sum += co_await call;
    }
  }
  {
    Measure m(shard, "call of a coroutine, 64 in flight", kMany);
    for (int i = 0; i < kMany; i += kInFlight) {
      std::vector<kj::Promise<int>> calls;
      for (int k = 0; k < kInFlight; ++k) calls.push_back(shard.call(1, [] { return one(); }));
      for (auto& call : calls) sum += co_await call;
    }
  }
  {
    Measure m(shard, "run on a pool, one at a time", kSome);
    for (int i = 0; i < kSome; ++i) sum += co_await shard.run(Pool::sync, [i] { return i; });
  }
  if (sum == 0) std::puts("");  // the sums are used
}

void printMemory() {
  std::ifstream maps("/proc/self/smaps_rollup");
  for (std::string line; std::getline(maps, line);) {
    if (line.starts_with("Rss:") || line.starts_with("Pss:") || line.starts_with("Private_Dirty:"))
      std::puts(line.c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  bool idle = argc > 1 && std::string(argv[1]) == "idle";
  auto log = stderrLogger(LogLevel::info);
  UvNode node({.shards = 2, .seed = 1}, *log);
  node.run([&](Shard& first) -> Co<void> {
    co_await first.call(1, [] {});
    if (idle) {
      std::printf("both shards up after %.2f ms of CPU\n", cpuNanos() * 1e-6);
      printMemory();
    } else {
      co_await measureAll(first);
    }
  });
}
