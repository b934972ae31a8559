// Bodies that must see the same in the real and in the simulated world. What only one of them can do is tested beside
// it.
#include <doctest/doctest.h>
#include <kj/debug.h>

#include <algorithm>
#include <atomic>

#include <string>
#include <vector>

#include "world.h"

using namespace mq;
using namespace mq::parity;

#define BOTH_WORLDS(title) TEST_CASE_TEMPLATE(title, World, RealWorld, FakeWorld)

namespace {

std::string contentOf(const File& file) {
  std::string bytes(file.size() + 10, '\0');
  bytes.resize(file.read(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}));
  return bytes;
}

// "FAILED cannot open DIR/f: No such file or directory"
template <class Action>
std::string failureOf(const Place& place, Action action) {
  try {
    action();
  } catch (kj::Exception& e) {
    std::string text = fmt::format("{} {}", e.getType() == kj::Exception::Type::FAILED ? "FAILED" : "other",
                                   e.getDescription().cStr());
    for (size_t at; (at = text.find(place.directory)) != std::string::npos;)
      text.replace(at, place.directory.size(), "DIR");
    return text;
  }
  return "done";
}

Co<std::string> typeOf(kj::Promise<void> promise) {
  try {
    co_await promise;
  } catch (kj::Exception& e) {
    switch (e.getType()) {
      case kj::Exception::Type::FAILED: co_return "FAILED";
      case kj::Exception::Type::OVERLOADED: co_return "OVERLOADED";
      case kj::Exception::Type::DISCONNECTED: co_return "DISCONNECTED";
      case kj::Exception::Type::UNIMPLEMENTED: co_return "UNIMPLEMENTED";
    }
  }
  co_return "done";
}

struct Pair {
  kj::Own<Listener> listener;
  kj::Own<Stream> client, server;
};

Co<Pair> connectedPair(const Place& place) {
  Shard& shard = place.first;
  auto listener = shard.network().listen({.host = place.host, .port = 0});
  auto accepting = listener->accept();
  auto client = co_await shard.network().connect(listener->local());
  auto server = co_await accepting;
  co_return Pair{kj::mv(listener), kj::mv(client), kj::mv(server)};
}

Co<std::string> readExactly(Stream& stream, size_t size) {
  std::string bytes(size, '\0');
  bytes.resize(co_await stream.tryRead(bytes.data(), size, size));
  co_return bytes;
}

std::string pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31) >> 3);
  return bytes;
}

}  // namespace

BOTH_WORLDS("File: writes at offsets, holes, reads over the end, truncation") {
  World::run(1, [](Place place) -> Co<void> {
    FileRef file = place.first.files().open(place / "f", OpenMode::createNew);
    Bytes pieces[] = {asBytes("ab"), {}, asBytes("cd")};
    file->write(0, pieces);
    file->write(6, asBytes("gh"));
    CHECK(contentOf(*file) == std::string("abcd\0\0gh", 8));
    uint8_t buffer[4];
    CHECK(file->read(6, buffer) == 2);
    CHECK(file->read(8, buffer) == 0);
    CHECK(file->read(100, buffer) == 0);
    CHECK(file->reserve(1 << 16));
    CHECK(file->size() == 8);
    CHECK(file->read(0, buffer) == 4);
    file->truncate(3);
    file->truncate(5);
    CHECK(contentOf(*file) == std::string("abc\0\0", 5));
    file->sync();
    CHECK(file->path() == place / "f");
    co_return;
  });
}

BOTH_WORLDS("FileSystem: open modes, and their refusals in the same words") {
  World::run(1, [](Place place) -> Co<void> {
    auto& files = place.first.files();
    auto opening = [&](const char* name, OpenMode mode) {
      return failureOf(place, [&] { files.open(place / name, mode); });
    };
    CHECK(opening("f", OpenMode::read) == "FAILED cannot open DIR/f: No such file or directory");
    CHECK(opening("f", OpenMode::readWrite) == "FAILED cannot open DIR/f: No such file or directory");
    CHECK(opening("none/f", OpenMode::create) == "FAILED cannot open DIR/none/f: No such file or directory");
    CHECK(opening("f", OpenMode::create) == "done");
    CHECK(opening("f", OpenMode::createNew) == "FAILED cannot open DIR/f: File exists");
    CHECK(opening("f/g", OpenMode::create) == "FAILED cannot open DIR/f/g: Not a directory");
    FileRef reading = files.open(place / "f", OpenMode::read);
    CHECK(failureOf(place, [&] { reading->write(0, asBytes("x")); }) ==
          "FAILED cannot write DIR/f: Bad file descriptor");
    co_return;
  });
}

