// mq_sim: runs simulated clusters from seeds.
//
//   mq_sim SEED [--trace] [--until SECONDS]     one run, with every line of its processes
//   mq_sim --runs N [--from SEED]               N seeds in a row; the first violation ends it
//   mq_sim --fresh N                            N seeds that nobody has seen
//   mq_sim --suite                              for the tests: fixed seeds, some of them twice
//
// Each of these with --nodes N: so many brokers, whatever the seeds say.
//
// Prints a line per run; exit 1 when a promise was broken, with the command that repeats it.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "run.h"

using namespace mq;
using namespace mq::sim;

namespace {

constexpr uint64_t kFixedSeeds = 24;
constexpr uint64_t kTwiceOneIn = 3;

std::optional<uint32_t> nodes;  // of every run; none: as the seed says

RunResult runOf(uint64_t seed) {
  return runCluster({.seed = seed, .until = std::nullopt, .trace = nullptr, .nodes = nodes});
}

void repeatWith(uint64_t seed) {
  fmt::print("repeat with: ./dev sim {} --trace{}\n", seed, nodes ? fmt::format(" --nodes {}", *nodes) : "");
}

bool report(uint64_t seed, const RunResult& result) {
  if (result.violation.empty()) return true;
  fmt::print("seed {}: BROKEN: {}\n", seed, result.violation);
  repeatWith(seed);
  std::fflush(stdout);
  return false;
}

void add(std::map<std::string, uint64_t>& sum, const RunResult& result) {
  for (const auto& [mark, count] : result.marks) sum[mark] += count;
  sum["acknowledged"] += result.acknowledged;
}

void print(const std::map<std::string, uint64_t>& marks) {
  for (const auto& [mark, count] : marks) fmt::print("  {:<22}{}\n", mark, count);
}

int one(uint64_t seed, bool trace, std::optional<Duration> until) {
  RunOptions options{.seed = seed, .until = until, .trace = nullptr, .nodes = nodes};
  if (trace) options.trace = [](const std::string& line) { fmt::print("{}\n", line); };
  RunResult result = runCluster(options);
  if (!report(seed, result)) return 1;
  fmt::print("seed {}: good, {} records acknowledged, trace {:016x}\n", seed, result.acknowledged, result.traceHash);
  print(result.marks);
  return 0;
}

int many(uint64_t from, uint64_t runs) {
  std::map<std::string, uint64_t> sum;
  for (uint64_t seed = from; seed < from + runs; ++seed) {
    RunResult result = runOf(seed);
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
    if (!report(seed, runOf(seed))) ++failed;
  }
  return failed == 0 ? 0 : 1;
}

// The rare things that a suite has to come by: a run without them proves nothing.
constexpr const char* kMarks[] = {"acknowledged",
                                  "seen",
                                  "retries",
                                  "power-cut",
                                  "kill",
                                  "recovery",
                                  "full-disk",
                                  "io-error",
                                  "sync-failed",
                                  "clean-stop",
                                  "clean-start",
                                  "cut",
                                  "trims",
                                  "topics-deleted",
                                  "down-while-starting",
                                  "commits",
                                  "assignments",
                                  "txn-committed",
                                  "txn-aborted",
                                  "txn-unknown",
                                  "leader-change",
                                  "isr-shrink",
                                  "isr-expand",
                                  "truncated",
                                  "controller-change",
                                  "broker-fenced",
                                  "wiped-refilled",
                                  "snapshot-installed",
                                  "below-min-in-sync",
                                  "down-together",
                                  "isolated",
                                  "one-way-cut"};

int suite() {
  std::map<std::string, uint64_t> sum;
  int failed = 0;
  for (uint64_t seed = 1; seed <= kFixedSeeds; ++seed) {
    RunResult result = runOf(seed);
    if (!report(seed, result)) ++failed;
    if (seed % kTwiceOneIn == 0) {
      RunResult again = runOf(seed);
      if (result.traceHash != again.traceHash) {
        fmt::print("seed {}: two runs of one seed differ: {:016x}, {:016x}\n", seed, result.traceHash, again.traceHash);
        ++failed;
      }
    }
    add(sum, result);
  }
  print(sum);
  uint64_t found = 0;
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    RunOptions planted{.seed = seed, .until = std::nullopt, .trace = nullptr, .nodes = 1, .lyingDisk = true};
    if (!runCluster(planted).violation.empty()) ++found;
  }
  if (found == 0) {
    fmt::print("power cuts without syncs went unnoticed: the checks see nothing\n");
    ++failed;
  }
  for (const char* mark : kMarks) {
    if (sum[mark] == 0) {
      fmt::print("nothing of this happened in any run: {}\n", mark);
      ++failed;
    }
  }
  return failed == 0 ? 0 : 1;
}

int usage() {
  fmt::print(stderr,
             "usage: mq_sim SEED [--trace] [--until SECONDS] | --runs N [--from SEED] | --fresh N | --suite"
             "  [--nodes N]\n");
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
  uint64_t from = 1, until = 0;
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
    } else if (word == "--nodes") {
      if (!value() || number == 0 || number > 5) return usage();
      nodes = static_cast<uint32_t>(number);
    } else if (word == "--from") {
      if (!value()) return usage();
      from = number;
    } else if (word == "--until") {
      if (!value()) return usage();
      until = number;
    } else if (readNumber(arguments[i], &number)) {
      seed = number;
    } else {
      return usage();
    }
  }
  if (isSuite) return suite();
  if (freshRuns) return fresh(*freshRuns);
  if (runs) return many(from, *runs);
  if (!seed) return usage();
  return one(*seed, trace, until == 0 ? std::nullopt : std::optional<Duration>(std::chrono::seconds(until)));
}
