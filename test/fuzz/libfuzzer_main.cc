// Hands a fuzz target to libFuzzer; see fuzz.h. `NAME --write-seeds DIR` writes the seeds instead of running.
#include <cstdlib>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::string_view((*argv)[1]) != "--write-seeds") return 0;
  size_t n = 0;
  for (const mq::Buffer& seed : mq::fuzz::fuzzSeeds()) {
    std::ofstream file(std::string((*argv)[2]) + "/seed-" + std::to_string(n++), std::ios::binary);
    file.write(reinterpret_cast<const char*>(seed.data()), static_cast<std::streamsize>(seed.size()));
  }
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mq::setSlowChecks(true);
  mq::fuzz::fuzzOne({data, size});
  return 0;
}
