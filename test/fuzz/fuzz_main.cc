// Runs a fuzz target without libFuzzer; see fuzz.h. When an input kills the process, it is left in fuzz-last-input.
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/random.h"
#include "fuzz.h"

extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace {
using namespace mq;

const Buffer* running = nullptr;

void write(const std::string& path, Bytes bytes) {
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
}

void keepInput() {
  if (!running) return;
  write("fuzz-last-input", *running);
  std::fprintf(stderr, "its input is in fuzz-last-input, %zu bytes\n", running->size());
  running = nullptr;
}

void run(Buffer input) {
  input.shrink_to_fit();  // so that a sanitizer sees a read behind it
  running = &input;
  fuzz::fuzzOne(input);
  running = nullptr;
}

// What breaks decoders: values at their limits, flipped bits, cuts, and pieces of other inputs.
void mutate(Buffer& input, const std::vector<Buffer>& seeds, Prng& prng) {
  static constexpr uint8_t kEdges[] = {0x00, 0x01, 0x7f, 0x80, 0xfe, 0xff};
  for (uint64_t times = prng.between(1, 4); times > 0; --times) {
    if (input.empty()) input.push_back(0);
    size_t at = prng.below(input.size());
    auto place = input.begin() + static_cast<std::ptrdiff_t>(at);
    uint8_t edge = kEdges[prng.below(std::size(kEdges))];
    switch (prng.below(7)) {
      case 0: *place = edge; break;
      case 1: *place ^= static_cast<uint8_t>(1 << prng.below(8)); break;
      case 2: input.resize(at); break;
      case 3: input.insert(place, edge); break;
      case 4: input.erase(place); break;
      case 5: std::fill(place, input.end() - place > 4 ? place + 4 : input.end(), edge); break;
      case 6: {
        const Buffer& other = seeds[prng.below(seeds.size())];
        if (other.empty()) break;
        size_t from = prng.below(other.size());
        Bytes piece = Bytes(other).subspan(from, std::min<size_t>(other.size() - from, prng.between(1, 32)));
        input.insert(place, piece.begin(), piece.end());
        break;
      }
    }
  }
}

int runFile(const char* path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::fprintf(stderr, "%s: cannot be read\n", path);
    return 2;
  }
  run(Buffer(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  setSlowChecks(true);
  if (__sanitizer_set_death_callback)
    __sanitizer_set_death_callback(keepInput);
  else
    std::signal(SIGSEGV, [](int) {
      keepInput();
      std::abort();
    });
  setCheckHook(keepInput);

  uint64_t runs = 50000, seed = 1;
  std::vector<const char*> files;
  auto seeds = fuzz::fuzzSeeds();
  for (int i = 1; i < argc; ++i) {
    std::string_view argument = argv[i];
    if (argument == "--runs" && i + 1 < argc) {
      runs = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--seed" && i + 1 < argc) {
      seed = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--write-seeds" && i + 1 < argc) {
      ++i;
      for (size_t n = 0; n < seeds.size(); ++n) write(std::string(argv[i]) + "/seed-" + std::to_string(n), seeds[n]);
      return 0;
    } else {
      files.push_back(argv[i]);
    }
  }
  for (const char* file : files) {
    if (int failed = runFile(file)) return failed;
  }
  if (!files.empty()) return 0;

  for (const Buffer& input : seeds) run(input);
  if (seeds.empty()) seeds.emplace_back();
  Prng prng(seed);
  for (uint64_t i = 0; i < runs; ++i) {
    Buffer input = seeds[prng.below(seeds.size())];
    mutate(input, seeds, prng);
    run(std::move(input));
  }
  std::printf("%zu seeds, %llu mutations\n", seeds.size(), static_cast<unsigned long long>(runs));
}
