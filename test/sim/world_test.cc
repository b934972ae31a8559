// The fake world itself: what it keeps, what it loses, and that a seed is a seed.
#include <doctest/doctest.h>
#include <kj/debug.h>

#include <set>
#include <string>
#include <vector>

#include "sim_world.h"

using namespace mq;
using namespace mq::sim;

namespace {

std::string contentOf(FileSystem& files, const std::string& path) { return files.readFile(path, 1 << 24); }

kj::Promise<void> never(Shard&) { return kj::NEVER_DONE; }

// Runs `before` as the node's process, cuts the power, and answers what the next process finds.
template <class Before, class After>
void acrossPowerCut(uint64_t seed, Before before, After after) {
  SimWorld world({.seed = seed});
  SimNode& node = world.addNode();
  world.run([&]() -> Co<void> {
    node.start(1, [&](Shard& shard) -> kj::Promise<void> {
      before(shard.files(), node.disk());
      return kj::NEVER_DONE;
    });
    co_await world.sleep(1ms);
    node.crash();
    node.start(1, [&](Shard& shard) -> kj::Promise<void> {
      after(shard.files());
      return kj::READY_NOW;
    });
    co_await node.ended();
  });
}

}  // namespace

TEST_CASE("SimLoop: time jumps when nothing can run, and a busy loop cannot stop it") {
  SimWorld world({.seed = 1});
  world.run([&]() -> Co<void> {
    Instant begin = world.now();
    co_await world.sleep(1h);
    CHECK(world.now() - begin == 1h);
    bool rang = false;
    auto alarm = world.sleep(1ms).then([&] { rang = true; }).eagerlyEvaluate(nullptr);
    while (!rang) co_await kj::evalLater([] {});
    CHECK(world.now() - begin - 1h >= 1ms);
  });
}

TEST_CASE("SimLoop: a world in which everybody waits fails instead of hanging") {
  SimWorld world({.seed = 1});
  CHECK_THROWS_WITH_AS(world.run([]() -> kj::Promise<void> { return kj::NEVER_DONE; }), doctest::Contains("stuck"),
                       kj::Exception);
}

TEST_CASE("SimDisk: what was synced survives a power cut, whatever was written after it") {
  std::string durable(20'000, 'd');
  bool lost = false, kept = false, torn = false;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    acrossPowerCut(
        seed,
        [&](FileSystem& files, SimDisk&) {
          files.makeDirectory("/data");
          FileRef file = files.open("/data/f", OpenMode::createNew);
          file->write(0, asBytes(durable));
          file->sync();
          files.syncDirectory("/data");
          files.syncDirectory("/");
          file->write(20'000, asBytes(std::string(40'000, 'n')));
        },
        [&](FileSystem& files) {
          std::string found = contentOf(files, "/data/f");
          REQUIRE(found.size() >= durable.size());
          CHECK(found.substr(0, durable.size()) == durable);
          std::string tail = found.substr(durable.size());
          kept |= tail == std::string(40'000, 'n');
          lost |= tail.empty();
          // A hole before bytes that survived: pages are lost one by one, not from the end.
          size_t hole = tail.find('\0');
          torn |= hole != std::string::npos && tail.find('n', hole) != std::string::npos;
        });
  }
  CHECK(kept);
  CHECK(lost);
  CHECK(torn);
}

TEST_CASE("SimDisk: overwritten pages come back old, new or torn at a sector") {
  std::set<size_t> newBytes;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    acrossPowerCut(
        seed,
        [&](FileSystem& files, SimDisk&) {
          FileRef file = files.open("/f", OpenMode::createNew);
          file->write(0, asBytes(std::string(4096, 'o')));
          file->sync();
          files.syncDirectory("/");
          file->write(0, asBytes(std::string(4096, 'n')));
        },
        [&](FileSystem& files) {
          std::string found = contentOf(files, "/f");
          size_t changed = found.find('o') == std::string::npos ? found.size() : found.find('o');
          CHECK(found == std::string(changed, 'n') + std::string(4096 - changed, 'o'));
          CHECK(changed % 512 == 0);
          newBytes.insert(changed);
        });
  }
  CHECK(newBytes.contains(0));
  CHECK(newBytes.contains(4096));
  CHECK(newBytes.size() > 4);
}

