// LogDirectory and LogShard: whose directory it is, which partitions are in it, and what failing disks do.
#include "storage/log_directory.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/crc32c.h"
#include "log_fixture.h"
#include "sim_world.h"

using namespace mq;
using namespace mq::storage;

namespace {

void write(const std::string& path, std::string_view text) { std::ofstream(path, std::ios::binary) << text; }

std::string read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// What LogDirectory says when it refuses `path`; and nothing may have changed there.
std::string refusal(const std::string& path, DirectoryOwner owner = {.clusterId = {}, .node = NodeId(1)}) {
  std::string reason;
  auto names = [&] {
    std::vector<std::string> all;
    if (!std::filesystem::exists(path)) return all;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path)) all.push_back(entry.path().string());
    std::ranges::sort(all);
    return all;
  };
  auto before = names();
  KeptLog lines;
  UvNode node({.shards = 1, .seed = 1}, lines);
  node.run([&](Shard& first) -> kj::Promise<void> {
    try {
      Options options;
      options.path = path;
      LogDirectory directory(first, options, owner);
    } catch (const kj::Exception& exception) {
      reason = exception.getDescription().cStr();
    }
    return kj::READY_NOW;
  });
  CHECK(names() == before);
  return reason;
}

// One life of a process on a simulated node, to its end.
void runOn(sim::SimWorld& world, sim::SimNode& node, const std::function<Co<void>(Shard& first)>& body) {
  world.run([&] {
    node.start(1, body);
    return node.ended();
  });
}

Co<void> appendTo(Life& life, std::string topic, int count = 1) {
  Log* log = co_await life.open(std::move(topic), plainSettings());
  for (int i = 0; i < count; ++i) co_await put(*log, makeBatch({.records = 1}));
  co_await log->whenDurable(log->end());
}

}  // namespace

TEST_CASE("LogDirectory: a directory of Kafka, of strangers, of another node or of a newer mq is refused untouched") {
  TestDirectory temp;
  std::filesystem::create_directories(temp / "kafka/t-0");
  write(temp / "kafka/meta.properties", "version=1\ncluster.id=x\nnode.id=1\n");
  CHECK(refusal(temp / "kafka").find("a data directory of Apache Kafka") != std::string::npos);

  std::filesystem::create_directories(temp / "strange");
  write(temp / "strange/letter.txt", "dear");
  CHECK(refusal(temp / "strange").find("letter.txt") != std::string::npos);

  live(temp / "mine", End::close, keep([](Life& life) -> Co<void> { co_await appendTo(life, "t"); }));
  CHECK(refusal(temp / "mine", {.clusterId = {}, .node = NodeId(2)}).find("belongs to node 1, not to node 2") !=
        std::string::npos);
  CHECK(refusal(temp / "mine", {.clusterId = Uuid::fromHalves(1, 2), .node = NodeId(1)}).find("belongs to cluster") !=
        std::string::npos);
  std::string text = read(temp / "mine/mq-directory");
  text.replace(text.find("format=1"), 8, "format=9");
  write(temp / "mine/mq-directory", text);
  CHECK(refusal(temp / "mine").find("written by a newer mq") != std::string::npos);
}

TEST_CASE("LogDirectory: one process at a time, and the second is told who holds it") {
  TestDirectory temp;
  live(temp / "data", End::kill, keep([&](Life& life) -> Co<void> {
         Options options = life.directory.options();
         std::string reason;
         try {
           LogDirectory second(life.shard, options, {.clusterId = {}, .node = NodeId(1)});
         } catch (const kj::Exception& exception) {
           reason = exception.getDescription().cStr();
         }
         CHECK(reason.find("is in use by") != std::string::npos);
         co_return;
       }));
  CHECK(refusal(temp / "data") == "");
}

