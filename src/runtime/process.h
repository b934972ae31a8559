// What this process uses, as the system counts it. Asked for through a function that the process's main part hands
// down, since a simulated node has no process.
#pragma once
#include <cstdint>

#include "base/types.h"

namespace mq {

struct ProcessUsage {
  uint64_t residentBytes = 0;
  uint64_t virtualBytes = 0;
  uint64_t openDescriptors = 0;
  uint64_t maxDescriptors = 0;
  uint64_t threads = 0;
  Duration cpu{0};  // user and system
  WallMs started{0};
};

ProcessUsage processUsage();  // what cannot be read stays 0. Reads /proc: some 100 us. In runtime/uv

}  // namespace mq
