// UvStream, UvListener, UvNetwork over the loopback.
#include "runtime/uv/stream.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <kj/debug.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "../test_directory.h"
#include "runtime/uv/node.h"
#include "test_log.h"

using namespace mq;

namespace {

struct Pair {
  kj::Own<Listener> listener;
  kj::Own<Stream> client, server;
};

Co<Pair> connectedPair(Shard& shard, std::string host = "127.0.0.1") {
  auto listener = shard.network().listen({.host = host, .port = 0});
  auto accepting = listener->accept();
  auto client = co_await shard.network().connect(listener->local());
  auto server = co_await accepting;
  co_return Pair{kj::mv(listener), kj::mv(client), kj::mv(server)};
}

void onShard(std::function<kj::Promise<void>(Shard&)> body, TestLog* log = nullptr) {
  TestLog own;
  UvNode node({.shards = 1, .seed = 1}, log == nullptr ? own : *log);
  node.run([&](Shard& shard) { return body(shard); });
}

std::string pattern(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>((i * 31) >> 3);
  return bytes;
}

Co<std::string> readExactly(Stream& stream, size_t size) {
  std::string bytes(size, '\0');
  size_t count = co_await stream.tryRead(bytes.data(), size, size);
  bytes.resize(count);
  co_return bytes;
}

Co<kj::Exception::Type> failureOf(kj::Promise<void> promise) {
  try {
    co_await promise;
  } catch (kj::Exception& e) {
    co_return e.getType();
  }
  FAIL("did not fail");
  co_return kj::Exception::Type::UNIMPLEMENTED;
}

// Waits a little, then cancels the promise.
Co<bool> stillWaiting(Shard& shard, kj::Promise<void> promise) {
  bool resolved = false;
  co_await promise.then([&] { resolved = true; }).exclusiveJoin(shard.after(5ms));
  co_return !resolved;
}

void resetOnClose(Stream& stream) {
  linger now{.l_onoff = 1, .l_linger = 0};
  stream.setsockopt(SOL_SOCKET, SO_LINGER, &now, sizeof now);
}

constexpr auto kDisconnected = kj::Exception::Type::DISCONNECTED;

}  // namespace