TEST_CASE("LogDirectory: a listed partition whose directory is gone is an error, never an empty log") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> { co_await appendTo(life, "t", 5); }));
  std::filesystem::remove_all(temp / "data/t-0");
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         auto log = co_await life.logs.open({"t", 0}, Life::idOf("t"), plainSettings());
         REQUIRE(log.has_value());
         REQUIRE((*log)->offlineReason().has_value());
         CHECK((*log)->offlineReason()->find("is missing") != std::string::npos);
         Buffer batch = makeBatch({});
         auto refused = co_await (*log)->append({.bytes = batch});
         CHECK(refused.errorCode() == Error::kafkaStorageError);
       }));
}

TEST_CASE("LogDirectory: damage stays visible over restarts, it is not cut at the second one") {
  TestDirectory temp;
  auto settings = plainSettings();
  settings.segmentBytes = 2000;
  live(temp / "data", End::close, keep([&](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", settings);
         for (int i = 0; i < 60; ++i) co_await put(*log, makeBatch({.records = 1}));
         co_await log->whenDurable(log->end());
       }));
  std::vector<std::filesystem::path> segments;
  for (const auto& entry : std::filesystem::directory_iterator(temp / "data/t-0")) {
    if (entry.path().extension() == ".log") segments.push_back(entry.path());
  }
  std::ranges::sort(segments);
  REQUIRE(segments.size() > 2);
  std::filesystem::remove(segments[1]);
  auto size = std::filesystem::file_size(segments.back());
  for (End end : {End::close, End::kill, End::close}) {
    live(temp / "data", end, keep([&](Life& life) -> Co<void> {
           Log* log = co_await life.open("t", settings);
           REQUIRE(log->offlineReason().has_value());
           CHECK(log->offlineReason()->find("records are missing") != std::string::npos);
         }));
  }
  CHECK(std::filesystem::file_size(segments.back()) == size);
}

TEST_CASE("LogDirectory: directories that nobody knows go to quarantine, one that was just written is taken up again") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> { co_await appendTo(life, "known"); }));
  std::filesystem::copy(temp / "data/known-0", temp / "data/stray-0");
  // As after a kill between a partition's first append and its entry in the list.
  std::filesystem::remove(temp / "data/partitions");
  std::filesystem::remove(temp / "data/clean-shutdown");
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("known", plainSettings());
         CHECK(log->end() == Offset(1));
         co_await life.directory.settleUnknown([](const TopicId&) { return false; });
       }));
  CHECK(std::filesystem::exists(temp / "data/quarantine/stray-0"));
  CHECK_FALSE(std::filesystem::exists(temp / "data/stray-0"));
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         CHECK(life.directory.partitions().size() == 1);
         co_return;
       }));
}

TEST_CASE("LogDirectory: a deletion that a stop cut short ends at the next start, whatever it had come to") {
  TestDirectory temp;
  live(temp / "data", End::kill, keep([](Life& life) -> Co<void> {
         for (const char* topic : {"kept", "listed", "unlisted", "renamed", "foreign"}) co_await appendTo(life, topic);
       }));
  // Of "unlisted" the list knows nothing; "renamed" had come further.
  std::istringstream list(read(temp / "data/partitions"));
  std::string left;
  for (std::string line; std::getline(list, line);) {
    if (!line.starts_with("unlisted") && !line.starts_with("crc")) left += line + "\n";
  }
  left.replace(left.find("\n5\n"), 3, "\n4\n");
  left += fmt::format("crc {:08x}\n", crc32c(asBytes(left)));
  write(temp / "data/partitions", left);
  std::filesystem::rename(temp / "data/renamed-0", temp / fmt::format("data/{}-0-delete", Life::idOf("renamed")));
  auto deleted = [](const TopicId& topic) { return topic != Life::idOf("kept") && topic != Life::idOf("foreign"); };
  for (End end : {End::kill, End::close}) {
    live(temp / "data", end, keep([&](Life& life) -> Co<void> {
           CHECK((co_await life.open("kept", plainSettings()))->end() == Offset(1));
           co_await life.directory.settleUnknown(deleted);
           REQUIRE(life.directory.partitions().size() == 1);
           CHECK(life.directory.partitions()[0].name.topic == "kept");
           co_await life.shard.after(50ms);  // unlinking goes on behind
         }));
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(temp / "data")) {
      if (entry.is_directory()) names.insert(entry.path().filename().string());
    }
    CHECK(names == std::set<std::string>{"kept-0", "quarantine"});
    CHECK(std::filesystem::exists(temp / "data/quarantine/foreign-0"));
  }
}