TEST_CASE("SimDisk: names need a sync of their directory, and a prefix of the operations survives") {
  std::set<std::string> outcomes;
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    acrossPowerCut(
        seed,
        [&](FileSystem& files, SimDisk&) {
          files.makeDirectory("/d");
          files.syncDirectory("/");
          files.open("/d/a", OpenMode::createNew)->sync();
          files.syncDirectory("/d");
          files.rename("/d/a", "/d/b");
          files.open("/d/c", OpenMode::createNew)->sync();
          files.remove("/d/b");
        },
        [&](FileSystem& files) {
          std::string names;
          for (auto& entry : files.list("/d")) names += entry.name;
          outcomes.insert(names);
        });
  }
  CHECK(outcomes == std::set<std::string>{"a", "b", "bc", "c"});
}

TEST_CASE("SimDisk: a rename between directories survives in both or in neither") {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    acrossPowerCut(
        seed,
        [&](FileSystem& files, SimDisk&) {
          files.makeDirectory("/x");
          files.makeDirectory("/y");
          files.open("/x/f", OpenMode::createNew);
          files.syncDirectory("/x");
          files.syncDirectory("/");
          files.rename("/x/f", "/y/f");
          if (seed % 2 == 0) files.syncDirectory("/x");
        },
        [&](FileSystem& files) {
          CHECK(files.exists("/x/f") != files.exists("/y/f"));
          if (seed % 2 == 0) CHECK(files.exists("/y/f"));
        });
  }
}

TEST_CASE("SimDisk: replaceFile leaves the old or the new content") {
  std::set<std::string> found;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    acrossPowerCut(
        seed, [&](FileSystem& files, SimDisk&) { files.replaceFile("/f", "old"), files.replaceFile("/f", "new"); },
        [&](FileSystem& files) { found.insert(contentOf(files, "/f")); });
  }
  CHECK(found == std::set<std::string>{"new"});
}

TEST_CASE("SimDisk: after a sync that failed, a later one does not make its pages durable") {
  bool lost = false;
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    acrossPowerCut(
        seed,
        [&](FileSystem& files, SimDisk& disk) {
          FileRef file = files.open("/f", OpenMode::createNew);
          files.syncDirectory("/");
          file->write(0, asBytes("doubtful"));
          disk.setFault(
              [](DiskOperation operation, const std::string&) { return operation == DiskOperation::sync ? EIO : 0; });
          CHECK_THROWS_AS(file->sync(), kj::Exception);
          disk.setFault(nullptr);
          file->sync();
        },
        [&](FileSystem& files) { lost |= contentOf(files, "/f") != "doubtful"; });
  }
  CHECK(lost);
}

