// Log against a naive model, in the simulated world: random appends, rolls, truncations, deletions, clean stops, kills,
// power cuts and full disks, hundreds of lives from fixed seeds. What the model promises:
//
//   durable       what durableEnd() covered is there after any end of the process, with the same offsets and values
//   nothing else  every record that is there was appended, at that offset, and offsets have no holes
//   start         a log start that was acknowledged never goes back
//   producers     a batch that is there is a duplicate when it is sent again; the next sequence goes on
//   transactions  last stable offset and aborted lists are those of a plain walk over what is there
#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <set>

#include "base/random.h"
#include "log_fixture.h"
#include "record/batch.h"
#include "sim_world.h"

using namespace mq;
using namespace mq::storage;

namespace {

struct Record {
  std::string value;
  ProducerId producer = kNoProducer;
  int32_t sequence = -1;
  bool transactional = false;
  bool marker = false;
  bool aborts = false;
  int64_t batchBase = 0;
};

struct Attempt {
  std::vector<Record> records;
};

struct Model {
  std::vector<Record> log;        // by offset, from 0: what is known to be written
  std::vector<Attempt> inFlight;  // accepted, not answered
  int64_t durable = 0;
  int64_t start = 0;           // acknowledged
  int64_t startAsked = 0;      // may have taken effect
  int64_t endMin = INT64_MAX;  // a truncation to here may have taken effect
  int nextValue = 0;
};

constexpr int64_t kProducers = 3;
constexpr int64_t kTransactional = 100;  // producer ids from here on

kj::Promise<Result<Appended>> append(Log& log, MutableBytes batch, Origin origin) {
  return log.append({.bytes = batch, .origin = origin, .leaderEpoch = LeaderEpoch(1), .guard = guardFor(log, batch)});
}

constexpr int16_t kEpoch = 0;

// Everything a plain walk over the records tells.
struct Walk {
  std::map<int64_t, int32_t> nextSequence;  // by producer
  std::map<int64_t, int64_t> open;          // transactional producer to first offset
  std::vector<AbortedTransaction> aborted;  // lastStable unset
};

Walk walk(const std::vector<Record>& log) {
  Walk result;
  for (size_t i = 0; i < log.size(); ++i) {
    const Record& record = log[i];
    int64_t producer = record.producer.value();
    if (record.marker) {
      auto open = result.open.find(producer);
      if (open != result.open.end() && record.aborts) {
        result.aborted.push_back({.producer = record.producer,
                                  .first = Offset(open->second),
                                  .last = Offset(static_cast<int64_t>(i)),
                                  .lastStable = {}});
      }
      if (open != result.open.end()) result.open.erase(open);
    } else if (producer >= 0) {
      result.nextSequence[producer] = record.sequence + 1;
      if (record.transactional) result.open.try_emplace(producer, record.batchBase);
    }
  }
  return result;
}

std::vector<Record> readRecords(Log& log, Offset from) {
  std::vector<Record> records;
  record::Workspace workspace;
  Offset next = from;
  while (next < log.end()) {
    auto slice = log.read(next, 3000, log.end(), true);
    REQUIRE_MESSAGE(slice.has_value(), (slice ? "" : slice.failure().message));
    REQUIRE(slice->file != nullptr);
    Buffer bytes(slice->length);
    bytes.resize(slice->file->read(slice->position, bytes));
    Bytes left = bytes;
    Offset before = next;
    while (true) {
      record::NextBatch batch = record::nextBatch(left);
      if (batch.kind != record::NextBatch::Kind::whole) break;
      left = left.subspan(batch.sizeBytes);
      record::BatchView view(batch.batch);
      REQUIRE(view.crcOk());
      REQUIRE(view.baseOffset() <= next);
      auto reader = record::openRecords(view, workspace);
      REQUIRE(reader.has_value());
      record::RecordView one;
      int32_t index = 0;
      while (reader->next(one)) {
        Record record{.producer = view.producerId(),
                      .sequence = view.baseSequence() < 0 ? -1 : view.baseSequence() + index,
                      .transactional = view.isTransactional(),
                      .marker = view.isControl(),
                      .batchBase = view.baseOffset().value()};
        if (view.isControl()) {
          record.aborts = record::readControlRecord(view, workspace)->type == record::ControlType::abort;
        } else {
          record.value = std::string(asText(*one.value));
        }
        ++index;
        if (one.offset >= next) records.push_back(std::move(record));
      }
      next = view.nextOffset();
    }
    REQUIRE(next > before);
  }
  return records;
}

bool same(const Record& a, const Record& b) {
  return a.value == b.value && a.producer == b.producer && a.sequence == b.sequence && a.marker == b.marker &&
         a.aborts == b.aborts;
}

class Driver {
 public:
  Driver(uint64_t seed) : random_(seed), world_({.seed = seed}), node_(world_.addNode()) {
    settings_ = plainSettings();
    settings_.segmentBytes = static_cast<int32_t>(random_.between(700, 6000));
    settings_.indexIntervalBytes = static_cast<int32_t>(random_.between(1, 600));
    settings_.retentionMs = -1;
    if (random_.chance(1, 4)) settings_.durability = config::Durability::pageCache;
    if (random_.chance(1, 4)) settings_.flushMessages = static_cast<int64_t>(random_.between(1, 10));
  }