BOTH_WORLDS("FileSystem: directories, listing, removing, renaming, with handles that stay good") {
  World::run(1, [](Place place) -> Co<void> {
    auto& files = place.first.files();
    files.makeDirectory(place / "x/y");
    files.makeDirectory(place / "x/y");
    FileRef file = files.open(place / "x/b", OpenMode::create);
    file->write(0, asBytes("123"));
    files.open(place / "x/a", OpenMode::create);
    std::string names;
    for (auto& entry : files.list(place / "x")) {
      names += fmt::format("{}{}{} ", entry.name, entry.isDirectory ? "/" : ":", entry.isDirectory ? 0 : entry.size);
    }
    CHECK(names == "a:0 b:3 y/0 ");
    WallMs written = files.list(place / "x")[1].modified, now = place.first.wallNow();
    CHECK(written <= now);
    CHECK(now - written < 60'000);
    co_await place.first.after(30ms);
    CHECK(files.list(place / "x")[1].modified == written);
    file->write(3, asBytes("4"));
    CHECK(files.list(place / "x")[1].modified > written);
    file->truncate(3);
    files.rename(place / "x/b", place / "x/a");
    files.syncDirectory(place / "x");
    CHECK(!files.exists(place / "x/b"));
    CHECK(contentOf(*files.open(place / "x/a", OpenMode::read)) == "123");
    files.rename(place / "x", place / "z");
    CHECK(files.exists(place / "z/a"));
    files.remove(place / "z/a");
    CHECK(contentOf(*file) == "123");
    CHECK(failureOf(place, [&] { files.remove(place / "z/a"); }) ==
          "FAILED cannot remove DIR/z/a: No such file or directory");
    CHECK(failureOf(place, [&] { files.removeDirectory(place / "z"); }) ==
          "FAILED cannot remove directory DIR/z: Directory not empty");
    CHECK(failureOf(place, [&] { files.list(place / "x"); }) == "FAILED cannot list DIR/x: No such file or directory");
    CHECK(
        failureOf(place, [&] { files.rename(place / "x", place / "w"); }).starts_with("FAILED cannot rename to DIR/w"));
    files.removeDirectory(place / "z/y");
    files.removeDirectory(place / "z");
    CHECK(files.list(place.directory).empty());
    files.replaceFile(place / "whole", "one");
    files.replaceFile(place / "whole", "two");
    CHECK(files.readFile(place / "whole", 3) == "two");
    CHECK(failureOf(place, [&] { files.readFile(place / "whole", 2); }) ==
          "FAILED cannot read whole DIR/whole: File too large");
    co_return;
  });
}

BOTH_WORLDS("FileSystem: a lock is held once, and free after its holder lets go") {
  World::run(1, [](Place place) -> Co<void> {
    auto& files = place.first.files();
    auto lock = files.lock(place / "lock", nullptr);
    int64_t holder = 0;
    CHECK(lock.has_value());
    CHECK(!files.lock(place / "lock", &holder));
    CHECK(holder > 0);
    lock.reset();
    CHECK(files.lock(place / "lock", nullptr).has_value());
    co_return;
  });
}

BOTH_WORLDS("Clock: timers fire in order and never early; wall and monotonic time pass") {
  World::run(1, [](Place place) -> Co<void> {
    Shard& shard = place.first;
    WallMs wall = shard.wallNow();
    std::vector<int> fired;
    auto wait = [&](int ms) -> Co<void> {
      Instant begin = shard.now();
      co_await shard.after(ms * 1ms);
      CHECK(shard.now() - begin >= ms * 1ms);
      fired.push_back(ms);
    };
    auto c = wait(30), a = wait(5), b = wait(15);
    co_await a;
    co_await b;
    co_await c;
    CHECK(fired == std::vector<int>{5, 15, 30});
    CHECK(shard.wallNow() - wall >= 29);
    CHECK(co_await typeOf(shard.within<void>(1ms, kj::NEVER_DONE)) == "OVERLOADED");
  });
}

BOTH_WORLDS("Shard: posts keep the order of their sender, calls come behind them, to itself in a later turn") {
  World::run(3, [](Place place) -> Co<void> {
    Shard& shard = place.first;
    for (uint32_t to = 0; to < 3; ++to) {
      std::vector<int> seen;
      for (int i = 0; i < 100; ++i) shard.post(to, [&seen, i] { seen.push_back(i); });
      size_t count = co_await shard.call(to, [&seen] { return seen.size(); });
      CHECK(count == 100);
      CHECK(std::ranges::is_sorted(seen));
    }
    bool ran = false;
    shard.post(0, [&] { ran = true; });
    CHECK(!ran);
    co_await shard.call(0, [] {});
    CHECK(ran);
  });
}

BOTH_WORLDS("Shard: call and run give values and exceptions; dropped, they run to their end") {
  World::run(2, [](Place place) -> Co<void> {
    Shard& shard = place.first;
    for (uint32_t to = 0; to < 2; ++to) {
      uint32_t where = co_await shard.call(to, [](Shard& there) { return there.index(); });
      CHECK(where == to);
      int later = co_await shard.call(to, [](Shard& there) -> Co<int> {
        co_await there.after(1ms);
        co_return 7;
      });
      CHECK(later == 7);
      CHECK(co_await typeOf(shard.call(to, [] { throw KJ_EXCEPTION(OVERLOADED, "full"); })) == "OVERLOADED");
      auto done = std::make_shared<std::atomic<int>>(0);
      {
        auto dropped = shard.call(to, [done] { ++*done; });
      }
      {
        auto dropped = shard.run(Pool::background, [done] { ++*done; });
      }
      while (*done < 2) co_await shard.after(1ms);
    }
    std::string text = co_await shard.run(Pool::compute, [] { return std::string("computed"); });
    CHECK(text == "computed");
    CHECK(co_await typeOf(shard.run(Pool::sync, [] { throw ioError("sync", "f", EIO); })) == "FAILED");
  });
}

BOTH_WORLDS("Shard: at the end each shard destroys what was built on it, the latest first") {
  std::vector<std::string> order;
  World::run(2, [&](Place place) -> Co<void> {
    order.clear();
    for (uint32_t i = 0; i < 2; ++i) {
      co_await place.first.call(i, [&order, i](Shard& there) {
        there.atEnd([&order, i] { order.push_back(fmt::format("{} first", i)); });
        there.atEnd([&order, i] { order.push_back(fmt::format("{} second", i)); });
      });
    }
  });
  CHECK(order == std::vector<std::string>{"1 second", "1 first", "0 second", "0 first"});
}

BOTH_WORLDS("Stream: bytes of all sizes arrive in order, also when the reader is slow") {
  World::run(1, [](Place place) -> Co<void> {
    auto p = co_await connectedPair(place);
    for (size_t size : {1ul, 1000ul, 3'000'000ul}) {
      std::string out = pattern(size);
      auto writing = p.client->write(out.data(), out.size());
      co_await place.first.after(1ms);
      std::string in;
      while (in.size() < size) in += co_await readExactly(*p.server, std::min<size_t>(100'000, size - in.size()));
      CHECK(in == out);
      co_await writing;
    }
    CHECK(p.server->peer() == p.client->local());
    CHECK(p.server->local() == p.client->peer());
    CHECK(p.server->local() == p.listener->local());
  });
}

BOTH_WORLDS("Stream: half close, close, and writing to who has gone") {
  World::run(1, [](Place place) -> Co<void> {
    auto p = co_await connectedPair(place);
    co_await p.client->write("last", 4);
    p.client->shutdownWrite();
    CHECK(co_await readExactly(*p.server, 10) == "last");
    bool open = true;
    uint8_t byte;
    CHECK(p.server->readNow({&byte, 1}, &open) == 0);
    CHECK(!open);
    co_await p.server->write("answer", 6);
    CHECK(co_await readExactly(*p.client, 6) == "answer");
    p.client = nullptr;
    auto writeUntilGone = [&]() -> Co<void> {
      for (int i = 0; i < 1000; ++i) {
        co_await p.server->write("x", 1);
        co_await place.first.after(1ms);
      }
    };
    CHECK(co_await typeOf(writeUntilGone()) == "DISCONNECTED");
    co_await p.server->whenWriteDisconnected();
  });
}

BOTH_WORLDS("Stream: a cancelled read takes nothing, a cancelled write sends only a beginning") {
  World::run(1, [](Place place) -> Co<void> {
    auto p = co_await connectedPair(place);
    char early[4];
    {
      auto dropped = p.server->tryRead(early, 4, 4);
    }
    co_await p.client->write("data", 4);
    CHECK(co_await readExactly(*p.server, 4) == "data");
    std::string big = pattern(32 << 20);
    {
      auto dropped = p.client->write(big.data(), big.size());
    }
    p.client->shutdownWrite();
    std::string in;
    for (std::string part; !(part = co_await readExactly(*p.server, 1 << 20)).empty();) in += part;
    CHECK(in.size() < big.size());
    CHECK(big.starts_with(in));
  });
}

BOTH_WORLDS("Stream: readNow gives what is there and never waits") {
  World::run(1, [](Place place) -> Co<void> {
    auto p = co_await connectedPair(place);
    uint8_t buffer[16];
    bool open = false;
    CHECK(p.server->readNow(buffer, &open) == 0);
    CHECK(open);
    co_await p.client->write("hello", 5);
    CHECK(co_await readExactly(*p.server, 1) == "h");
    std::string rest;
    while (rest.size() < 4) {
      rest += asText({buffer, p.server->readNow(buffer, &open)});
      co_await place.first.after(1ms);
    }
    CHECK(rest == "ello");
    CHECK(open);
  });
}

BOTH_WORLDS("Stream: sendFile sends the range as the file is, and fails when the file is too short") {
  World::run(1, [](Place place) -> Co<void> {
    auto p = co_await connectedPair(place);
    FileRef file = place.first.files().open(place / "f", OpenMode::createNew);
    std::string content = pattern(3'000'000);
    file->write(0, asBytes(content));
    place.first.files().remove(place / "f");
    auto sending = p.server->sendFile(*file, 7, content.size() - 7);
    CHECK(co_await readExactly(*p.client, content.size() - 7) == content.substr(7));
    co_await sending;
    co_await p.server->sendFile(*file, 0, 0);
    p.server->cork(true);
    co_await p.server->write("head", 4);
    co_await p.server->sendFile(*file, 0, 4);
    p.server->cork(false);
    CHECK(co_await readExactly(*p.client, 8) == "head" + content.substr(0, 4));
    CHECK(co_await typeOf(p.server->sendFile(*file, content.size() - 2, 3)) == "FAILED");
  });
}

BOTH_WORLDS("Network: taken ports, closed ports, unknown names, accepting for another shard") {
  World::run(2, [](Place place) -> Co<void> {
    auto& network = place.first.network();
    auto listener = network.listen({.host = place.host, .port = 0});
    Address address = listener->local();
    CHECK(address.port != 0);
    CHECK(failureOf(place, [&] { static_cast<void>(network.listen(address)); }) ==
          fmt::format("FAILED cannot listen on {}: Address already in use", address.toString()));
    CHECK(co_await typeOf(network.connect({.host = "no-such-host.invalid", .port = 1}).ignoreResult()) ==
          "DISCONNECTED");

    auto accepting = listener->acceptDescriptor();
    auto client = co_await network.connect(address);
    int descriptor = co_await accepting;
    auto answering = place.first.call(1, [descriptor](Shard& there) -> Co<void> {
      auto stream = there.network().adopt(descriptor);
      char byte;
      co_await stream->tryRead(&byte, 1, 1);
      co_await stream->write(&byte, 1);
    });
    co_await client->write("!", 1);
    CHECK(co_await readExactly(*client, 1) == "!");
    co_await answering;
    CHECK(co_await readExactly(*client, 1) == "");

    listener = nullptr;
    CHECK(co_await typeOf(network.connect(address).ignoreResult()) == "DISCONNECTED");
    auto again = network.listen(address);
    CHECK(again->local() == address);
    again = nullptr;

    auto reserved = network.reserve(address);
    CHECK(reserved->local() == address);
    CHECK(co_await typeOf(network.connect(address).ignoreResult()) == "DISCONNECTED");
    auto first = reserved->accept();
    auto served = co_await network.connect(address);
    co_await first;
    CHECK(failureOf(place, [&] { static_cast<void>(network.reserve(address)); }) ==
          fmt::format("FAILED cannot listen on {}: Address already in use", address.toString()));
  });
}