TEST_CASE(
    "LogShard: removing a partition while it is written and synced fails only that one, and its name is free at once") {
  TestDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         co_await appendTo(life, "other");
         for (int round = 0; round < 20; ++round) {
           TopicId id = Uuid::fromHalves(1, static_cast<uint64_t>(round));
           auto opened = co_await life.logs.open({"t", 0}, id, plainSettings());
           REQUIRE(opened.has_value());
           CHECK((*opened)->end() == Offset(0));
           Buffer batch = makeBatch({.records = 3});
           auto first = co_await (*opened)->append({.bytes = batch});
           REQUIRE(first.has_value());
           Buffer second = makeBatch({.records = 3});
           auto racing = (*opened)->append({.bytes = second});
           auto waiting =
               (*opened)->whenDurable(Offset(100)).then([] { return false; }, [](kj::Exception&&) { return true; });
           auto removed = life.logs.remove({"t", 0}, id);
           auto answer = co_await racing;
           CHECK((answer.has_value() || answer.errorCode() == Error::unknownTopicOrPartition));
           CHECK(co_await waiting);
           co_await removed;
         }
         CHECK_FALSE(life.logs.offlineReason().has_value());
         CHECK(life.directory.partitions().size() == 1);
         Log* other = life.logs.find({"other", 0});
         REQUIRE(other != nullptr);
         co_await put(*other, makeBatch({}));
       }));
}

TEST_CASE("LogShard: a sync that fails takes the directory offline once, for good; lack of space does not") {
  sim::SimWorld world({.seed = 3});
  sim::SimNode& node = world.addNode();
  auto body = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    Log* log = co_await life.open("t", plainSettings());
    co_await put(*log, makeBatch({.records = 2}));
    co_await log->whenDurable(Offset(2));

    node.disk().setCapacity(node.disk().used() + 10);
    Buffer refused =
        makeBatch({.records = 1, .valueBytes = 10000, .producer = ProducerId(5), .epoch = 0, .sequence = 0});
    auto full = co_await log->append({.bytes = refused});
    CHECK(full.errorCode() == Error::kafkaStorageError);
    CHECK(log->end() == Offset(2));
    Buffer behind = makeBatch({.records = 1, .producer = ProducerId(5), .epoch = 0, .sequence = 1});
    auto overtaking = co_await log->append({.bytes = behind});
    CHECK(overtaking.errorCode() == Error::outOfOrderSequenceNumber);
    node.disk().setCapacity(UINT64_MAX);
    Buffer retried =
        makeBatch({.records = 1, .valueBytes = 10000, .producer = ProducerId(5), .epoch = 0, .sequence = 0});
    auto there = co_await log->append({.bytes = retried});
    REQUIRE(there.has_value());
    CHECK(there->offsets.first == Offset(2));
    CHECK_FALSE(there->duplicate);
    co_await log->whenDurable(Offset(3));

    int syncs = 0;
    node.disk().setFault([&](sim::DiskOperation operation, const std::string& path) {
      if (operation != sim::DiskOperation::sync || !path.ends_with(".log")) return 0;
      ++syncs;
      return EIO;
    });
    Buffer lost = makeBatch({.records = 1});
    CHECK((co_await log->append({.bytes = lost})).has_value());
    bool rejected =
        co_await log->whenDurable(Offset(4)).then([] { return false; }, [](kj::Exception&&) { return true; });
    CHECK(rejected);
    CHECK(syncs == 1);
    REQUIRE(logs.offlineReason().has_value());
    CHECK(logs.offlineReason()->find("syncing") != std::string::npos);
    node.disk().setFault(nullptr);
    Buffer after = makeBatch({.records = 1});
    CHECK((co_await log->append({.bytes = after})).errorCode() == Error::kafkaStorageError);
    CHECK((co_await logs.open({"u", 0}, Life::idOf("u"), plainSettings())).errorCode() == Error::kafkaStorageError);
    co_await logs.close();
    co_await directory.close();
    CHECK_FALSE(first.files().exists("/data/clean-shutdown"));
  };
  runOn(world, node, body);
}