  void run(int lives) {
    world_.run([&]() -> Co<void> {
      for (int life = 0; life < lives; ++life) {
        ending_ = static_cast<Ending>(random_.below(3));
        node_.start(2, [this](Shard& first) { return this->live(first); });
        auto ended = node_.ended();
        co_await world_.sleep(Duration(static_cast<int64_t>(random_.between(1, 400)) * 1'000'000));
        if (node_.running() && ending_ == Ending::crash) {
          node_.disk().setFault(nullptr);
          node_.disk().setCapacity(UINT64_MAX);
          cutOff(random_.chance(1, 2));
        } else {
          stopAsked_ = true;
        }
        co_await ended;
        REQUIRE(node_.disk().changesAfterCrash() == 0);
        stopAsked_ = false;
      }
    });
  }
  int64_t appended() const { return total_; }

 private:
  enum class Ending { crash, crashBusy, clean };

  Co<void> live(Shard& first) {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    options.markInterval = 20ms;
    options.pageCacheSyncInterval = 100ms;
    options.tuning.scrubBytesPerSecond = random_.chance(1, 2) ? 1_MiB : 0;
    options.scrubPassMin = 50ms;
    options.openFilesMax = static_cast<uint32_t>(random_.between(2, 40));
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(node_.shard(1), directory);
    auto opened = co_await logs.open({"t", 0}, Life::idOf("t"), settings_);
    REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.failure().message));
    Log& log = **opened;
    REQUIRE(log.offlineReason().value_or("") == "");
    compare(log);
    co_await checkTimes(log);
    while (!stopAsked_) co_await step(log);
    // Everything answered, then a clean stop.
    co_await world_.sleep(50ms);
    co_await logs.close();
    co_await directory.close();
  }

  void cutOff(bool power) {
    powerCut_ = power;
    if (power) {
      node_.crash();
    } else {
      node_.kill();
    }
  }

  // After a start: what is there against what was promised. The model takes over what it could not know.
  void compare(Log& log) {
    const int64_t start = log.start().value(), end = log.end().value();
    REQUIRE(start >= model_.start);
    REQUIRE(start <= std::max(model_.start, model_.startAsked));
    // Under page-cache a power cut may take what was appended; a kill may not.
    if (std::exchange(powerCut_, false) && settings_.durability == config::Durability::pageCache) model_.durable = 0;
    const int64_t promised = std::min(model_.durable, model_.endMin);
    REQUIRE(end >= promised);
    std::vector<Record> found = readRecords(log, log.start());
    REQUIRE(static_cast<int64_t>(found.size()) == end - start);
    for (int64_t offset = start; offset < std::min<int64_t>(end, static_cast<int64_t>(model_.log.size())); ++offset) {
      const Record& there = found[static_cast<size_t>(offset - start)];
      INFO("offset ", offset, ": found '", there.value, "', appended '", model_.log[static_cast<size_t>(offset)].value,
           "'");
      REQUIRE(same(there, model_.log[static_cast<size_t>(offset)]));
    }
    model_.log.resize(static_cast<size_t>(std::min<int64_t>(end, static_cast<int64_t>(model_.log.size()))));
    // What nobody was told of may be there, whole batches in the order they were accepted.
    size_t attempt = 0;
    for (int64_t offset = static_cast<int64_t>(model_.log.size()); offset < end;) {
      REQUIRE(attempt < model_.inFlight.size());
      const Attempt& tried = model_.inFlight[attempt++];
      if (offset < start) {  // deleted, so nothing to compare with
        for (Record record : tried.records) model_.log.push_back(record);
        offset += static_cast<int64_t>(tried.records.size());
        continue;
      }
      if (!same(found[static_cast<size_t>(offset - start)], tried.records[0])) continue;
      for (size_t i = 0; i < tried.records.size(); ++i, ++offset) {
        REQUIRE(same(found[static_cast<size_t>(offset - start)], tried.records[i]));
        Record record = found[static_cast<size_t>(offset - start)];
        model_.log.push_back(record);
      }
    }
    model_.inFlight.clear();
    // The start has synced it all; but a log that was not listed yet may still go with the name of its directory.
    model_.durable = log.durableEnd().value();
    REQUIRE((model_.durable == end || model_.durable == 0));
    model_.start = model_.startAsked = start;
    model_.endMin = INT64_MAX;
    checkTransactions(log);
  }

  void checkTransactions(Log& log) {
    Walk expected = walk(model_.log);
    log.setHighWatermark(log.durableEnd());
    Offset stable = log.end();
    for (const auto& [producer, first] : expected.open) stable = std::min(stable, Offset(first));
    if (log.durableEnd() == log.end()) {
      INFO("stable ", log.lastStableOffset(log.end()).value(), ", expected ", stable.value(), ", [",
           log.start().value(), ", ", log.end().value(), ")");
      // On a full disk a snapshot may be missing when segments are deleted, and with it transactions that begin there;
      // a log that was emptied by a cut below its start knows nothing of before.
      if (!mayForget_ || stable >= log.start()) REQUIRE(log.lastStableOffset(log.end()) == stable);
    }
    auto aborted = log.abortedTransactions(log.start(), log.end());
    REQUIRE(aborted.has_value());
    std::vector<AbortedTransaction> want;
    for (const AbortedTransaction& one : expected.aborted) {
      if (one.last >= log.start() && !(mayForget_ && one.first < log.start())) want.push_back(one);
    }
    std::set<Offset> forgotten;  // markers of transactions of which only a part may be known
    for (const AbortedTransaction& one : expected.aborted) {
      if (mayForget_ && one.first < log.start()) forgotten.insert(one.last);
    }
    std::erase_if(*aborted, [&](const AbortedTransaction& one) { return forgotten.contains(one.last); });
    // Segments whose markers were deleted take their entries along; what is left has to be exact.
    INFO("[", log.start().value(), ", ", log.end().value(), "), ", log.segmentCount(), " segments, wanted from ",
         want.empty() ? -1 : want[0].first.value(), " to ", want.empty() ? -1 : want[0].last.value());
    REQUIRE(aborted->size() == want.size());
    for (size_t i = 0; i < want.size(); ++i) {
      REQUIRE((*aborted)[i].producer == want[i].producer);
      REQUIRE((*aborted)[i].first == want[i].first);
      REQUIRE((*aborted)[i].last == want[i].last);
    }
  }

  Co<void> checkTimes(Log& log) {
    auto earliest = co_await log.offsetForTime(kEarliestTimestamp);
    REQUIRE(earliest.has_value());
    REQUIRE(earliest->offset == log.start());
    auto future = co_await log.offsetForTime(INT64_MAX);
    REQUIRE(future.has_value());
    REQUIRE(future->offset == Offset(-1));
  }

  Co<void> step(Log& log) {
    switch (random_.below(20)) {
      case 0: {
        if (log.roll()) {
        }
        break;
      }
      case 1: {
        if (log.end() == log.start()) break;
        Offset to = log.start() +
                    static_cast<int64_t>(random_.below(static_cast<uint64_t>(log.durableEnd() - log.start() + 1)));
        model_.startAsked = std::max(model_.startAsked, to.value());
        auto moved = co_await log.deleteRecordsTo(to);
        if (!moved) {
          REQUIRE(moved.errorCode() == Error::kafkaStorageError);  // the disk is full
          break;
        }
        REQUIRE(moved->value() >= to.value());
        model_.start = std::max(model_.start, to.value());
        break;
      }
      case 2: {
        if (random_.chance(3, 4) || log.end() == log.start()) break;
        Offset to =
            log.start() + static_cast<int64_t>(random_.below(static_cast<uint64_t>(log.end() - log.start() + 1)));
        // It goes back to the beginning of the batch that holds the offset.
        int64_t cut = to.value();
        if (cut < static_cast<int64_t>(model_.log.size()))
          cut = std::max(model_.log[static_cast<size_t>(cut)].batchBase, int64_t(0));
        model_.endMin = std::min(model_.endMin, cut);
        auto done = co_await log.truncateTo(to);
        if (!done) {
          REQUIRE(done.errorCode() == Error::kafkaStorageError);  // the disk is full, and nothing was cut
          model_.endMin = INT64_MAX;
          break;
        }
        REQUIRE(log.end().value() >= std::min(cut, log.start().value()));
        model_.log.resize(static_cast<size_t>(log.end().value()));
        model_.durable = std::min(model_.durable, log.end().value());
        model_.endMin = INT64_MAX;
        if (log.end() == log.start()) mayForget_ = true;
        checkTransactions(log);
        break;
      }
      case 3: {
        if (random_.chance(1, 2)) {
          node_.disk().setCapacity(node_.disk().used() + random_.below(3000));
          mayForget_ = true;
        } else {
          node_.disk().setCapacity(UINT64_MAX);
        }
        break;
      }
      case 4: {
        co_await world_.sleep(Duration(static_cast<int64_t>(random_.below(30)) * 1'000'000));
        break;
      }
      case 5: {
        REQUIRE(readRecords(log, log.start()).size() == static_cast<size_t>(log.end() - log.start()));
        break;
      }
      default: co_await appendSome(log);
    }
    note(log);
  }

  void note(Log& log) {
    model_.durable =
        std::max(model_.durable, std::min<int64_t>(log.durableEnd().value(), static_cast<int64_t>(model_.log.size())));
  }

  // Some batches in one turn.
  Co<void> appendSome(Log& log) {
    struct Sent {
      Buffer batch;
      Attempt attempt;
      bool repeat = false;
      int64_t repeatOf = 0;
      std::optional<kj::Promise<Result<Appended>>> answer;
    };
    std::vector<std::unique_ptr<Sent>> all;
    Walk now = walk(model_.log);
    uint64_t count = random_.between(1, 4);
    for (uint64_t n = 0; n < count; ++n) {
      auto sent = std::make_unique<Sent>();
      uint64_t kind = random_.below(10);
      Origin origin = Origin::client;
      if (kind == 0 && !now.open.empty()) {
        auto open = now.open.begin();
        bool aborts = random_.chance(1, 2);
        sent->batch = record::endTxnMarker(aborts ? record::ControlType::abort : record::ControlType::commit,
                                           ProducerId(open->first), kEpoch, 1, WallMs(1'700'000'000'000));
        sent->attempt.records.push_back(
            {.producer = ProducerId(open->first), .transactional = true, .marker = true, .aborts = aborts});
        now.open.erase(open);
        origin = Origin::coordinator;
      } else {
        BatchSpec spec{.records = static_cast<int>(random_.between(1, 5)),
                       .valueBytes = random_.between(8, 120),
                       .value = model_.nextValue};
        if (kind < 5) spec.producer = ProducerId(static_cast<int64_t>(random_.below(kProducers)));
        if (kind == 5) {
          spec.producer = ProducerId(kTransactional + static_cast<int64_t>(random_.below(2)));
          spec.transactional = true;
          now.open.try_emplace(spec.producer.value(), 0);
        }
        if (spec.producer != kNoProducer) {
          spec.epoch = kEpoch;
          spec.sequence = now.nextSequence[spec.producer.value()];
          now.nextSequence[spec.producer.value()] += spec.records;
        }
        if (random_.chance(1, 4)) spec.codec = record::Codec::lz4;
        model_.nextValue += spec.records;
        sent->batch = makeBatch(spec);
        for (int i = 0; i < spec.records; ++i) {
          std::string value = fmt::format("{}", spec.value + i);
          value.resize(std::max(spec.valueBytes, value.size()), '.');
          sent->attempt.records.push_back({.value = value,
                                           .producer = spec.producer,
                                           .sequence = spec.sequence < 0 ? -1 : spec.sequence + i,
                                           .transactional = spec.transactional});
        }
        // Now and then the last batch is sent once more at once: it may be a duplicate of what is only queued.
        if (spec.producer != kNoProducer && random_.chance(1, 5)) {
          model_.inFlight.push_back(sent->attempt);
          auto again = std::make_unique<Sent>();
          again->batch = sent->batch;
          again->attempt = sent->attempt;
          again->repeat = true;
          again->repeatOf = static_cast<int64_t>(all.size());
          sent->answer = append(log, sent->batch, origin);
          again->answer = append(log, again->batch, origin);
          all.push_back(std::move(sent));
          all.push_back(std::move(again));
          continue;
        }
      }
      model_.inFlight.push_back(sent->attempt);
      sent->answer = append(log, sent->batch, origin);
      all.push_back(std::move(sent));
    }
    if (ending_ == Ending::crashBusy && random_.chance(1, 40)) {
      // The end comes while this is under way.
      bool power = random_.chance(1, 2);
      endSoon_ = world_.sleep(Duration(static_cast<int64_t>(random_.below(3'000'000))))
                     .then([this, power] {
                       if (!node_.running()) return;
                       node_.disk().setCapacity(UINT64_MAX);
                       cutOff(power);
                     })
                     .eagerlyEvaluate(nullptr);
    }
    std::vector<std::optional<Appended>> answers;
    for (auto& sent : all) {
      auto answer = co_await *sent->answer;
      if (answer) {
        answers.push_back(*answer);
        // Where the first was taken back by a full disk, the repetition is the append.
        if (sent->repeat && answers[static_cast<size_t>(sent->repeatOf)]) {
          REQUIRE(answer->duplicate);
          REQUIRE(answer->offsets == answers[static_cast<size_t>(sent->repeatOf)]->offsets);
          continue;
        }
        REQUIRE_FALSE(answer->duplicate);
        REQUIRE(answer->offsets.first.value() == static_cast<int64_t>(model_.log.size()));
        REQUIRE(answer->offsets.end - answer->offsets.first == static_cast<int64_t>(sent->attempt.records.size()));
        for (Record record : sent->attempt.records) {
          record.batchBase = answer->offsets.first.value();
          model_.log.push_back(record);
        }
        total_ += static_cast<int64_t>(sent->attempt.records.size());
      } else {
        answers.push_back(std::nullopt);
        INFO(answer.failure().message);
        bool expected = answer.errorCode() == Error::kafkaStorageError ||
                        answer.errorCode() == Error::outOfOrderSequenceNumber ||
                        answer.errorCode() == Error::invalidTxnState;
        REQUIRE(expected);
      }
      if (!sent->repeat && !model_.inFlight.empty()) model_.inFlight.erase(model_.inFlight.begin());
    }
    REQUIRE(log.end().value() == static_cast<int64_t>(model_.log.size()));
    if (random_.chance(1, 2)) {
      node_.disk().setCapacity(UINT64_MAX);
      co_await log.whenDurable(log.end());
      note(log);
    }
  }

  Prng random_;
  sim::SimWorld world_;
  sim::SimNode& node_;
  config::TopicSettings settings_;
  Model model_;
  Ending ending_ = Ending::clean;
  bool stopAsked_ = false;
  bool powerCut_ = false;
  bool mayForget_ = false;
  int64_t total_ = 0;
  std::optional<kj::Promise<void>> endSoon_;
};

}  // namespace

