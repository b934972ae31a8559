// Log on real files: append, read, sync, roll, recover.
#include "storage/log.h"

#include <doctest/doctest.h>

#include <fstream>

#include "log_fixture.h"

using namespace mq;
using namespace mq::storage;

TEST_CASE("Log: what was appended in one turn is written at its end, in the order of the calls, and is read back") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         CHECK_FALSE(std::filesystem::exists(life.directory.options().path + "/t-0"));
         std::vector<kj::Promise<Appended>> appends;
         for (int i = 0; i < 10; ++i) appends.push_back(put(*log, makeBatch({.records = 3, .value = 3 * i})));
         CHECK(log->end() == Offset(0));
         for (int i = 0; i < 10; ++i) {
           Appended appended = co_await appends[i];
           CHECK(appended.offsets == OffsetRange{Offset(3 * i), Offset(3 * i + 3)});
         }
         CHECK(log->end() == Offset(30));
         co_await log->whenDurable(Offset(30));
         CHECK(log->durableEnd() == Offset(30));
         ReadBack back = readAll(*log, Offset(0));
         CHECK(back.offsets == range(0, 30));
         CHECK(back.values[17] == "17");
         CHECK(readAll(*log, Offset(11), 1).offsets == range(11, 30));
       }));
  // And after a clean stop, without a scan.
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         CHECK(life.directory.wasClean());
         Log* log = co_await life.open("t", plainSettings());
         CHECK(life.logs.figures().recoveredLogs == 0);
         CHECK(log->end() == Offset(30));
         CHECK(readAll(*log, Offset(0)).offsets == range(0, 30));
         CHECK((co_await put(*log, makeBatch({.records = 2}))).offsets.first == Offset(30));
       }));
}

TEST_CASE("Log: after a kill everything written is there, also over rolls, and appends go on where it ended") {
  TestDirectory temp;
  int64_t end = 0;
  for (int life = 0; life < 4; ++life) {
    live(temp / "data", life % 2 == 0 ? End::kill : End::close, keep([&](Life& l) -> Co<void> {
           auto settings = plainSettings();
           settings.segmentBytes = 4096;
           Log* log = co_await l.open("t", settings);
           CHECK(log->offlineReason().value_or("") == "");
           REQUIRE(log->end() == Offset(end));
           CHECK(readAll(*log, Offset(0)).offsets == range(0, end));
           for (int i = 0; i < 100; ++i) {
             Appended appended =
                 co_await put(*log, makeBatch({.records = 2, .value = static_cast<int>(end)}), LeaderEpoch(life));
             REQUIRE(appended.offsets.first == Offset(end));
             end = appended.offsets.end.value();
             if (i % 10 == 0) co_await log->whenDurable(Offset(end));
           }
           CHECK(log->segmentCount() > 2);
           CHECK(readAll(*log, Offset(0)).offsets == range(0, end));
           CHECK(log->epochEnd(LeaderEpoch(life)).end == Offset(end));
           if (life > 0) CHECK(log->epochEnd(LeaderEpoch(life - 1)).end == Offset(200 * life));
         }));
  }
}

TEST_CASE(
    "Log: a duplicate of what is only queued gets the same offsets, and old, new and unknown sequences their errors") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         auto batch = [](int32_t sequence, int16_t epoch = 0) {
           return makeBatch({.records = 2, .producer = ProducerId(9), .epoch = epoch, .sequence = sequence});
         };
         Buffer first = batch(0), again = batch(0), second = batch(2), gap = batch(6);
         auto a = log->append({.bytes = first});
         auto b = log->append({.bytes = again});
         auto c = log->append({.bytes = second});
         auto d = log->append({.bytes = gap});
         CHECK((co_await a)->offsets == OffsetRange{Offset(0), Offset(2)});
         auto duplicate = co_await b;
         REQUIRE(duplicate.has_value());
         CHECK(duplicate->duplicate);
         CHECK(duplicate->offsets == OffsetRange{Offset(0), Offset(2)});
         CHECK((co_await c)->offsets == OffsetRange{Offset(2), Offset(4)});
         CHECK((co_await d).errorCode() == Error::outOfOrderSequenceNumber);
         CHECK(log->end() == Offset(4));
         REQUIRE(log->producers().size() == 1);
         CHECK(log->producers()[0].lastSequence == 3);
         Buffer fenced = batch(0, 1), old = batch(4, 0);
         CHECK((co_await log->append({.bytes = fenced})).has_value());
         CHECK((co_await log->append({.bytes = old})).errorCode() == Error::invalidProducerEpoch);
       }));
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         Buffer repeated = makeBatch({.records = 2, .producer = ProducerId(9), .epoch = 1, .sequence = 0});
         auto answer = co_await log->append({.bytes = repeated});
         REQUIRE(answer.has_value());
         CHECK(answer->duplicate);
         CHECK(answer->offsets == OffsetRange{Offset(4), Offset(6)});
       }));
}

