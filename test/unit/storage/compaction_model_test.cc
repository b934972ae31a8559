// Compaction against a naive model, in the simulated world: random keyed appends, tombstones, transactions, rolls,
// truncations, deletions; the compactor at work all the time; kills, power cuts and a disk that stops at any operation.
// What the model promises after each start and in between:
//
//   records       every record that is there was appended, at that offset; above what may be cleaned none is missing
//   last value    what a read_committed consumer makes of the log, key by key, is what it would make of all records
//   aborted       no aborted record reaches that consumer
//   tombstones    one that is the last of its key is there until delete.retention.ms after it was appended at least
//   producers     the last sequence of each is known
//   leftovers     no file of an unfinished clean is left after a start
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "base/random.h"
#include "log_fixture.h"
#include "record/batch.h"
#include "sim_world.h"
#include "storage/file_names.h"

using namespace mq;
using namespace mq::storage;

namespace {

struct Record {
  std::string key;
  std::optional<std::string> value;
  ProducerId producer = kNoProducer;
  int32_t sequence = -1;
  bool transactional = false;
  bool marker = false;
  bool aborts = false;
  int64_t appended = 0;  // ms
  friend bool operator==(const Record& a, const Record& b) {
    return a.key == b.key && a.value == b.value && a.producer == b.producer && a.marker == b.marker &&
           a.aborts == b.aborts && (a.marker || a.sequence == b.sequence);
  }
};

constexpr int64_t kTransactional = 100;                                              // producer ids from here on
using View = std::map<std::string, std::pair<int64_t, std::optional<std::string>>>;  // key → last offset and value

// What is in the log, batch by batch.
struct Found {
  std::map<int64_t, Record> records;  // by offset
  View committed;                     // as a read_committed consumer sees it
};

// nullopt: a segment's indexes are being looked at; later.
std::optional<Found> readBack(Log& log, Offset stable) {
  Found found;
  record::Workspace workspace;
  auto aborted = log.abortedTransactions(log.start(), stable);
  REQUIRE(aborted.has_value());
  std::ranges::sort(*aborted, {}, &AbortedTransaction::first);
  size_t nextAborted = 0;
  std::set<ProducerId> aborting;
  Offset next = log.start();
  while (next < log.end()) {
    auto slice = log.read(next, 3000, log.end(), true);
    REQUIRE_MESSAGE(slice.has_value(), (slice ? "" : slice.failure().message));
    if (slice->file == nullptr) return std::nullopt;
    Buffer bytes(slice->length);
    bytes.resize(slice->file->read(slice->position, bytes));
    Bytes left = bytes;
    const Offset before = next;
    while (true) {
      record::NextBatch batch = record::nextBatch(left);
      if (batch.kind != record::NextBatch::Kind::whole) break;
      left = left.subspan(batch.sizeBytes);
      record::BatchView view(batch.batch);
      REQUIRE(view.crcOk());
      REQUIRE(view.nextOffset() > next);
      while (nextAborted < aborted->size() && (*aborted)[nextAborted].first <= view.lastOffset())
        aborting.insert((*aborted)[nextAborted++].producer);
      auto reader = record::openRecords(view, workspace);
      REQUIRE(reader.has_value());
      bool isVisible = view.lastOffset() < stable && !view.isControl() &&
                       !(view.isTransactional() && aborting.contains(view.producerId()));
      record::RecordView one;
      while (reader->next(one)) {
        Record record{.producer = view.producerId(),
                      .sequence = view.baseSequence() < 0 ? -1 : view.baseSequence() + one.offsetDelta,
                      .transactional = view.isTransactional(),
                      .marker = view.isControl()};
        if (view.isControl()) {
          record.aborts = record::readControlRecord(view, workspace)->type == record::ControlType::abort;
        } else {
          record.key = std::string(asText(*one.key));
          if (one.value) record.value = std::string(asText(*one.value));
        }
        if (record.aborts) aborting.erase(view.producerId());
        if (one.offset < log.start()) continue;
        if (isVisible) found.committed[record.key] = {one.offset.value(), record.value};
        found.records[one.offset.value()] = std::move(record);
      }
      REQUIRE(reader->ok());
      next = view.nextOffset();
    }
    REQUIRE(next > before);
  }
  return found;
}

class Driver {
 public:
  explicit Driver(uint64_t seed) : random_(seed), world_({.seed = seed}), node_(world_.addNode()) {
    settings_ = plainSettings();
    settings_.cleanup = {.deletes = false, .compacts = true};
    settings_.segmentBytes = static_cast<int32_t>(random_.between(700, 3000));
    settings_.indexIntervalBytes = static_cast<int32_t>(random_.between(1, 600));
    settings_.minCleanableDirtyRatio = random_.chance(1, 2) ? 0.0 : 0.4;
    settings_.deleteRetentionMs = static_cast<int64_t>(random_.between(0, 150));
    settings_.fileDeleteDelayMs = static_cast<int64_t>(random_.below(2) * 20);
    if (random_.chance(1, 4)) settings_.minCompactionLagMs = static_cast<int64_t>(random_.between(1, 100));
    if (random_.chance(1, 3)) settings_.durability = config::Durability::pageCache;
    keys_ = random_.between(2, 30);
  }

