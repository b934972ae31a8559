#include "kafka/buffer_pool.h"

#include <doctest/doctest.h>

namespace mq::kafka {
namespace {

// A loop for the promises of the pool.
struct Loop {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
};

TEST_CASE("BufferPool: data stops at the reserve, small requests at the limit") {
  BufferPool pool({.bytesMax = 200'000, .reserveBytes = 100'000, .idleBytesMax = 0});
  BufferRef data = pool.take(60'000, Claim::data);
  REQUIRE(data);
  CHECK(data.capacity() >= 60'000);
  CHECK_FALSE(pool.take(60'000, Claim::data));
  BufferRef small = pool.take(60'000, Claim::small);
  CHECK(small);
  CHECK_FALSE(pool.take(70'000, Claim::small));
}

TEST_CASE("BufferPool: a frame that is larger than the budget gets through alone") {
  BufferPool pool({.bytesMax = 100'000, .reserveBytes = 50'000});
  {
    CHECK(pool.take(1 << 20, Claim::data));
  }
  BufferRef other = pool.take(100, Claim::small);
  CHECK_FALSE(pool.take(1 << 20, Claim::data));
}

TEST_CASE("BufferPool: the last reference gives the memory back, and it is used again") {
  BufferPool pool({});
  uint8_t* first;
  {
    BufferRef a = pool.take(100'000, Claim::data);
    BufferRef b = a;
    first = a.data();
    a.reset();
    CHECK(pool.used() >= 100'000);
    CHECK(b.onlyReference());
  }
  CHECK(pool.used() == 0);
  CHECK(pool.idle() >= 100'000);
  CHECK(pool.take(100'000, Claim::data).data() == first);
}

TEST_CASE("BufferPool: what nobody used between two trims goes back to the system") {
  BufferPool pool({});
  {
    BufferRef a = pool.take(100'000, Claim::data), b = pool.take(100'000, Claim::data);
  }
  size_t idle = pool.idle();
  pool.trim();  // both were in use since the last one
  CHECK(pool.idle() == idle);
  {
    BufferRef a = pool.take(100'000, Claim::data);
  }
  pool.trim();
  CHECK(pool.idle() == idle / 2);
  pool.trim();
  CHECK(pool.idle() == 0);
}

TEST_CASE("BufferPool: who waits for room is woken in order, small ones past blocked data") {
  Loop loop;
  BufferPool pool({.bytesMax = 300'000, .reserveBytes = 100'000, .idleBytesMax = 0});
  BufferRef held = pool.take(190'000, Claim::data);
  BufferRef more = pool.take(20'000, Claim::small);
  auto large = pool.room(150'000, Claim::data);
  auto second = pool.room(1'000, Claim::data);
  auto small = pool.room(1'000, Claim::small);
  CHECK(pool.waiting() == 3);
  more.reset();
  CHECK(small.poll(loop.scope));
  CHECK_FALSE(large.poll(loop.scope));
  CHECK_FALSE(second.poll(loop.scope));  // or a stream of small Produce requests would starve the large one
  held.reset();
  CHECK(large.poll(loop.scope));
  CHECK(second.poll(loop.scope));
  CHECK(pool.waiting() == 0);
}

TEST_CASE("BufferPool: a wake-up that got lost with its connection is made up for by trim") {
  Loop loop;
  BufferPool pool({.bytesMax = 200'000, .reserveBytes = 0, .idleBytesMax = 0});
  BufferRef held = pool.take(190'000, Claim::data);
  kj::Maybe<kj::Promise<void>> first = pool.room(150'000, Claim::data);
  auto second = pool.room(150'000, Claim::data);
  held.reset();
  first = nullptr;  // woken, but gone
  CHECK_FALSE(second.poll(loop.scope));
  pool.trim();
  CHECK(second.poll(loop.scope));
}

TEST_CASE("BufferPool: counted memory is never refused, and holds back what comes after it") {
  BufferPool pool({.bytesMax = 100'000, .reserveBytes = 10'000});
  pool.count(500'000);
  CHECK(pool.spent());
  CHECK_FALSE(pool.take(10, Claim::small));
  pool.uncount(500'000);
  CHECK(pool.take(10, Claim::small));
}

}  // namespace
}  // namespace mq::kafka