TEST_CASE("Log: a damaged batch or one that is too large is refused, and what comes before and behind it is not") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         auto settings = plainSettings();
         settings.maxMessageBytes = 5000;
         Log* log = co_await life.open("t", settings);
         Buffer good = makeBatch({}), damaged = makeBatch({}), large = makeBatch({.valueBytes = 6000}),
                last = makeBatch({});
         damaged.back() ^= 1;
         auto a = log->append({.bytes = good});
         auto b = log->append({.bytes = damaged});
         auto c = log->append({.bytes = large});
         auto d = log->append({.bytes = last});
         CHECK((co_await a)->offsets.first == Offset(0));
         CHECK((co_await b).errorCode() == Error::corruptMessage);
         CHECK((co_await c).errorCode() == Error::messageTooLarge);
         CHECK((co_await d)->offsets.first == Offset(1));
         Buffer none;
         CHECK_FALSE((co_await log->append({.bytes = none})).has_value());
       }));
}

TEST_CASE("Log: large batches are compressed off the loop and small ones behind them keep their place") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         auto settings = plainSettings();
         settings.compression = config::CompressionType::zstd;
         Log* log = co_await life.open("t", settings);
         std::vector<kj::Promise<Appended>> appends;
         for (int i = 0; i < 6; ++i) {
           appends.push_back(put(
               *log, makeBatch({.records = 1, .valueBytes = i % 2 == 0 ? size_t(300'000) : size_t(20), .value = i})));
         }
         for (int i = 0; i < 6; ++i) CHECK((co_await appends[i]).offsets.first == Offset(i));
         ReadBack back = readAll(*log, Offset(0));
         CHECK(back.offsets == range(0, 6));
         CHECK(back.values == std::vector<std::string>{"0", "1", "2", "3", "4", "5"});
         CHECK(log->sizeBytes() < 10'000);
       }));
}

TEST_CASE("Log: every codec, append times, transactions and rolls are read back equal after a kill") {
  // With MQ_KEEP the directory stays there, for Kafka's own tool to judge.
  const char* keepAt = std::getenv("MQ_KEEP");
  TestDirectory temp;
  std::string path = keepAt != nullptr ? keepAt : temp / "data";
  using Type = config::CompressionType;
  const Type types[] = {Type::autoLz4, Type::producer, Type::uncompressed, Type::gzip,
                        Type::snappy,  Type::lz4,      Type::zstd};
  auto settingsOf = [&](Type type) {
    auto settings = plainSettings();
    settings.compression = type;
    settings.segmentBytes = 64 << 10;
    if (type == Type::zstd) settings.timestampType = config::TimestampType::logAppendTime;
    return settings;
  };
  auto nameOf = [](Type type) { return fmt::format("c{}", static_cast<int>(type)); };
  live(path, End::kill, keep([&](Life& life) -> Co<void> {
         for (Type type : types) {
           Log* log = co_await life.open(nameOf(type), settingsOf(type));
           for (int i = 0; i < 60; ++i) {
             co_await put(*log,
                          makeBatch({.records = 20,
                                     .valueBytes = 200,
                                     .timestamp = 1'700'000'000'000 + i * 100,
                                     .codec = static_cast<record::Codec>(i % 5),
                                     .value = i * 20}),
                          LeaderEpoch(i / 25));
           }
           for (int i = 0; i < 6; ++i) {
             ProducerId producer(40 + i);
             co_await put(
                 *log,
                 makeBatch({.records = 3, .producer = producer, .epoch = 0, .sequence = 0, .transactional = true}),
                 LeaderEpoch(2));
             if (i == 5) break;  // stays open
             Buffer marker = record::endTxnMarker(i % 2 == 0 ? record::ControlType::abort : record::ControlType::commit,
                                                  producer, 0, 1, WallMs(1'700'000'000'000));
             auto done =
                 co_await log->append({.bytes = marker, .origin = Origin::coordinator, .leaderEpoch = LeaderEpoch(2)});
             REQUIRE(done.has_value());
           }
           co_await log->whenDurable(log->end());
         }
       }));
  for (int round = 0; round < 2; ++round) {
    live(path, End::close, keep([&](Life& life) -> Co<void> {
           for (Type type : types) {
             INFO(static_cast<int>(type));
             Log* log = co_await life.open(nameOf(type), settingsOf(type));
             CHECK(log->offlineReason().value_or("") == "");
             CHECK(log->end() == Offset(1200 + 23));
             ReadBack back = readAll(*log, Offset(0));
             CHECK_FALSE(back.failure.has_value());
             CHECK(back.offsets.size() == 1200 + 18);
             CHECK(back.values[1199] == "1199");
             auto aborted = log->abortedTransactions(Offset(0), log->end());
             REQUIRE(aborted.has_value());
             CHECK(aborted->size() == 3);
             log->setHighWatermark(log->end());
             CHECK(log->lastStableOffset(log->end()) == Offset(1220));
             auto found = co_await log->offsetForTime(1'700'000'003'005);
             REQUIRE(found.has_value());
             if (type != Type::zstd) CHECK(found->offset == Offset(605));
             auto largest = co_await log->offsetForTime(kMaxTimestamp);
             REQUIRE(largest.has_value());
             if (type != Type::zstd) CHECK(largest->timestamp == WallMs(1'700'000'005'919));
             CHECK(log->epochEnd(LeaderEpoch(0)).end == Offset(500));
           }
         }));
  }
}

TEST_CASE("Log: retention by size and by age drops whole sealed segments, future timestamps pin nothing") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         auto settings = plainSettings();
         settings.segmentBytes = 2000;
         settings.retentionMs = -1;
         Log* log = co_await life.open("t", settings);
         const int64_t future = life.shard.wallNow().value() + 315'000'000'000;
         for (int i = 0; i < 40; ++i)
           co_await put(*log, makeBatch({.records = 1, .valueBytes = 400, .timestamp = future}));
         co_await log->whenDurable(log->end());
         log->setHighWatermark(Offset(40));
         size_t segments = log->segmentCount();
         REQUIRE(segments > 8);
         log->enforceRetention();
         CHECK(log->start() == Offset(0));
         settings.retentionBytes = 5000;
         log->setSettings(settings);
         log->enforceRetention();
         CHECK(log->start() > Offset(20));
         CHECK(log->sizeBytes() >= 5000);
         Offset start = log->start();
         settings.retentionBytes = -1;
         settings.retentionMs = 20;
         log->setSettings(settings);
         co_await life.shard.after(60ms);
         log->enforceRetention();
         CHECK(log->start() == Offset(40));
         CHECK(start < Offset(40));
         for (int i = 0; i < 500 && log->segmentCount() > 1; ++i) co_await life.shard.after(10ms);
         CHECK(log->segmentCount() == 1);
         CHECK(log->read(Offset(39), 1000, Offset(40), true).errorCode() == Error::offsetOutOfRange);
         CHECK((co_await put(*log, makeBatch({}))).offsets.first == Offset(40));
       }));
}