TEST_CASE("Log: a start that could not be stored for lack of space is not acknowledged when it is asked for again") {
  sim::SimWorld world({.seed = 10});
  sim::SimNode& node = world.addNode();
  auto body = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    Log* log = co_await life.open("t", plainSettings());
    co_await put(*log, makeBatch({.records = 9}));
    co_await log->whenDurable(Offset(9));
    auto stored = [&] {
      const std::string path = "/data/log-start-offset-checkpoint";
      if (!first.files().exists(path)) return false;
      return first.files().readFile(path, 10'000).find("t 0 5") != std::string::npos;
    };

    node.disk().setCapacity(node.disk().used());
    for (int64_t asked : {5, 5, 3}) {
      CAPTURE(asked);
      CHECK((co_await log->deleteRecordsTo(Offset(asked))).errorCode() == Error::kafkaStorageError);
      CHECK_FALSE(stored());
    }
    node.disk().setCapacity(UINT64_MAX);
    auto moved = co_await log->deleteRecordsTo(Offset(3));
    REQUIRE(moved.has_value());
    CHECK(*moved == Offset(5));
    CHECK(stored());

    // Nor while the first one is on its way.
    auto slow = log->deleteRecordsTo(Offset(7));
    auto behind = log->deleteRecordsTo(Offset(6));
    CHECK((co_await kj::mv(behind)).has_value());
    CHECK(first.files().readFile("/data/log-start-offset-checkpoint", 10'000).find("t 0 7") != std::string::npos);
    CHECK((co_await kj::mv(slow)).has_value());
    co_await logs.close();
    co_await directory.close();
  };
  runOn(world, node, body);
}

TEST_CASE(
    "LogDirectory: a first append that could not be listed for lack of space becomes durable once there is some") {
  sim::SimWorld world({.seed = 9});
  sim::SimNode& node = world.addNode();
  auto body = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    Log* log = co_await life.open("t", plainSettings());
    int refused = 0;
    node.disk().setFault([&](sim::DiskOperation operation, const std::string& path) {
      if (operation != sim::DiskOperation::write || path.find("/data/partitions") == path.npos) return 0;
      ++refused;
      return ENOSPC;
    });
    co_await put(*log, makeBatch({.records = 2, .producer = ProducerId(5), .epoch = 0, .sequence = 0}));
    co_await world.sleep(100ms);
    CHECK(refused > 0);
    CHECK(log->durableEnd() == Offset(0));
    node.disk().setFault(nullptr);
    // Nothing more is appended: what the producer sends again is a duplicate.
    Buffer again = makeBatch({.records = 2, .producer = ProducerId(5), .epoch = 0, .sequence = 0});
    auto there = co_await log->append({.bytes = again});
    REQUIRE(there.has_value());
    CHECK(there->duplicate);
    co_await world.sleep(3s);
    CHECK(log->durableEnd() == Offset(2));
    co_await logs.close();
    co_await directory.close();
  };
  runOn(world, node, body);
}

TEST_CASE("LogDirectory: below the free-disk floor appends are refused and reads go on; with space back they resume") {
  sim::SimWorld world({.seed = 4});
  sim::SimNode& node = world.addNode();
  node.disk().setCapacity(10'000'000);
  auto body = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 1'000'000;
    options.tuning.freePercentMin = 100;
    options.reserveBytes = 100'000;
    options.spaceCheckInterval = 10ms;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    Log* log = co_await life.open("t", plainSettings());
    co_await put(*log, makeBatch({.records = 4}));
    co_await world.sleep(100ms);
    CHECK(first.files().exists("/data/reserve"));
    node.disk().setCapacity(node.disk().used() + 900'000);
    co_await world.sleep(100ms);
    CHECK_FALSE(logs.writable());
    Buffer batch = makeBatch({.records = 1});
    CHECK((co_await log->append({.bytes = batch})).errorCode() == Error::kafkaStorageError);
    CHECK(readAll(*log, Offset(0)).offsets == range(0, 4));
    CHECK((co_await log->deleteRecordsTo(Offset(2))).has_value());
    node.disk().setCapacity(10'000'000);
    co_await world.sleep(100ms);
    CHECK(logs.writable());
    co_await put(*log, makeBatch({.records = 1}));
    co_await logs.close();
    co_await directory.close();
  };
  runOn(world, node, body);
  // On a disk that is wholly full the reserve lets the next start write its small files.
  node.disk().setCapacity(node.disk().used());
  auto again = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 1'000'000;
    options.tuning.freePercentMin = 100;
    options.reserveBytes = 100'000;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    Log* log = co_await life.open("t", plainSettings());
    CHECK(log->start() == Offset(2));
    CHECK(readAll(*log, Offset(2)).offsets == range(2, 5));
    CHECK((co_await log->deleteRecordsTo(Offset(3))).has_value());
    co_await logs.close();
    co_await directory.close();
  };
  world.run([&]() -> Co<void> {
    node.start(1, [&](Shard& first) { return again(first); });
    co_await node.ended();
  });
}

