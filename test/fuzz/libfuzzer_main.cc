// Hands a fuzz target to libFuzzer; see fuzz.h.
#include "base/check.h"
#include "fuzz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  mq::setSlowChecks(true);
  mq::fuzz::fuzzOne({data, size});
  return 0;
}
