// One run of a simulated cluster: everything in it follows from the seed, also the settings, the faults and their
// times.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "base/types.h"

namespace mq::sim {

struct RunOptions {
  uint64_t seed = 1;
  std::optional<Duration> until;  // virtual: stop looking there, for a trace that ends where it gets interesting
  std::function<void(const std::string& line)> trace;  // null: none
  std::optional<uint32_t> nodes;                       // instead of what the seed says: 1, 3 or 5
  bool lyingDisk = false;                              // planted: power cuts without syncs, which the checks must find
};

struct RunResult {
  std::string violation;  // empty: all promises were kept
  uint64_t traceHash = 0;
  uint64_t acknowledged = 0;  // records
  // What this run went through, for a suite to see that nothing rare was left out: power-cut, kill, full-disk, ...
  std::map<std::string, uint64_t> marks;
};

RunResult runCluster(const RunOptions& options);

}  // namespace mq::sim
