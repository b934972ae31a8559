// A fuzz target is a file of test/fuzz/ that defines the two functions below, and a row in meson.build. It is built
// twice:
//
//   NAME_smoke   with fuzz_main.cc: runs the seeds and a number of mutations of them, the same ones on every machine.
//                Part of each test run. `NAME_smoke FILE...` runs files instead, `--write-seeds DIR` writes the seeds.
//   NAME         against libFuzzer:
//                  meson setup build-fuzz -Dfuzzers=true -Db_sanitize=address,undefined
//                  ninja -C build-fuzz test/fuzz/NAME && build-fuzz/test/fuzz/NAME CORPUS_DIR
//                `./dev fuzz` does so, from the seeds on.
//
// An input that was found becomes a seed.
#pragma once
#include <vector>

#include "base/bytes.h"

namespace mq::fuzz {

// Takes any bytes, may refuse them, must not crash. Broken promises are MQ_CHECKs.
void fuzzOne(Bytes input);

// Inputs to start from: each should get deep into the code.
std::vector<Buffer> fuzzSeeds();

}  // namespace mq::fuzz