TEST_CASE("Log: a new one that begins anew higher up is whole after every end, however early") {
  for (End end : {End::close, End::kill}) {
    for (bool wasListed : {false, true}) {
      TestDirectory temp;
      const int64_t first = wasListed ? 2 : 0;
      live(temp / "data", end, keep([&](Life& life) -> Co<void> {
             Log* log = co_await life.open("t", plainSettings());
             if (wasListed) {
               co_await put(*log, makeBatch({.records = 2}));
               co_await log->whenDurable(Offset(2));
             }
             CHECK((co_await log->restartAt(Offset(first + 5))).has_value());
             CHECK((co_await put(*log, makeBatch({.records = 3}))).offsets.first == Offset(first + 5));
             co_await log->whenDurable(Offset(first + 8));
           }));
      // The marks of the first start are what the second one measures the files by.
      for (int start = 0; start < 2; ++start) {
        live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
               Log* log = co_await life.open("t", plainSettings());
               CHECK(log->offlineReason().value_or("") == "");
               CHECK(log->start() == Offset(first + 5));
               CHECK(log->end() == Offset(first + 8));
             }));
      }
    }
  }
}

TEST_CASE("Log: a segment's age survives restarts, clean and not, and bogus file times count from the restart") {
  for (End end : {End::close, End::kill}) {
    for (auto [ageHours, dropped] :
         {std::pair(48, true), std::pair(0, false), std::pair(-48, false), std::pair(24 * 365 * 40, false)}) {
      CAPTURE(ageHours);
      TestDirectory temp;
      auto settings = plainSettings();
      settings.segmentBytes = 2000;
      settings.retentionMs = -1;
      live(temp / "data", end, keep([&](Life& life) -> Co<void> {
             Log* log = co_await life.open("t", settings);
             const int64_t future = life.shard.wallNow().value() + 315'000'000'000;
             for (int i = 0; i < 20; ++i)
               co_await put(*log, makeBatch({.records = 1, .valueBytes = 400, .timestamp = future}));
             co_await log->whenDurable(log->end());
           }));
      for (const auto& entry : std::filesystem::directory_iterator(temp / "data/t-0")) {
        if (entry.path().extension() != ".log") continue;
        std::filesystem::last_write_time(entry.path(),
                                         std::filesystem::file_time_type::clock::now() - std::chrono::hours(ageHours));
      }
      settings.retentionMs = 24 * 3'600'000;
      live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
             Log* log = co_await life.open("t", settings);
             log->setHighWatermark(log->end());
             log->enforceRetention();
             CHECK(log->start() == Offset(dropped ? 20 : 0));
             co_return;
           }));
    }
  }
}