  void run(int lives) {
    world_.run([&]() -> Co<void> {
      for (int life = 0; life < lives; ++life) {
        stopAsked_ = diskStopped_ = false;
        const bool atOperation = random_.chance(1, 2);
        if (atOperation) stopDiskAt(random_.between(1, 60));
        node_.start(2, [this](Shard& first) { return this->live(first); });
        auto ended = node_.ended();
        co_await world_.sleep(Duration(static_cast<int64_t>(random_.between(20, 500)) * 1'000'000));
        const bool clean = !diskStopped_ && random_.chance(1, 3);
        node_.disk().setFault(nullptr);
        if (!clean) {
          powerCut_ = diskStopped_ || random_.chance(1, 2);
          if (powerCut_) {
            node_.crash();
          } else {
            node_.kill();
          }
        } else {
          stopAsked_ = true;
        }
        co_await ended;
        REQUIRE(node_.disk().changesAfterCrash() == 0);
      }
    });
  }
  uint64_t cleans = 0;
  uint64_t missing = 0;
  uint64_t unfinished = 0;  // starts that found a clean unfinished

 private:
  // From the nth change of what compaction works on, the disk does nothing any more: a crash just there.
  void stopDiskAt(uint64_t n) {
    node_.disk().setFault([this, n, seen = uint64_t{0}](sim::DiskOperation operation, const std::string& path) mutable {
      if (diskStopped_) return EIO;
      bool counts = path.find(".cleaned") != std::string::npos || path.find(".swap") != std::string::npos ||
                    path.find(".deleted") != std::string::npos || path.find("cleaner-offset") != std::string::npos ||
                    path.ends_with("compacted") || operation == sim::DiskOperation::syncDirectory;
      if (counts && operation != sim::DiskOperation::read && ++seen == n) diskStopped_ = true;
      return diskStopped_ ? EIO : 0;
    });
  }