TEST_CASE("Log: hundreds of lives with crashes, power cuts and full disks agree with a naive model") {
  int64_t appended = 0;
  const char* only = std::getenv("MQ_SEED");
  const uint64_t seeds = 100;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    if (only != nullptr && seed != std::strtoull(only, nullptr, 10)) continue;
    INFO("repeat with MQ_SEED=", seed);
    Driver driver(seed);
    driver.run(6);
    appended += driver.appended();
  }
  CHECK(appended > 1000);
}

// What a start has counted may sit in the page cache only: bytes, and the names of files that are younger than the
// mark.
TEST_CASE("Log: what a start after kill -9 has counted survives a power cut right behind it") {
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed ", seed);
    sim::SimWorld world({.seed = seed});
    sim::SimNode& node = world.addNode();
    config::TopicSettings settings = plainSettings();
    settings.segmentBytes = 1000;
    int64_t end = 0;
    auto life = [&](int batches) -> Co<void> {
      bool done = false;
      node.start(2, [&](Shard& first) -> Co<void> {
        Options options;
        options.path = "/data";
        options.tuning.freeBytesMin = 0;
        options.reserveBytes = 0;
        options.markInterval = 1ms;
        options.tuning.scrubBytesPerSecond = 0;
        LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
        LogShard logs(node.shard(1), directory);
        auto opened = co_await logs.open({"t", 0}, Life::idOf("t"), settings);
        REQUIRE_MESSAGE(opened.has_value(), (opened ? "" : opened.failure().message));
        Log& log = **opened;
        CHECK(log.offlineReason().value_or("") == "");
        CHECK(log.end().value() == end);
        for (int i = 0; i < batches; ++i) {
          Buffer batch = makeBatch({.records = 3, .valueBytes = 100, .value = i});
          REQUIRE((co_await append(log, batch, Origin::client)).has_value());
          // In every other run all is synced for once, so that the mark lies within the log.
          if (i == batches / 2 && seed % 2 == 0) co_await world.sleep(1s);
        }
        if (batches == 0) co_await log.whenDurable(log.end());  // at once, but for a log that is not listed yet
        end = log.end().value();
        done = true;
        co_await world.sleep(1h);
      });
      while (!done) co_await world.sleep(100us);
    };
    world.run([&]() -> Co<void> {
      co_await life(8);
      node.kill();  // before the syncs that came with the last segments are through
      co_await life(0);
      node.crash();
      co_await life(0);
      node.crash();
    });
  }
}
