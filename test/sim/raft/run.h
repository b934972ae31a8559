// One run of a few cores in virtual time: everything follows from the seed, also the settings and the faults.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <string>

namespace mq::raft::sim {

struct RunOptions {
  uint64_t seed = 1;
  std::function<void(const std::string& line)> trace;  // null: none
  bool lyingDisk = false;                              // planted: crashes lose what was synced; to be found
};

struct RunResult {
  std::string violation;  // empty: all promises were kept
  uint64_t traceHash = 0;
  std::map<std::string, uint64_t> marks;  // the rare things that happened
};

RunResult runRaft(const RunOptions& options);

}  // namespace mq::raft::sim