  Co<void> live(Shard& first) {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    options.markInterval = 20ms;
    options.pageCacheSyncInterval = 30ms;
    options.tuning.scrubBytesPerSecond = random_.chance(1, 2) ? 1_MiB : 0;
    options.scrubPassMin = 20ms;
    options.openFilesMax = static_cast<uint32_t>(random_.between(2, 40));
    options.tuning.cleanBackoff = Duration(static_cast<int64_t>(random_.between(1, 20)) * 1'000'000);
    options.tuning.cleanMapBytes = KeyMap::kPlaceBytes * random_.between(2, 40);
    options.inlineCheckBytesMax = random_.chance(1, 2) ? 64_MiB : 100;
    std::optional<LogDirectory> directory;
    try {
      if (first.files().exists("/data/t-0")) {
        for (const DirectoryEntry& entry : first.files().list("/data/t-0")) {
          unfinished += entry.name.ends_with(kSwapSuffix);
        }
      }
      directory.emplace(first, options, DirectoryOwner{.clusterId = {}, .node = NodeId(1)});
    } catch (const kj::Exception&) {
      REQUIRE(diskStopped_);
    }
    if (!directory) co_await kj::Promise<void>(kj::NEVER_DONE);
    LogShard logs(node_.shard(1), *directory);
    auto opened = co_await logs.open({"t", 0}, Life::idOf("t"), settings_);
    if (!opened || (*opened)->offlineReason()) {
      const std::string reason = opened ? *(*opened)->offlineReason() : opened.failure().message;
      REQUIRE_MESSAGE(diskStopped_, reason);
      co_await kj::Promise<void>(kj::NEVER_DONE);
    }
    Log& log = **opened;
    if (!diskStopped_) {
      for (const DirectoryEntry& entry :
           first.files().exists("/data/t-0") ? first.files().list("/data/t-0") : std::vector<DirectoryEntry>()) {
        REQUIRE_FALSE(entry.name.ends_with(kSwapSuffix));
        REQUIRE_FALSE(entry.name.ends_with(kCleanedSuffix));
      }
      co_await takeOver(log);
    }
    while (!stopAsked_ && !diskStopped_) {
      co_await step(log);
      log.setHighWatermark(log.durableEnd());
      durable_ = std::max(durable_, log.durableEnd().value());
      if (!diskStopped_ && random_.chance(1, 10)) co_await check(log);
    }
    cleans += logs.figures().cleans;
    REQUIRE(logs.figures().damagedBatches == 0);
    if (diskStopped_) co_await kj::Promise<void>(kj::NEVER_DONE);
    REQUIRE(logs.figures().uncleanable == 0);
    co_await check(log);
    co_await logs.close();
    co_await directory->close();
  }

  // After a start: the model takes over what it could not know.
  Co<void> takeOver(Log& log) {
    const int64_t end = log.end().value();
    const bool lossy = std::exchange(powerCut_, false) && settings_.durability == config::Durability::pageCache;
    if (!lossy) REQUIRE(end >= std::min(durable_, endMin_));
    sequencesKnown_ = sequencesKnown_ && !lossy;
    if (end > static_cast<int64_t>(log_.size())) {
      REQUIRE(end == static_cast<int64_t>(log_.size() + inFlight_.size()));
      log_.insert(log_.end(), inFlight_.begin(), inFlight_.end());
    }
    log_.resize(static_cast<size_t>(end));
    inFlight_.clear();
    REQUIRE(log.start().value() >= start_);
    REQUIRE(log.start().value() <= std::max(start_, startAsked_));
    start_ = startAsked_ = log.start().value();
    durable_ = end;
    endMin_ = INT64_MAX;
    log.setHighWatermark(log.durableEnd());
    co_await check(log);
  }