TEST_CASE("Log: a clock that is a month ahead for a moment deletes nothing that is young; one that stays there does") {
  sim::SimWorld world({.seed = 5});
  sim::SimNode& node = world.addNode();
  auto body = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    options.tuning.scrubBytesPerSecond = 0;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    auto settings = plainSettings();
    settings.segmentBytes = 1000;
    settings.retentionMs = 7 * 86'400'000;
    Log* log = co_await life.open("t", settings);
    for (int i = 0; i < 10; ++i) {
      co_await put(*log, makeBatch({.records = 1, .valueBytes = 400, .timestamp = first.wallNow().value()}));
    }
    co_await log->whenDurable(log->end());
    log->setHighWatermark(log->end());
    node.jumpWallClock(30 * 24h);
    log->enforceRetention();
    co_await world.sleep(400s);
    node.jumpWallClock(-30 * 24h);
    co_await world.sleep(700s);
    CHECK(log->start() == Offset(0));
    node.jumpWallClock(30 * 24h);
    co_await world.sleep(1800s);
    CHECK(log->start() == Offset(10));
    co_await logs.close();
    co_await directory.close();
  };
  runOn(world, node, body);
}

TEST_CASE("LogDirectory: a stop before all is recovered leaves the rest to the next start") {
  TestDirectory temp;
  live(temp / "data", End::kill, keep([](Life& life) -> Co<void> {
         for (std::string topic : {"a", "b"}) {
           Log* log = co_await life.open(topic, plainSettings());
           co_await put(*log, makeBatch({.records = 3}));
           co_await log->whenDurable(Offset(3));
         }
       }));
  // A torn tail, which only a recovery finds.
  std::string log = temp / "data/b-0/00000000000000000000.log";
  std::filesystem::resize_file(log, std::filesystem::file_size(log) + 40);
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         CHECK_FALSE(life.directory.wasClean());
         co_await life.open("a", plainSettings());
       }));
  CHECK_FALSE(std::filesystem::exists(temp / "data/clean-shutdown"));
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         CHECK_FALSE(life.directory.wasClean());
         co_await life.open("a", plainSettings());
         Log* b = co_await life.open("b", plainSettings());
         CHECK(readAll(*b, Offset(0)).offsets == range(0, 3));
       }));
  CHECK(std::filesystem::exists(temp / "data/clean-shutdown"));
  // What no topic claims any more does not hold the mark up for ever.
  std::filesystem::remove(temp / "data/clean-shutdown");
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         co_await life.open("a", plainSettings());
         co_await life.directory.settleUnknown([](const TopicId&) { return false; });
       }));
  CHECK(std::filesystem::exists(temp / "data/clean-shutdown"));
}

