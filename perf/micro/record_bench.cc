// How fast the leader's checks are, in GB of records (uncompressed size) per CPU second:
//
//   ninja -C build perf/micro/record_bench && build/perf/micro/record_bench [CODEC]
//
// "hot": the batch is in the cache, as right after it was received; "cold": 256 MiB of batches in turn.
// crc: the CRC pass alone, which validation includes. stored: validation and the stored form under
// compression.type=auto.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "base/random.h"
#include "record/builder.h"
#include "record/recompress.h"
#include "record/validate.h"

using namespace mq;
using namespace mq::record;

namespace {

constexpr WallMs kNow{1'764'460'800'000};
constexpr double kSecondsEach = 0.3;

// Words of a small vocabulary: compresses to about a half, like logs do.
Buffer value(Prng& random, size_t bytes) {
  Buffer text;
  while (text.size() < bytes) {
    uint64_t word = random.below(2000) * 0x9E3779B97F4A7C15u;
    for (uint64_t letters = 3 + word % 6; letters > 0; --letters, word >>= 5) text.push_back('a' + (word >> 40) % 26);
    text.push_back(' ');
  }
  text.resize(bytes);
  return text;
}

Buffer batchOf(Prng& random, size_t recordBytes, size_t batchBytes, Codec codec, Workspace& workspace) {
  BatchBuilder builder({.codec = codec});
  for (int64_t i = 0; builder.plainSizeBytes() + recordBytes + 20 <= batchBytes; ++i) {
    Buffer text = value(random, recordBytes);
    builder.add({.timestamp = kNow + i / 50, .value = Bytes(text)});
  }
  return builder.build(workspace);
}

// CPU seconds per call of `work(i)`, best of three.
template <class Work>
double measure(Work work) {
  auto cpuSeconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  double best = 1e9;
  for (int round = 0; round < 3; ++round) {
    double start = cpuSeconds();
    size_t calls = 0;
    double seconds = 0;
    while (seconds < kSecondsEach) {
      for (int i = 0; i < 16; ++i) work(calls++);
      seconds = cpuSeconds() - start;
    }
    best = std::min(best, seconds / static_cast<double>(calls));
  }
  return best;
}

void run(size_t recordBytes, size_t batchBytes, Codec codec) {
  Prng random(1);
  Workspace workspace;
  Buffer batch = batchOf(random, recordBytes, batchBytes, codec, workspace);
  std::vector<Buffer> many(256_MiB / batchBytes, batch);
  ValidationRules rules{.now = kNow};
  StoreRules autoRules{.compression = {.kind = Compression::Kind::automatic}};
  Buffer rewritten;
  uint64_t sum = 0;
  double plainBytes = 0;

  auto validate = [&](const Buffer& bytes) {
    Result<BatchFacts> facts = validateProduceBatch(bytes, rules, workspace);
    if (!facts) std::abort();
    plainBytes = static_cast<double>(facts->plainRecords.size());
    sum += static_cast<uint64_t>(facts->maxTimestamp.value());
    return *facts;
  };
  double crc = measure([&](size_t) { sum += BatchView(batch).computeCrc(); });
  double hot = measure([&](size_t) { validate(batch); });
  double cold = measure([&](size_t i) { validate(many[i % many.size()]); });
  double stored = measure([&](size_t) {
    Buffer copy = batch;  // the stored form may be made in place
    BatchFacts facts = validate(copy);
    sum += storedForm(copy, facts, autoRules, workspace, rewritten)->size();
  });
  auto rate = [&](double seconds) { return plainBytes / seconds / 1e9; };
  std::printf("%-6s %5zu B %4zu KiB %8zu B  crc %6.2f  validate hot %6.2f  cold %6.2f  stored %6.2f GB/s   (%llu)\n",
              std::string(nameOf(codec)).c_str(), recordBytes, batchBytes >> 10, batch.size(), rate(crc), rate(hot),
              rate(cold), rate(stored), static_cast<unsigned long long>(sum % 10));
}

}  // namespace

int main(int argc, char** argv) {
  for (Codec codec : {Codec::none, Codec::lz4, Codec::zstd, Codec::snappy, Codec::gzip}) {
    if (argc > 1 && nameOf(codec) != argv[1]) continue;
    for (size_t recordBytes : {size_t{1024}, size_t{100}}) {
      for (size_t batchBytes : {size_t{256_KiB}, size_t{16_KiB}}) run(recordBytes, batchBytes, codec);
    }
  }
}