  Co<void> check(Log& log) {
    std::map<int64_t, int64_t> open;       // producer → first offset
    std::map<int64_t, int32_t> sequences;  // last ones
    std::vector<bool> isAborted(log_.size());
    std::map<int64_t, std::vector<size_t>> inside;
    for (size_t i = 0; i < log_.size(); ++i) {
      const Record& record = log_[i];
      const int64_t producer = record.producer.value();
      if (record.marker) {
        for (size_t at : inside[producer]) isAborted[at] = record.aborts;
        inside[producer].clear();
        open.erase(producer);
      } else if (producer >= 0) {
        sequences[producer] = record.sequence;
        if (record.transactional) {
          inside[producer].push_back(i);
          // What begins below the start may be forgotten after a crash.
          if (static_cast<int64_t>(i) >= log.start().value()) open.try_emplace(producer, static_cast<int64_t>(i));
        }
      }
    }
    Offset stable = log.lastStableOffset(log.durableEnd());
    int64_t expected = log.durableEnd().value();
    for (const auto& [producer, first] : open) expected = std::min(expected, first);
    REQUIRE(stable.value() <= expected);

    auto read = readBack(log, stable);
    while (!read) {
      co_await world_.sleep(3ms);
      if (diskStopped_) co_return;
      read = readBack(log, stable);
    }
    const Found& found = *read;
    View all;
    const int64_t now = node_.wallNow().value();
    for (size_t i = static_cast<size_t>(log.start().value()); i < log_.size(); ++i) {
      const auto at = found.records.find(static_cast<int64_t>(i));
      if (at == found.records.end()) {
        ++missing;
        INFO("offset ", i, " is gone, stable ", stable.value(), " of ", expected, ", durable ",
             log.durableEnd().value());
        REQUIRE(static_cast<int64_t>(i) < stable.value());
        continue;
      }
      INFO("offset ", i, ": key ", at->second.key, ", appended ", log_[i].key);
      REQUIRE(at->second == log_[i]);
    }
    REQUIRE((found.records.empty() || found.records.rbegin()->first < static_cast<int64_t>(log_.size())));
    for (size_t i = static_cast<size_t>(log.start().value()); i < static_cast<size_t>(stable.value()); ++i) {
      if (!log_[i].marker && !isAborted[i]) all[log_[i].key] = {static_cast<int64_t>(i), log_[i].value};
    }
    for (const auto& [key, seen] : found.committed) {
      INFO("key ", key, " at ", seen.first, ", start ", log.start().value(), " stable ", stable.value());
      REQUIRE(all.contains(key));
      REQUIRE(seen == all.at(key));
    }
    for (const auto& [key, last] : all) {
      if (found.committed.contains(key)) continue;
      INFO("key ", key, " at ", last.first, " is gone");
      REQUIRE_FALSE(last.second.has_value());
      REQUIRE(now - log_[static_cast<size_t>(last.first)].appended >= settings_.deleteRetentionMs);
    }
    if (!sequencesKnown_ || start_ > 0) co_return;
    std::map<int64_t, int32_t> known;
    for (const ProducerView& producer : log.producers()) known[producer.id.value()] = producer.lastSequence;
    for (const auto& [producer, sequence] : sequences) {
      INFO("producer ", producer);
      REQUIRE(known.contains(producer));
      REQUIRE(known.at(producer) == sequence);
    }
  }

  Co<void> step(Log& log) {
    switch (random_.below(24)) {
      case 0: static_cast<void>(log.roll().has_value()); break;
      case 1:
      case 2: co_await world_.sleep(Duration(static_cast<int64_t>(random_.below(40)) * 1'000'000)); break;
      case 3: {
        if (random_.chance(4, 5) || log.durableEnd() <= log.start()) break;
        Offset to = log.start() +
                    static_cast<int64_t>(random_.below(static_cast<uint64_t>(log.durableEnd() - log.start()) / 4 + 1));
        startAsked_ = std::max(startAsked_, to.value());
        auto moved = co_await log.deleteRecordsTo(to);
        if (moved) start_ = std::max(start_, moved->value());
        break;
      }
      case 4: {
        // Nothing that was committed is cut.
        if (random_.chance(4, 5) || log.end() <= log.durableEnd()) break;
        Offset to = log.durableEnd();
        endMin_ = to.value();
        auto cut = co_await log.truncateTo(to);
        if (cut) log_.resize(static_cast<size_t>(log.end().value()));
        endMin_ = INT64_MAX;
        break;
      }
      default: co_await append(log);
    }
  }