TEST_CASE("Log: indexes of a large segment are made ready off the loop, damaged or not, and the reader is told") {
  struct Reader final : LogObserver {
    int told = 0;
    void written(Offset) override {}
    void readable() override { ++told; }
    void durable(Offset) override {}
    void startMoved(Offset) override {}
    void wentOffline(const std::string&) override {}
    void foundDamage(OffsetRange) override {}
  };
  TestDirectory temp;
  auto settings = plainSettings();
  settings.segmentBytes = 20'000;
  settings.indexIntervalBytes = 200;
  live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", settings);
         for (int i = 0; i < 200; ++i) co_await put(*log, makeBatch({.records = 1, .valueBytes = 400, .value = i}));
         REQUIRE(log->segmentCount() > 3);
       }));
  for (bool damaged : {false, true}) {
    if (damaged) {
      for (const auto& entry : std::filesystem::directory_iterator(temp / "data/t-0")) {
        if (entry.path().extension() == ".index") std::filesystem::resize_file(entry.path(), 16);
        if (entry.path().extension() == ".timeindex") std::ofstream(entry.path()) << "garbage";
      }
    }
    live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
           Log* log = co_await life.open("t", settings);
           Reader reader;
           log->observe(&reader);
           auto first = log->read(Offset(0), 1000, log->end(), true);
           REQUIRE(first.has_value());
           CHECK(first->length == 0);
           CHECK(first->end == Offset(0));
           for (int i = 0; i < 200 && reader.told == 0; ++i) co_await life.shard.after(5ms);
           CHECK(reader.told == 1);
           CHECK(log->read(Offset(0), 1000, log->end(), true)->length > 0);
           std::vector<int64_t> got;
           for (int i = 0; i < 500 && (got.empty() || got.back() != 199); ++i) {
             ReadBack back = readAll(*log, Offset(got.empty() ? 0 : got.back() + 1));
             REQUIRE_FALSE(back.failure.has_value());
             got.insert(got.end(), back.offsets.begin(), back.offsets.end());
             co_await life.shard.after(5ms);
           }
           CHECK(got == range(0, 200));
           log->observe(nullptr);
         }),
         nullptr, [](Options& options) { options.inlineCheckBytesMax = 0; });
  }
}

TEST_CASE("Log: a transaction that began before a clean stop can be aborted after it, and readers hear of it") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         co_await put(
             *log,
             makeBatch({.records = 3, .producer = ProducerId(5), .epoch = 0, .sequence = 0, .transactional = true}));
       }));
  for (int round = 0; round < 2; ++round) {
    live(temp / "data", round == 0 ? End::kill : End::close, keep([&](Life& life) -> Co<void> {
           Log* log = co_await life.open("t", plainSettings());
           if (round == 0) {
             Buffer marker =
                 record::endTxnMarker(record::ControlType::abort, ProducerId(5), 0, 1, life.shard.wallNow());
             auto put =
                 co_await log->append({.bytes = marker, .origin = Origin::coordinator, .leaderEpoch = LeaderEpoch(1)});
             REQUIRE(put.has_value());
             co_await log->whenDurable(log->end());
           }
           auto aborted = log->abortedTransactions(Offset(0), log->end());
           REQUIRE(aborted.has_value());
           REQUIRE(aborted->size() == 1);
           CHECK((*aborted)[0].first == Offset(0));
         }));
  }
}

