// mq_raft_sim: random runs of the consensus core.
//
//   mq_raft_sim SEED [--trace]            one run
//   mq_raft_sim --runs N [--from SEED]    N seeds in a row; the first violation ends it
//   mq_raft_sim --fresh N                 N seeds that nobody has seen
//   mq_raft_sim --suite                   for the tests: fixed seeds, some of them twice
//
// Exit 1 when a promise was broken, with the command that repeats it.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <random>
#include <string>

#include "run.h"

using namespace mq::raft::sim;

namespace {

constexpr uint64_t kFixedSeeds = 150;

using Marks = std::map<std::string, uint64_t>;

bool report(uint64_t seed, const RunResult& result) {
  if (result.violation.empty()) return true;
  fmt::print("seed {}: BROKEN: {}\nrepeat with: mq_raft_sim {} --trace\n", seed, result.violation, seed);
  std::fflush(stdout);
  return false;
}

void add(Marks& sum, const RunResult& result) {
  for (const auto& [mark, count] : result.marks) sum[mark] += count;
}

void print(const Marks& marks) {
  for (const auto& [mark, count] : marks) fmt::print("  {:<36}{}\n", mark, count);
}

int one(uint64_t seed, bool trace) {
  RunOptions options{.seed = seed, .trace = nullptr};
  if (trace) options.trace = [](const std::string& line) { fmt::print("{}\n", line); };
  RunResult result = runRaft(options);
  if (!report(seed, result)) return 1;
  fmt::print("seed {}: good, trace {:016x}\n", seed, result.traceHash);
  print(result.marks);
  return 0;
}

int many(uint64_t from, uint64_t runs) {
  Marks sum;
  for (uint64_t seed = from; seed < from + runs; ++seed) {
    RunResult result = runRaft({.seed = seed, .trace = nullptr});
    if (!report(seed, result)) return 1;
    add(sum, result);
  }
  fmt::print("{} runs from seed {} are good\n", runs, from);
  print(sum);
  return 0;
}

int fresh(uint64_t runs) {
  std::random_device chance;
  int failed = 0;
  for (; runs > 0; --runs) {
    uint64_t seed = chance();
    fmt::print("seed {}\n", seed);
    std::fflush(stdout);  // before a run that may end the process
    if (!report(seed, runRaft({.seed = seed, .trace = nullptr}))) ++failed;
  }
  return failed == 0 ? 0 : 1;
}

// What a suite has to come by: without it, it proves nothing.
constexpr const char* kMarks[] = {"acknowledged",
                                  "proposal-lost",
                                  "read",
                                  "read-failed",
                                  "elected",
                                  "deposed",
                                  "crash-in-write",
                                  "crash-of-all",
                                  "suffix-replaced",
                                  "snapshot-saved",
                                  "snapshot-installed",
                                  "log-read",
                                  "no-space",
                                  "change",
                                  "change-refused",
                                  "transfer",
                                  "wiped",
                                  "wiped-replaced",
                                  "refused-THROTTLING_QUOTA_EXCEEDED"};

int suite() {
  Marks sum;
  int failed = 0;
  for (uint64_t seed = 1; seed <= kFixedSeeds; ++seed) {
    RunResult result = runRaft({.seed = seed, .trace = nullptr});
    if (!report(seed, result)) ++failed;
    if (seed <= 20 && runRaft({.seed = seed, .trace = nullptr}).traceHash != result.traceHash) {
      fmt::print("seed {}: two runs of one seed differ\n", seed);
      ++failed;
    }
    add(sum, result);
  }
  print(sum);
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= 40; ++seed)
    if (!runRaft({.seed = seed, .trace = nullptr, .lyingDisk = true}).violation.empty()) ++found;
  fmt::print("a disk that lies is found by {} of 40 seeds\n", found);
  if (found == 0) ++failed;
  for (const char* mark : kMarks) {
    if (sum[mark] == 0) {
      fmt::print("nothing of this happened in any run: {}\n", mark);
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}

int usage() {
  fmt::print(stderr, "usage: mq_raft_sim SEED [--trace] | --runs N [--from SEED] | --fresh N | --suite\n");
  return 2;
}

bool readNumber(const char* text, uint64_t* into) {
  char* end = nullptr;
  *into = std::strtoull(text, &end, 10);
  return end != text && *end == '\0';
}

}  // namespace

int main(int count, char** arguments) {
  std::optional<uint64_t> seed, runs, freshRuns;
  uint64_t from = 1;
  bool trace = false, isSuite = false;
  for (int i = 1; i < count; ++i) {
    std::string_view word = arguments[i];
    uint64_t number = 0;
    auto value = [&] { return ++i < count && readNumber(arguments[i], &number); };
    if (word == "--trace") {
      trace = true;
    } else if (word == "--suite") {
      isSuite = true;
    } else if (word == "--fresh") {
      if (!value()) return usage();
      freshRuns = number;
    } else if (word == "--runs") {
      if (!value()) return usage();
      runs = number;
    } else if (word == "--from") {
      if (!value()) return usage();
      from = number;
    } else if (readNumber(arguments[i], &number)) {
      seed = number;
    } else {
      return usage();
    }
  }
  if (isSuite) return suite();
  if (freshRuns) return fresh(*freshRuns);
  if (runs) return many(from, *runs);
  return seed ? one(*seed, trace) : usage();
}