TEST_CASE("UvStream: writes of many sizes arrive whole, in pieces and against a slow reader") {
  onShard([](Shard& shard) -> Co<void> {
    auto p = co_await connectedPair(shard);
    for (size_t size : {1ul, 100ul, 65'536ul, 8'388'608ul}) {
      std::string out = pattern(size);
      auto* bytes = reinterpret_cast<const kj::byte*>(out.data());
      std::vector<kj::ArrayPtr<const kj::byte>> pieces;
      for (size_t at = 0, step = 1; at < size; at += step, step = std::min(step * 2, size)) {
        pieces.push_back(kj::arrayPtr(bytes + at, std::min(step, size - at)));
        pieces.push_back(nullptr);
      }
      auto writing = p.client->write(kj::arrayPtr(pieces.data(), pieces.size()));
      CHECK(co_await readExactly(*p.server, size) == out);
      co_await writing;
    }
  });
}

TEST_CASE("UvStream: after the peer's half close reads end, and writes still arrive") {
  onShard([](Shard& shard) -> Co<void> {
    auto p = co_await connectedPair(shard);
    co_await p.client->write("last", 4);
    p.client->shutdownWrite();
    CHECK(co_await readExactly(*p.server, 10) == "last");
    CHECK(co_await readExactly(*p.server, 10) == "");
    co_await p.server->write("answer", 6);
    CHECK(co_await readExactly(*p.client, 6) == "answer");
    bool open = true;
    uint8_t byte;
    CHECK(p.server->readNow({&byte, 1}, &open) == 0);
    CHECK(!open);
  });
}

TEST_CASE("UvStream: a reset fails reads, writes and waits for a disconnect as DISCONNECTED") {
  onShard([](Shard& shard) -> Co<void> {
    auto p = co_await connectedPair(shard);
    auto gone = p.server->whenWriteDisconnected();
    SUBCASE("while reading") {
      char byte;
      auto reading = p.server->tryRead(&byte, 1, 1).ignoreResult();
      resetOnClose(*p.client);
      p.client = nullptr;
      CHECK(co_await failureOf(kj::mv(reading)) == kDisconnected);
    }
    SUBCASE("while writing") {
      std::string big = pattern(64 << 20);
      auto writing = p.server->write(big.data(), big.size());
      co_await shard.after(5ms);
      resetOnClose(*p.client);
      p.client = nullptr;
      CHECK(co_await failureOf(kj::mv(writing)) == kDisconnected);
    }
    SUBCASE("while idle, even half closed before") {
      p.client->shutdownWrite();
      co_await shard.after(5ms);
      CHECK(co_await stillWaiting(shard, kj::mv(gone)));
      gone = p.server->whenWriteDisconnected();
      resetOnClose(*p.client);
      p.client = nullptr;
    }
    co_await gone;
    CHECK(co_await failureOf(p.server->write("x", 1).then([&] { return p.server->write("x", 1); })) == kDisconnected);
  });
}

TEST_CASE("UvStream: a cancelled read takes nothing, a cancelled write leaves its buffer free") {
  onShard([](Shard& shard) -> Co<void> {
    auto p = co_await connectedPair(shard);
    char early[4];
    {
      auto dropped = p.server->tryRead(early, 4, 4);
    }
    co_await p.client->write("data", 4);
    CHECK(co_await readExactly(*p.server, 4) == "data");
    {
      auto big = std::make_unique<std::string>(pattern(64 << 20));
      auto dropped = p.client->write(big->data(), big->size());
    }
    // The stream is of no use to a protocol now, but what the kernel took arrives and nothing else does.
    p.client->shutdownWrite();
    std::string expected = pattern(64 << 20);
    std::string all;
    for (;;) {
      std::string part = co_await readExactly(*p.server, 1 << 20);
      all += part;
      if (part.size() < (1 << 20)) break;
    }
    CHECK(all.size() < expected.size());
    CHECK(expected.starts_with(all));
  });
}

TEST_CASE("UvStream: readNow gives what is there, and tells when there is nothing yet or ever") {
  onShard([](Shard& shard) -> Co<void> {
    auto p = co_await connectedPair(shard);
    uint8_t buffer[16];
    bool open = false;
    CHECK(p.server->readNow(buffer, &open) == 0);
    CHECK(open);
    co_await p.client->write("hello", 5);
    char first;
    co_await p.server->tryRead(&first, 1, 1);
    CHECK(p.server->readNow(buffer, &open) == 4);
    CHECK(asText({buffer, 4}) == "ello");
    CHECK(p.server->readNow(buffer, &open) == 0);
    CHECK(open);
    resetOnClose(*p.client);
    p.client = nullptr;
    co_await shard.after(5ms);
    CHECK(p.server->readNow(buffer, &open) == 0);
  });
}

TEST_CASE("UvStream: unread data and half closed peers do not keep the loop busy") {
  onShard([](Shard& shard) -> Co<void> {
    auto p = co_await connectedPair(shard);
    char byte;
    co_await p.client->write("ab", 2);
    co_await p.server->tryRead(&byte, 1, 1);
    co_await p.client->write("more", 4);
    auto gone = p.server->whenWriteDisconnected();
    p.client->shutdownWrite();
    co_await shard.after(5ms);
    uint64_t before = shard.turns().count;
    co_await shard.after(50ms);
    CHECK(shard.turns().count - before < 8);
    CHECK(co_await readExactly(*p.server, 10) == "bmore");
  });
}

TEST_CASE("UvStream: sendFile sends exactly the range, across partial sends, and can be cancelled") {
  onShard([](Shard& shard) -> Co<void> {
    TestDirectory directory;
    auto p = co_await connectedPair(shard);
    std::string content = pattern(20 << 20);
    FileRef file = shard.files().open(directory / "f", OpenMode::createNew);
    file->write(0, asBytes(content));

    auto sending = p.server->sendFile(*file, 5, content.size() - 5);
    CHECK(co_await readExactly(*p.client, content.size() - 5) == content.substr(5));
    co_await sending;
    co_await p.server->sendFile(*file, 7, 0);
    CHECK(co_await stillWaiting(shard, p.server->sendFile(*file, 0, content.size())));
  });
}

TEST_CASE("UvStream: sendFile past the end of the file fails as FAILED") {
  onShard([](Shard& shard) -> Co<void> {
    TestDirectory directory;
    auto p = co_await connectedPair(shard);
    FileRef file = shard.files().open(directory / "f", OpenMode::createNew);
    file->write(0, asBytes("short"));
    CHECK(co_await failureOf(p.server->sendFile(*file, 0, 6)) == kj::Exception::Type::FAILED);
    CHECK(co_await readExactly(*p.client, 5) == "short");
  });
}

TEST_CASE("UvStream: one busy connection leaves turns to the others") {
  onShard([](Shard& shard) -> Co<void> {
    TestDirectory directory;
    auto busy = co_await connectedPair(shard);
    auto quiet = co_await connectedPair(shard);
    FileRef file = shard.files().open(directory / "f", OpenMode::createNew);
    std::string content = pattern(32 << 20);
    file->write(0, asBytes(content));
    bool sent = false;
    auto sending = busy.server->sendFile(*file, 0, content.size()).then([&] { sent = true; });
    auto receiving = readExactly(*busy.client, content.size());
    co_await quiet.client->write("?", 1);
    CHECK(co_await readExactly(*quiet.server, 1) == "?");
    CHECK(!sent);
    co_await sending;
    co_await receiving;
  });
}

TEST_CASE("UvStream: corked writes leave together") {
  onShard([](Shard& shard) -> Co<void> {
    auto p = co_await connectedPair(shard);
    p.client->cork(true);
    co_await p.client->write("head", 4);
    uint8_t buffer[16];
    bool open;
    co_await shard.after(2ms);
    CHECK(p.server->readNow(buffer, &open) == 0);
    co_await p.client->write("body", 4);
    p.client->cork(false);
    char first;
    co_await p.server->tryRead(&first, 1, 1);
    CHECK(p.server->readNow(buffer, &open) == 7);
  });
}

TEST_CASE("UvNetwork: IPv4 and IPv6 connect, and both ends know each other's addresses") {
  onShard([](Shard& shard) -> Co<void> {
    for (std::string host : {"127.0.0.1", "::1"}) {
      auto p = co_await connectedPair(shard, host);
      CHECK(p.client->peer() == p.listener->local());
      CHECK(p.server->local() == p.listener->local());
      CHECK(p.server->peer() == p.client->local());
      CHECK(p.client->peer().host == host);
    }
    auto p = co_await connectedPair(shard, "localhost");
    CHECK(p.server->local().host == "127.0.0.1");
    // A wildcard of IPv6 takes IPv4 clients, shown as such.
    auto listener = shard.network().listen({.host = "::", .port = 0});
    auto accepting = listener->accept();
    auto client = co_await shard.network().connect({.host = "127.0.0.1", .port = listener->local().port});
    auto server = co_await accepting;
    CHECK(server->peer().host == "127.0.0.1");
  });
}

TEST_CASE("UvNetwork: refused connections, unknown names and taken ports say which and why") {
  onShard([](Shard& shard) -> Co<void> {
    auto listener = shard.network().listen({.host = "127.0.0.1", .port = 0});
    Address address = listener->local();
    CHECK_THROWS_WITH(
        static_cast<void>(shard.network().listen(address)),
        doctest::Contains(fmt::format("cannot listen on {}: Address already in use", address.toString()).c_str()));
    listener = nullptr;
    auto reason = [&](Address to) -> Co<std::string> {
      try {
        co_await shard.network().connect(to);
      } catch (kj::Exception& e) {
        CHECK(e.getType() == kDisconnected);
        co_return e.getDescription().cStr();
      }
      co_return "connected";
    };
    CHECK(co_await reason(address) == fmt::format("cannot connect to {}: Connection refused", address.toString()));
    CHECK((co_await reason({.host = "no-such-host.invalid", .port = 1}))
              .starts_with("cannot resolve no-such-host.invalid: "));
  });
}

TEST_CASE("UvListener: out of descriptors it turns clients away, says so, and recovers") {
  TestLog log;
  onShard(
      [&](Shard& shard) -> Co<void> {
        auto listener = shard.network().listen({.host = "127.0.0.1", .port = 0});
        rlimit before;
        REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
        int client = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0),
            later = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        auto connectBlocking = [&](int fd) {
          sockaddr_in to{};
          to.sin_family = AF_INET;
          to.sin_port = htons(listener->local().port);
          to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
          REQUIRE(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0);
        };
        int highest = open("/dev/null", O_RDONLY | O_CLOEXEC);
        rlimit tight{.rlim_cur = static_cast<rlim_t>(highest), .rlim_max = before.rlim_max};
        close(highest);
        REQUIRE(setrlimit(RLIMIT_NOFILE, &tight) == 0);
        auto accepting = listener->accept();
        connectBlocking(client);
        auto closed = [&]() -> bool {
          char byte;
          return recv(client, &byte, 1, MSG_DONTWAIT) == 0;
        };
        for (int i = 0; i < 100 && !closed(); ++i) co_await shard.after(1ms);
        CHECK(closed());
        REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
        connectBlocking(later);
        auto server = co_await shard.within(5s, kj::mv(accepting));
        co_await server->write("ok", 2);
        close(client);
        close(later);
      },
      &log);
  CHECK(log.has("out_of_descriptors", "127.0.0.1"));
}