TEST_CASE("Log: a transaction begins only under a guard, and none that its own end has overtaken (KIP-890)") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         const ProducerId producer(5);
         auto data = [&](int16_t epoch, int32_t sequence) {
           return makeBatch({.producer = producer, .epoch = epoch, .sequence = sequence, .transactional = true});
         };
         auto send = [&](Buffer batch, uint64_t guard) -> Co<Error> {
           auto sent = co_await log->append(
               {.bytes = batch, .origin = Origin::client, .leaderEpoch = LeaderEpoch(1), .guard = guard});
           co_return sent.errorCode();
         };
         auto end = [&](int16_t epoch) -> Co<void> {
           Buffer marker = record::endTxnMarker(record::ControlType::commit, producer, epoch, 1, WallMs(1));
           auto ended =
               co_await log->append({.bytes = marker, .origin = Origin::coordinator, .leaderEpoch = LeaderEpoch(1)});
           REQUIRE(ended.has_value());
         };
         CHECK(co_await send(data(0, 0), 0) == Error::invalidTxnState);
         uint64_t guard = log->guardTransaction(producer, 0);
         REQUIRE(guard != 0);
         CHECK(log->guardTransaction(producer, 0) == guard);  // whoever asks at the same time shares it
         CHECK_FALSE(log->admitsTransaction(producer, 0, 0));
         CHECK(log->admitsTransaction(producer, 0, guard));
         CHECK(co_await send(data(0, 0), guard + 1) == Error::invalidTxnState);
         CHECK(co_await send(data(0, 0), guard) == Error::none);
         CHECK(log->guardTransaction(producer, 0) == 0);  // open
         CHECK(co_await send(data(0, 1), 0) == Error::none);
         CHECK(log->guardTransaction(producer, 1) != 0);  // not for another epoch

         // With each transaction an epoch: a marker of the open one's epoch is one of an earlier transaction.
         storage::ProducerMarker marker{.producer = producer, .epoch = 0, .coordinatorEpoch = 1};
         CHECK(log->mayEnd(marker, false).has_value());
         CHECK(log->mayEnd(marker, true).errorCode() == Error::invalidProducerEpoch);
         marker.epoch = 1;
         CHECK(log->mayEnd(marker, true).has_value());
         co_await end(1);
         CHECK(log->mayEnd(marker, true).has_value());  // it is there already
         marker.epoch = 0;
         CHECK(log->mayEnd(marker, false).errorCode() == Error::invalidProducerEpoch);
         marker = {.producer = producer, .epoch = 1, .coordinatorEpoch = 0};
         CHECK(log->mayEnd(marker, false).errorCode() == Error::transactionCoordinatorFenced);

         // The batch sent again is known; a new one needs a guard, which the marker ends.
         CHECK(co_await send(data(1, 0), 0) == Error::invalidTxnState);
         guard = log->guardTransaction(producer, 1);
         co_await end(1);
         CHECK(co_await send(data(1, 0), guard) == Error::invalidTxnState);
         guard = log->guardTransaction(producer, 1);
         log->guardTransaction(producer, 1);
         log->dropGuard(producer, guard);
         CHECK(log->admitsTransaction(producer, 1, guard));  // one of two who held it
         log->dropGuard(producer, guard);
         CHECK_FALSE(log->admitsTransaction(producer, 1, guard));
         CHECK(co_await send(data(1, 0), guard) == Error::invalidTxnState);
       }));
}

