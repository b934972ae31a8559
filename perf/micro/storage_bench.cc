// What appending to a log costs, on real files in DIR (default: ./storage-bench, removed at the end):
//
//   ninja -C build perf/micro/storage_bench && build/perf/micro/storage_bench [DIR]
//
// "inline": page-cache durability, 8 appends in flight: validation, one write per turn, index entries; CPU of the
// process. "synced": fsync durability, one append in flight per partition; each is awaited until durable. Rounds and
// files are those of SyncRounds.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "record/builder.h"
#include "runtime/uv/node.h"
#include "storage/log_directory.h"

using namespace mq;
using namespace mq::storage;

namespace {

class Quiet final : public Logger {
 public:
  bool enabled(LogLevel) const override { return false; }
  void write(LogLevel, std::string_view event, std::string_view text) override {
    std::fprintf(stderr, "%.*s: %.*s\n", static_cast<int>(event.size()), event.data(), static_cast<int>(text.size()),
                 text.data());
  }
};

double cpuSeconds() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}
double wallSeconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Buffer batchOf(size_t bytes) {
  record::Workspace workspace;
  record::BatchBuilder builder;
  Buffer value(1000);
  for (size_t i = 0; i < value.size(); ++i) value[i] = static_cast<uint8_t>((i * 2654435761u) >> 13);
  while (builder.plainSizeBytes() + 1010 < bytes) {
    builder.add({.timestamp = WallMs(1'764'460'800'000), .key = {}, .value = Bytes(value), .headers = {}});
  }
  return builder.build(workspace);
}

config::TopicSettings settings(config::Durability durability) {
  config::TopicSettings result;
  result.durability = durability;
  result.compression = config::CompressionType::producer;
  result.timestampAfterMaxMs = config::TopicSettings::kUnlimited;
  return result;
}

Co<void> pump(Log& log, Buffer batch, size_t count, bool durable) {
  for (size_t i = 0; i < count; ++i) {
    record::setBaseOffset(batch, Offset(0));  // as it comes from a client
    auto appended = co_await log.append({.bytes = batch, .origin = Origin::client, .leaderEpoch = LeaderEpoch(0)});
    if (!appended) throw std::runtime_error(appended.failure().message);
    if (durable) co_await log.whenDurable(appended->offsets.end);
  }
}

Co<void> measure(LogShard& logs, const char* name, size_t partitions, size_t writers, size_t batchBytes, size_t count,
                 config::Durability durability) {
  Buffer batch = batchOf(batchBytes);
  std::vector<Log*> open;
  for (size_t i = 0; i < partitions; ++i) {
    auto log = co_await logs.open({name, static_cast<int32_t>(i)},
                                  Uuid::fromHalves(std::hash<std::string_view>()(name), 1), settings(durability));
    if (!log) throw std::runtime_error(log.failure().message);
    open.push_back(*log);
  }
  const bool durable = durability == config::Durability::fsync;
  for (Log* log : open) co_await pump(*log, batch, 1, durable);
  auto before = logs.figures();
  double wall = wallSeconds(), cpu = cpuSeconds();
  auto all = kj::heapArrayBuilder<kj::Promise<void>>(partitions * writers);
  for (Log* log : open) {
    for (size_t w = 0; w < writers; ++w) all.add(pump(*log, batch, count, durable));
  }
  co_await kj::joinPromises(all.finish());
  wall = wallSeconds() - wall;
  cpu = cpuSeconds() - cpu;
  auto after = logs.figures();
  double appends = static_cast<double>(partitions * writers * count);
  double bytes = appends * static_cast<double>(batch.size());
  std::printf("%-22s %9.0f appends/s %8.0f MB/s %6.2f CPU s/GB", name, appends / wall, bytes / wall / 1e6,
              cpu / bytes * 1e9);
  if (durable) {
    double rounds = static_cast<double>(after.syncRounds - before.syncRounds);
    std::printf("   %5.0f rounds, %.1f files each, %.2f ms each", rounds,
                static_cast<double>(after.syncedFiles - before.syncedFiles) / rounds, wall / rounds * 1e3);
  }
  std::printf("\n");
}

}  // namespace

int main(int argc, char** argv) {
  std::string path = argc > 1 ? argv[1] : "storage-bench";
  std::filesystem::remove_all(path);
  Quiet log;
  UvNode node({.shards = 1}, log);
  node.run([&](Shard& first) -> Co<void> {
    Options options;
    options.path = path;
    options.tuning.scrubBytesPerSecond = 0;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    using config::Durability;
    co_await measure(logs, "inline-16k", 1, 8, 16 << 10, 4000, Durability::pageCache);
    co_await measure(logs, "inline-256k", 1, 8, 256 << 10, 250, Durability::pageCache);
    co_await measure(logs, "synced-1", 1, 1, 16 << 10, 200, Durability::fsync);
    co_await measure(logs, "synced-10", 10, 1, 16 << 10, 50, Durability::fsync);
    co_await measure(logs, "synced-100", 100, 1, 16 << 10, 20, Durability::fsync);
    co_await logs.close();
    co_await directory.close();
  });
  std::filesystem::remove_all(path);
}