TEST_CASE(
    "LogDirectory: on a full disk the oldest segments go before their time only if that is asked for, and no more") {
  sim::SimWorld world({.seed = 6});
  sim::SimNode& node = world.addNode();
  node.disk().setCapacity(100'000'000);
  auto body = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning = {.freeBytesMin = 1'000'000, .freePercentMin = 100, .trim = false, .scrubBytesPerSecond = 0};
    options.reserveBytes = 0;
    options.spaceCheckInterval = 10ms;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    auto settings = plainSettings();
    settings.segmentBytes = 100'000;
    settings.fileDeleteDelayMs = 60'000;  // which a full disk cannot wait for
    auto compacted = settings;
    compacted.cleanup = {.deletes = false, .compacts = true};
    Log* kept = co_await life.open("kept", settings);
    Log* old = co_await life.open("old", settings);
    Log* young = co_await life.open("young", settings);
    for (Log* log : {kept, old, young}) {
      for (int i = 0; i < 20; ++i) co_await put(*log, makeBatch({.records = 1, .valueBytes = 90'000}));
      co_await log->whenDurable(log->end());
      log->setHighWatermark(log->end());
      co_await world.sleep(1s);
    }
    kept->setSettings(compacted);
    node.disk().setCapacity(node.disk().used() + 500'000);
    co_await world.sleep(1s);
    CHECK_FALSE(logs.writable());
    CHECK(old->start() == Offset(0));

    Tuning tuning = options.tuning;
    tuning.trim = true;
    directory.tune(tuning);
    co_await world.sleep(5s);
    CHECK(logs.writable());
    CHECK(kept->start() == Offset(0));
    CHECK(young->start() == Offset(0));
    // Half a megabyte and an eighth of the floor were missing: seven segments, and not one more than a round takes.
    CHECK(old->start() >= Offset(6));
    CHECK(old->start() <= Offset(8));
    CHECK(logs.figures().trimmedBytes >= 600'000);
    CHECK(readAll(*old, old->start()).offsets == range(old->start().value(), 20));
    co_await put(*young, makeBatch({.records = 1}));
    co_await logs.close();
    co_await directory.close();
  };
  runOn(world, node, body);
}

TEST_CASE("LogDirectory: floors and the rate of scrubbing change while logs are open") {
  sim::SimWorld world({.seed = 7});
  sim::SimNode& node = world.addNode();
  node.disk().setCapacity(100'000'000);
  auto body = [&](Shard& first) -> Co<void> {
    Options options;
    options.path = "/data";
    options.tuning = {.freeBytesMin = 0, .scrubBytesPerSecond = 0};
    options.reserveBytes = 0;
    options.spaceCheckInterval = 10ms;
    LogDirectory directory(first, options, {.clusterId = {}, .node = NodeId(1)});
    LogShard logs(first, directory);
    Life life{first, directory, logs};
    auto settings = plainSettings();
    settings.segmentBytes = 10'000;
    Log* log = co_await life.open("t", settings);
    for (int i = 0; i < 10; ++i) co_await put(*log, makeBatch({.records = 1, .valueBytes = 6'000}));
    co_await world.sleep(60s);
    CHECK(logs.figures().scrubbedBytes == 0);
    Tuning tuning = options.tuning;
    tuning.scrubBytesPerSecond = 1_MiB;
    directory.tune(tuning);
    co_await world.sleep(60s);
    uint64_t scrubbed = logs.figures().scrubbedBytes;
    CHECK(scrubbed > 50'000);
    tuning.scrubBytesPerSecond = 0;
    tuning.freeBytesMin = 200'000'000;
    tuning.freePercentMin = 100;
    directory.tune(tuning);
    co_await world.sleep(60s);
    CHECK(logs.figures().scrubbedBytes == scrubbed);
    CHECK_FALSE(logs.writable());
    tuning.freeBytesMin = 0;
    directory.tune(tuning);
    co_await world.sleep(1s);
    CHECK(logs.writable());
    co_await logs.close();
    co_await directory.close();
  };
  runOn(world, node, body);
}