TEST_CASE(
    "Log: a coordinator's batch in a transaction needs it to be open when the batch is queued, not when it came") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         const ProducerId producer(5);
         auto offsets = [&](int16_t epoch) {
           return makeBatch({.producer = producer, .epoch = epoch, .sequence = -1, .transactional = true});
         };
         auto send = [&](Buffer& batch, uint64_t guard) {
           return log->append(
               {.bytes = batch, .origin = Origin::coordinator, .leaderEpoch = LeaderEpoch(1), .guard = guard});
         };
         Buffer first = offsets(0), second = offsets(0), late = offsets(0), fenced = offsets(0), next = offsets(1);
         CHECK((co_await send(late, 0)).errorCode() == Error::invalidTxnState);
         uint64_t guard = log->guardTransaction(producer, 0);
         CHECK((co_await send(first, guard)).errorCode() == Error::none);
         CHECK((co_await send(second, 0)).errorCode() == Error::none);  // no sequence numbers: not a duplicate

         // The marker is not written yet when the late one comes.
         Buffer marker = record::endTxnMarker(record::ControlType::commit, producer, 0, 1, WallMs(1));
         auto ended = log->append({.bytes = marker, .origin = Origin::coordinator, .leaderEpoch = LeaderEpoch(1)});
         CHECK((co_await send(late, 0)).errorCode() == Error::invalidTxnState);
         CHECK((co_await ended).errorCode() == Error::none);
         guard = log->guardTransaction(producer, 1);
         CHECK((co_await send(next, guard)).errorCode() == Error::none);
         CHECK((co_await send(fenced, 0)).errorCode() == Error::invalidProducerEpoch);
         CHECK(log->end() == Offset(4));
       }));
}

TEST_CASE("Log: what a client with five batches in flight sends again after a stop is known, also across a roll") {
  for (End end : {End::kill, End::close}) {
    for (int rollBehind = 0; rollBehind <= 5; ++rollBehind) {
      CAPTURE(rollBehind);
      TestDirectory temp;
      auto nth = [](int i) {
        return makeBatch({.records = 2, .producer = ProducerId(5), .epoch = 0, .sequence = 2 * i, .value = 2 * i});
      };
      live(temp / "data", end, keep([&](Life& life) -> Co<void> {
             Log* log = co_await life.open("t", plainSettings());
             for (int i = 0; i < 8; ++i) {
               co_await put(*log, nth(i));
               if (i == 2 + rollBehind) REQUIRE(log->roll().has_value());
             }
             co_await log->whenDurable(log->end());
             co_await life.shard.after(20ms);  // the snapshot is written behind
           }));
      live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
             Log* log = co_await life.open("t", plainSettings());
             for (int i = 3; i < 8; ++i) {
               Appended again = co_await put(*log, nth(i));
               CHECK(again.duplicate);
               CHECK(again.offsets.first == Offset(2 * i));
             }
             CHECK((co_await put(*log, nth(8))).offsets.first == Offset(16));
           }));
    }
  }
}

TEST_CASE("Log: deleted records stay deleted after a kill, in the middle of a batch too") {
  TestDirectory temp;
  live(temp / "data", End::kill, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         co_await put(*log, makeBatch({.records = 100}));
         auto moved = co_await log->deleteRecordsTo(Offset(37));
         REQUIRE(moved.has_value());
         CHECK(*moved == Offset(37));
         CHECK((co_await log->deleteRecordsTo(Offset(101))).errorCode() == Error::offsetOutOfRange);
       }));
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         CHECK(log->start() == Offset(37));
         CHECK(readAll(*log, Offset(37)).offsets == range(37, 100));
         CHECK((co_await log->offsetForTime(kEarliestTimestamp))->offset == Offset(37));
       }));
}

TEST_CASE("Scrubber: a flipped bit in a sealed segment is found, that batch is refused and the others stay readable") {
  TestDirectory temp;
  KeptLog lines;
  auto settings = plainSettings();
  settings.segmentBytes = 4000;
  live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", settings);
         for (int i = 0; i < 40; ++i) co_await put(*log, makeBatch({.records = 1, .valueBytes = 400, .value = i}));
       }));
  {
    std::fstream file(temp / "data/t-0/00000000000000000000.log", std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(2 * 480 + 300);
    file.put('!');
  }
  live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", settings);
         for (int i = 0; i < 200 && life.logs.figures().damagedBatches == 0; ++i) co_await life.shard.after(10ms);
         CHECK(life.logs.figures().damagedBatches == 1);
         CHECK(lines.has("00000000000000000000.log at byte"));
         ReadBack before = readAll(*log, Offset(0));
         REQUIRE(before.failure.has_value());
         CHECK(before.failure->error == Error::corruptMessage);
         auto bad = static_cast<int64_t>(before.offsets.size());
         CHECK(before.offsets == range(0, bad));
         CHECK(readAll(*log, Offset(bad + 1)).offsets == range(bad + 1, 40));
       }),
       &lines, [](Options& options) {
         options.tuning.scrubBytesPerSecond = 100_MiB;
         options.scrubPassMin = 50ms;
       });
}
