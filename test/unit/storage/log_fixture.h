// A data directory on a real node, batches to put in, and a look at what is in: for tests of Log and LogDirectory.
#pragma once
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../test_directory.h"
#include "record/builder.h"
#include "record/records.h"
#include "runtime/uv/node.h"
#include "storage/log_directory.h"

namespace mq::storage {

// Keeps the lines of a run.
class KeptLog final : public Logger {
 public:
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view event, std::string_view text) override {
    std::lock_guard lock(mutex_);
    lines_.push_back(fmt::format("{}: {}", event, text));
  }
  bool has(std::string_view part) const {
    std::lock_guard lock(mutex_);
    for (const std::string& line : lines_) {
      if (line.find(part) != std::string::npos) return true;
    }
    return false;
  }
  std::string all() const {
    std::lock_guard lock(mutex_);
    std::string text;
    for (const std::string& line : lines_) text += line + "\n";
    return text;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

struct BatchSpec {
  int records = 1;
  size_t valueBytes = 20;
  int64_t timestamp = 1'700'000'000'000;
  ProducerId producer = kNoProducer;
  int16_t epoch = -1;
  int32_t sequence = -1;
  bool transactional = false;
  record::Codec codec = record::Codec::none;
  int value = 0;  // the records say value, value + 1, ...
};

inline Buffer makeBatch(const BatchSpec& spec) {
  record::Workspace workspace;
  record::BatchBuilder builder({.codec = spec.codec,
                                .level = {},
                                .producerId = spec.producer,
                                .producerEpoch = spec.epoch,
                                .baseSequence = spec.sequence,
                                .isTransactional = spec.transactional,
                                .appendTime = {}});
  for (int i = 0; i < spec.records; ++i) {
    std::string value = fmt::format("{}", spec.value + i);
    value.resize(std::max(spec.valueBytes, value.size()), '.');
    builder.add({.timestamp = WallMs(spec.timestamp + i), .key = {}, .value = asBytes(value), .headers = {}});
  }
  return builder.build(workspace);
}

// As a producer's coordinator lets it begin a transaction.
inline uint64_t guardFor(Log& log, Bytes batch) {
  record::BatchView view(batch);
  return view.isTransactional() ? log.guardTransaction(view.producerId(), view.producerEpoch()) : 0;
}

// What a log holds, read batch by batch through Log::read as a consumer would.
struct ReadBack {
  std::vector<int64_t> offsets;
  std::vector<std::string> values;  // up to the first '.'
  std::vector<int32_t> epochs;      // of the batches
  std::optional<Failure> failure;
};

inline ReadBack readAll(Log& log, Offset from, uint32_t bytesMax = 1 << 20) {
  ReadBack back;
  record::Workspace workspace;
  Offset next = from;
  while (next < log.end()) {
    auto slice = log.read(next, bytesMax, log.end(), true);
    if (!slice) {
      back.failure = slice.failure();
      break;
    }
    if (slice->file == nullptr) break;
    Buffer bytes(slice->length);
    bytes.resize(slice->file->read(slice->position, bytes));
    Bytes left = bytes;
    while (true) {
      record::NextBatch batch = record::nextBatch(left);
      if (batch.kind != record::NextBatch::Kind::whole) break;
      left = left.subspan(batch.sizeBytes);
      record::BatchView view(batch.batch);
      back.epochs.push_back(view.leaderEpoch().value());
      auto records = record::openRecords(view, workspace);
      if (!records || !view.crcOk()) {
        back.failure = Failure(Error::corruptMessage, "served a bad batch");
        return back;
      }
      record::RecordView record;
      while (!view.isControl() && records->next(record)) {
        if (record.offset < next) continue;
        back.offsets.push_back(record.offset.value());
        std::string value(asText(*record.value));
        back.values.push_back(value.substr(0, value.find('.')));
      }
      next = view.nextOffset();
    }
  }
  return back;
}

inline std::vector<int64_t> range(int64_t first, int64_t end) {
  std::vector<int64_t> numbers;
  for (int64_t i = first; i < end; ++i) numbers.push_back(i);
  return numbers;
}

// One life of a node with one data directory and `shards` LogShards, of which the body gets the first.
struct Life {
  Shard& shard;
  LogDirectory& directory;
  LogShard& logs;

  Co<Log*> open(std::string topic, config::TopicSettings settings, int32_t partition = 0) {
    auto log = co_await logs.open({topic, partition}, idOf(topic), settings);
    if (!log)
      throw kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__, kj::str(log.failure().message.c_str()));
    co_return *log;
  }
  static TopicId idOf(std::string_view topic) { return Uuid::fromHalves(std::hash<std::string_view>()(topic), 7); }
};

enum class End { close, kill };  // kill: as a process that ends; what is in the page cache stays

inline void live(const std::string& path, End end, std::function<kj::Promise<void>(Life&)> body, KeptLog* log = nullptr,
                 std::function<void(Options&)> change = {}) {
  KeptLog own;
  KeptLog& lines = log != nullptr ? *log : own;
  UvNode node({.shards = 1, .seed = 1}, lines);
  node.run([&](Shard& first) -> Co<void> {
    Options options;
    options.path = path;
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    options.tuning.scrubBytesPerSecond = 0;
    if (change) change(options);
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    co_await body(life);
    if (end == End::close) {
      co_await logs.close();
      co_await directory.close();
    }
  });
}

// A coroutine lambda must outlive its promise: this keeps it.
template <class Body>
std::function<kj::Promise<void>(Life&)> keep(Body body) {
  auto kept = std::make_shared<Body>(std::move(body));
  return [kept](Life& life) -> kj::Promise<void> { return (*kept)(life); };
}

inline Co<Appended> put(Log& log, Buffer batch, LeaderEpoch epoch = LeaderEpoch(1)) {
  auto appended = co_await log.append(
      {.bytes = batch, .origin = Origin::client, .leaderEpoch = epoch, .guard = guardFor(log, batch)});
  if (!appended)
    throw kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__, kj::str(appended.failure().message.c_str()));
  co_return *appended;
}

inline config::TopicSettings plainSettings() {
  config::TopicSettings settings;
  settings.compression = config::CompressionType::producer;
  settings.timestampAfterMaxMs = config::TopicSettings::kUnlimited;
  settings.fileDeleteDelayMs = 0;
  return settings;
}

}  // namespace mq::storage