  Co<void> append(Log& log) {
    std::map<int64_t, int32_t> sequences;
    std::set<int64_t> open;
    for (const Record& record : log_) {
      const int64_t producer = record.producer.value();
      if (record.marker) {
        open.erase(producer);
      } else if (producer >= 0) {
        sequences[producer] = record.sequence + 1;
        if (record.transactional) open.insert(producer);
      }
    }
    std::vector<Record> records;
    Buffer batch;
    Origin origin = Origin::client;
    const int64_t now = node_.wallNow().value();
    if (!open.empty() && random_.chance(1, 4)) {
      const int64_t producer = *std::next(open.begin(), static_cast<int64_t>(random_.below(open.size())));
      const bool aborts = random_.chance(1, 2);
      batch = record::endTxnMarker(aborts ? record::ControlType::abort : record::ControlType::commit,
                                   ProducerId(producer), 0, 1, WallMs(now));
      records.push_back({.producer = ProducerId(producer), .transactional = true, .marker = true, .aborts = aborts});
      origin = Origin::coordinator;
    } else {
      record::BatchOptions options;
      if (random_.chance(1, 3)) options.codec = record::Codec::lz4;
      const uint64_t kind = random_.below(6);
      if (kind == 0) options.producerId = ProducerId(static_cast<int64_t>(random_.below(3)));
      if (kind <= 2 && kind > 0) {
        options.producerId = ProducerId(kTransactional + static_cast<int64_t>(random_.below(3)));
        options.isTransactional = true;
      }
      if (options.producerId != kNoProducer) {
        options.producerEpoch = 0;
        options.baseSequence = sequences[options.producerId.value()];
      }
      record::BatchBuilder builder(options);
      const uint64_t count = random_.between(1, 5);
      for (uint64_t i = 0; i < count; ++i) {
        Record record{.key = fmt::format("k{}", random_.below(keys_)),
                      .producer = options.producerId,
                      .sequence = options.baseSequence < 0 ? -1 : options.baseSequence + static_cast<int32_t>(i),
                      .transactional = options.isTransactional};
        if (!random_.chance(1, 5)) {
          record.value = fmt::format("{}", nextValue_++);
          record.value->resize(std::max<size_t>(random_.below(90), record.value->size()), '.');
        }
        record::NewRecord put{.timestamp = WallMs(now), .key = asBytes(record.key)};
        if (record.value) put.value = asBytes(*record.value);
        builder.add(put);
        records.push_back(std::move(record));
      }
      record::Workspace workspace;
      batch = builder.build(workspace);
    }
    for (Record& record : records) record.appended = now;
    inFlight_ = records;
    const uint64_t guard = origin == Origin::client ? guardFor(log, batch) : 0;
    auto answer =
        co_await log.append({.bytes = batch, .origin = origin, .leaderEpoch = LeaderEpoch(1), .guard = guard});
    if (!answer) {
      INFO(answer.failure().message);
      REQUIRE(diskStopped_);
      co_return;
    }
    inFlight_.clear();
    REQUIRE(answer->offsets.first.value() == static_cast<int64_t>(log_.size()));
    log_.insert(log_.end(), records.begin(), records.end());
  }

  Prng random_;
  sim::SimWorld world_;
  sim::SimNode& node_;
  config::TopicSettings settings_;
  uint64_t keys_ = 0;
  std::vector<Record> log_;  // by offset
  std::vector<Record> inFlight_;
  int64_t durable_ = 0;
  int64_t start_ = 0, startAsked_ = 0;
  int64_t endMin_ = INT64_MAX;
  int nextValue_ = 0;
  bool stopAsked_ = false;
  bool diskStopped_ = false;
  bool powerCut_ = false;
  bool sequencesKnown_ = true;
};

}  // namespace

TEST_CASE("compaction: hundreds of lives with kills, power cuts and disks that stop agree with a naive model") {
  uint64_t cleans = 0, missing = 0, unfinished = 0;
  const char* only = std::getenv("MQ_SEED");
  const char* count = std::getenv("MQ_SEEDS");
  const uint64_t seeds = count != nullptr ? std::strtoull(count, nullptr, 10) : 60;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    if (only != nullptr && seed != std::strtoull(only, nullptr, 10)) continue;
    INFO("repeat with MQ_SEED=", seed);
    Driver driver(seed);
    driver.run(8);
    cleans += driver.cleans;
    missing += driver.missing;
    unfinished += driver.unfinished;
  }
  if (only != nullptr) return;
  CHECK(cleans > 100);
  CHECK(missing > 1000);
  CHECK(unfinished > 0);
}
