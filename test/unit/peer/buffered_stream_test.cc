#include "peer/buffered_stream.h"

#include <doctest/doctest.h>
#include <kj/debug.h>

#include <deque>
#include <functional>

#include "base/random.h"

using namespace mq;
using namespace mq::peer;

namespace {

// What goes in at one end comes out at the other; counts the calls, gives at most so many bytes a read.
class Pipe final : public kj::AsyncIoStream {
 public:
  explicit Pipe(Prng& random) : random_(random) {}

  kj::Promise<size_t> tryRead(void* buffer, size_t minBytes, size_t maxBytes) override {
    ++reads;
    size_t count = std::min(maxBytes, std::max<size_t>(minBytes, random_.between(1, 100'000)));
    count = std::min(count, toRead.size());
    for (size_t i = 0; i < count; ++i) static_cast<uint8_t*>(buffer)[i] = toRead[i];
    toRead.erase(toRead.begin(), toRead.begin() + static_cast<std::ptrdiff_t>(count));
    return kj::evalLater([count] { return count; });
  }
  kj::Promise<void> write(const void* buffer, size_t size) override {
    ++writes;
    if (fails) return KJ_EXCEPTION(DISCONNECTED, "gone");
    auto* from = static_cast<const uint8_t*>(buffer);
    written.insert(written.end(), from, from + size);
    auto promise = hold ? hold() : kj::Promise<void>(kj::READY_NOW);
    return promise;
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    Buffer all;
    for (const auto& piece : pieces) all.insert(all.end(), piece.begin(), piece.end());
    return write(all.data(), all.size());
  }
  kj::Promise<void> whenWriteDisconnected() override { return kj::NEVER_DONE; }
  void shutdownWrite() override { isShut = true; }

  std::deque<uint8_t> toRead;
  Buffer written;
  size_t reads = 0, writes = 0;
  bool isShut = false, fails = false;
  std::function<kj::Promise<void>()> hold;

 private:
  Prng& random_;
};

struct Loop {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
};

}  // namespace

TEST_CASE("BufferedStream: what is written in one turn is one write") {
  Loop loop;
  Prng random(1);
  auto pipe = kj::heap<Pipe>(random);
  Pipe& under = *pipe;
  BufferedStream stream(kj::mv(pipe));
  for (int i = 0; i < 50; ++i) stream.write("0123456789", 10).wait(loop.scope);
  loop.scope.poll();
  CHECK(under.written.size() == 500);
  CHECK(under.writes == 1);
}

TEST_CASE("BufferedStream: any sizes keep their order, and the end comes last") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed ", seed);
    Loop loop;
    Prng random(seed);
    auto pipe = kj::heap<Pipe>(random);
    Pipe& under = *pipe;
    under.hold = [&] {
      kj::Promise<void> wait = kj::READY_NOW;
      for (uint64_t i = random.below(4); i-- > 0;) wait = wait.then([] { return kj::evalLater([] {}); });
      return wait;
    };
    BufferedStream stream(kj::mv(pipe));
    Buffer expected;
    for (uint64_t i = random.between(1, 30); i-- > 0;) {
      std::vector<Buffer> pieces(random.between(1, 3));
      std::vector<kj::ArrayPtr<const kj::byte>> views;
      for (Buffer& piece : pieces) {
        piece.resize(random.chance(1, 6) ? random.below(100'000) : random.below(200));
        for (uint8_t& byte : piece) byte = static_cast<uint8_t>(random.next());
        expected.insert(expected.end(), piece.begin(), piece.end());
        views.push_back(kj::arrayPtr(piece.data(), piece.size()));
      }
      stream.write(kj::arrayPtr(views.data(), views.size())).wait(loop.scope);
      if (random.chance(1, 4)) loop.scope.poll();
    }
    stream.shutdownWrite();
    loop.scope.poll();
    REQUIRE(under.written == expected);
    REQUIRE(under.isShut);
  }
}

TEST_CASE("BufferedStream: reads give the bytes in order, at least as many as asked, with few reads below") {
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed ", seed);
    Loop loop;
    Prng random(seed);
    auto pipe = kj::heap<Pipe>(random);
    Pipe& under = *pipe;
    Buffer sent(random.below(300'000));
    for (uint8_t& byte : sent) byte = static_cast<uint8_t>(random.next());
    under.toRead.assign(sent.begin(), sent.end());
    BufferedStream stream(kj::mv(pipe));
    Buffer got;
    while (true) {
      size_t max = random.between(1, random.chance(1, 8) ? 200'000 : 64);
      size_t min = random.between(1, max);
      Buffer block(max);
      size_t count = stream.tryRead(block.data(), min, max).wait(loop.scope);
      REQUIRE(count <= max);
      got.insert(got.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count));
      if (count < min) break;
    }
    REQUIRE(got == sent);
  }
}

TEST_CASE("BufferedStream: a failed write is told to the later ones") {
  Loop loop;
  Prng random(1);
  auto pipe = kj::heap<Pipe>(random);
  pipe->fails = true;
  BufferedStream stream(kj::mv(pipe));
  stream.write("x", 1).wait(loop.scope);
  loop.scope.poll();
  CHECK_THROWS_AS(stream.write("y", 1).wait(loop.scope), kj::Exception);
  Buffer large(100'000);
  CHECK_THROWS_AS(stream.write(large.data(), large.size()).wait(loop.scope), kj::Exception);
}