TEST_CASE("SimDisk: a full disk refuses with a torn tail, and takes more once there is room") {
  SimWorld world({.seed = 1});
  SimNode& node = world.addNode();
  node.disk().setCapacity(10'000);
  node.start(1, [&](Shard& shard) -> kj::Promise<void> {
    FileRef file = shard.files().open("/f", OpenMode::createNew);
    try {
      file->write(0, asBytes(std::string(12'000, 'x')));
      FAIL("fitted");
    } catch (kj::Exception& e) {
      CHECK(isNoSpace(e));
    }
    CHECK(file->size() == 10'000);
    file->truncate(0);
    file->write(0, asBytes("fits"));
    CHECK(shard.files().space("/").available == 9'996);
    shard.files().remove("/f");
    file = nullptr;
    CHECK(node.disk().used() == 0);
    return kj::READY_NOW;
  });
  world.run([&] { return node.ended(); });
}

TEST_CASE("SimDisk: a flipped bit is there before and after a power cut") {
  acrossPowerCut(
      3,
      [&](FileSystem& files, SimDisk& disk) {
        FileRef file = files.open("/f", OpenMode::createNew);
        file->write(0, asBytes("aaaa"));
        file->sync();
        files.syncDirectory("/");
        CHECK(disk.flipBit("/f", 1, 1));
        CHECK(!disk.flipBit("/f", 4, 0));
        CHECK(contentOf(files, "/f") == "acaa");
      },
      [&](FileSystem& files) { CHECK(contentOf(files, "/f") == "acaa"); });
}

TEST_CASE("SimNode: after a crash destructors change nothing, and the test can see that they tried") {
  SimWorld world({.seed = 1});
  SimNode& node = world.addNode();
  world.run([&]() -> Co<void> {
    node.start(2, [&](Shard& first) -> Co<void> {
      FileRef file = first.files().open("/f", OpenMode::createNew);
      file->write(0, asBytes("alive"));
      first.atEnd([file] { file->write(0, asBytes("dead!")); });
      KJ_DEFER(file->truncate(0));
      co_await first.call(1, [](Shard& there) -> Co<void> { co_await there.after(1h); });
    });
    co_await world.sleep(10ms);
    node.kill();
    CHECK(!node.running());
    CHECK(node.disk().changesAfterCrash() == 2);
    node.start(1, [&](Shard& shard) -> kj::Promise<void> {
      CHECK(contentOf(shard.files(), "/f") == "alive");
      return kj::READY_NOW;
    });
    co_await node.ended();
  });
}

TEST_CASE("SimNode: a lock dies with its process, and the failure of a body reaches who waits for the end") {
  SimWorld world({.seed = 1});
  SimNode& node = world.addNode();
  world.run([&]() -> Co<void> {
    node.start(1, [&](Shard& shard) -> Co<void> {
      auto lock = shard.files().lock("/lock", nullptr);
      int64_t holder = 0;
      CHECK(!shard.files().lock("/lock", &holder));
      CHECK(holder == 1);
      co_await shard.after(1h);
    });
    co_await world.sleep(1ms);
    node.crash();
    node.start(1, [&](Shard& shard) -> Co<void> {
      auto lock = shard.files().lock("/lock", nullptr);
      CHECK(lock.has_value());
      co_await shard.after(1ms);
      KJ_FAIL_REQUIRE("of the body");
    });
    bool caught = false;
    try {
      co_await node.ended();
    } catch (kj::Exception& e) {
      caught = e.getDescription() == "of the body";
    }
    CHECK(caught);
  });
}

TEST_CASE("SimNode: the wall clock jumps, the monotonic one does not") {
  SimWorld world({.seed = 1});
  SimNode& node = world.addNode();
  node.start(1, never);
  world.run([&]() -> Co<void> {
    WallMs wall = node.shard(0).wallNow();
    Instant now = node.shard(0).now();
    node.jumpWallClock(-1h);
    CHECK(node.shard(0).wallNow() - wall == -3'600'000);
    CHECK(node.shard(0).now() == now);
    co_return;
  });
}

TEST_CASE("SimNetwork: what was sent before a cut arrives after it heals, in order") {
  SimWorld world({.seed = 5});
  SimNode &a = world.addNode(), &b = world.addNode();
  std::string got;
  Instant arrived;
  a.start(1, [&](Shard& shard) -> Co<void> {
    auto listener = shard.network().listen({.host = "0.0.0.0", .port = 9092});
    auto stream = co_await listener->accept();
    char buffer[6];
    size_t count = co_await stream->tryRead(buffer, 6, 6);
    got.assign(buffer, count);
    arrived = shard.now();
  });
  b.start(1, [&](Shard& shard) -> Co<void> {
    auto stream = co_await shard.network().connect({.host = "node-1", .port = 9092});
    world.network().cut(1, 2);
    for (char c : std::string("abcdef")) co_await stream->write(&c, 1);
    co_await kj::Promise<void>(kj::NEVER_DONE);
  });
  world.run([&]() -> Co<void> {
    co_await world.sleep(5s);
    CHECK(got.empty());
    world.network().heal();
    co_await a.ended();
    CHECK(got == "abcdef");
  });
}

TEST_CASE("SimNetwork: what is sent just after a cut does not overtake what the cut holds back") {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SimWorld world({.seed = seed});
    SimNode &a = world.addNode(), &b = world.addNode();
    std::string got;
    a.start(1, [&](Shard& shard) -> Co<void> {
      auto listener = shard.network().listen({.host = "0.0.0.0", .port = 9092});
      auto stream = co_await listener->accept();
      char buffer[40];
      size_t count = co_await stream->tryRead(buffer, sizeof buffer, sizeof buffer);
      got.assign(buffer, count);
    });
    std::string sent;
    b.start(1, [&](Shard& shard) -> Co<void> {
      auto stream = co_await shard.network().connect({.host = "node-1", .port = 9092});
      world.network().cut(1, 2);
      for (int i = 0; i < 40; ++i) {
        char c = static_cast<char>('A' + i);
        sent += c;
        co_await stream->write(&c, 1);
        co_await shard.after(20ms);
        if (i == 20) world.network().heal();
      }
      co_await kj::Promise<void>(kj::NEVER_DONE);
    });
    world.run([&]() -> Co<void> {
      co_await a.ended();
      CHECK(got == sent);
    });
  }
}

TEST_CASE("SimNetwork: a cut longer than the patience, a reset and a dead host end connections as DISCONNECTED") {
  for (std::string way : {"cut", "reset", "power", "kill"}) {
    CAPTURE(way);
    SimWorld world({.seed = 5});
    SimNode &a = world.addNode(), &b = world.addNode();
    a.start(1, [&](Shard& shard) -> Co<void> {
      auto listener = shard.network().listen({.host = "0.0.0.0", .port = 9092});
      auto stream = co_await listener->accept();
      co_await kj::Promise<void>(kj::NEVER_DONE);
    });
    Duration lasted{0};
    b.start(1, [&](Shard& shard) -> Co<void> {
      co_await shard.after(5ms);
      auto stream = co_await shard.network().connect({.host = a.host(), .port = 9092});
      Instant begin = shard.now();
      bool failed = false;
      try {
        for (;;) {
          co_await stream->write("x", 1);
          co_await shard.after(100ms);
        }
      } catch (kj::Exception& e) {
        failed = e.getType() == kj::Exception::Type::DISCONNECTED;
      }
      CHECK(failed);
      lasted = shard.now() - begin;
    });
    world.run([&]() -> Co<void> {
      co_await world.sleep(50ms);
      if (way == "cut") world.network().isolate(1);
      if (way == "reset") world.network().reset(1, 2);
      if (way == "kill") a.kill();
      if (way == "power") {
        a.crash();
        co_await world.sleep(2s);
        a.start(1, never);
      }
      co_await b.ended();
    });
    CHECK(lasted < 40s);
    if (way == "cut") CHECK(lasted > 29s);
    if (way == "kill") CHECK(lasted < 1s);
    if (way == "power") CHECK(lasted > 1s);
  }
}

namespace {

// Nodes that call across shards, write, sync and talk, with faults at random: enough to notice chance from elsewhere.
uint64_t busyRun(uint64_t seed) {
  SimWorld world({.seed = seed, .network = {.resetOneIn = 200}});
  for (int i = 0; i < 3; ++i) world.addNode();
  auto process = [](Shard& first) -> Co<void> {
    auto serve = [](kj::Own<Stream> stream) -> Co<void> {
      char buffer[64];
      while (size_t count = co_await stream->tryRead(buffer, 1, sizeof buffer)) co_await stream->write(buffer, count);
    };
    auto acceptAll = [&]() -> Co<void> {
      auto listener = first.network().listen({.host = "0.0.0.0", .port = 1});
      for (;;) first.spawn(serve(co_await listener->accept()));
    };
    first.spawn(acceptAll());
    FileRef file = first.files().open("/f", OpenMode::create);
    for (uint64_t i = 0;; ++i) {
      co_await first.call(static_cast<uint32_t>(first.random().below(first.count())),
                          [i](Shard& there) -> Co<uint64_t> {
                            co_await there.after(Duration(static_cast<int64_t>(there.random().below(1'000'000))));
                            co_return i;
                          });
      file->write(file->size(), asBytes("record"));
      co_await first.run(Pool::sync, [file] { file->sync(); });
      try {
        auto peer =
            co_await first.network().connect({.host = fmt::format("node-{}", first.random().between(1, 3)), .port = 1});
        co_await peer->write("hello", 5);
        char answer[5];
        co_await peer->tryRead(answer, 5, 5);
      } catch (kj::Exception& e) {
        first.log().info("talk_failed", "{}", describe(e));
      }
    }
  };
  for (uint32_t i = 1; i <= 3; ++i) world.node(i).start(2, process);
  world.run([&]() -> Co<void> {
    for (int i = 0; i < 20; ++i) {
      co_await world.sleep(20ms);
      SimNode& node = world.node(static_cast<uint32_t>(world.random().between(1, 3)));
      if (world.random().chance(1, 2)) {
        node.crash();
      } else {
        node.kill();
      }
      node.start(2, process);
    }
  });
  CHECK(world.trace().lines() > 1000);
  return world.traceHash();
}

}  // namespace

TEST_CASE("SimWorld: the same seed gives the same trace, another seed another") {
  std::set<uint64_t> hashes;
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    uint64_t hash = busyRun(seed);
    CHECK(hash == busyRun(seed));
    hashes.insert(hash);
  }
  CHECK(hashes.size() == 10);
}
