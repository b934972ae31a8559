// UvNode, its shards, mailboxes, pools and timers.
#include "runtime/uv/node.h"

#include <doctest/doctest.h>
#include <kj/debug.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "test_log.h"

using namespace mq;

namespace {

void onNode(uint32_t shards, std::function<kj::Promise<void>(Shard&)> body) {
  TestLog log;
  UvNode node({.shards = shards, .seed = 1}, log);
  node.run([&](Shard& first) { return body(first); });
}

double cpuSeconds() {
  rusage use;
  getrusage(RUSAGE_SELF, &use);
  return static_cast<double>(use.ru_utime.tv_sec + use.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(use.ru_utime.tv_usec + use.ru_stime.tv_usec);
}

}  // namespace

TEST_CASE("UvNode: the body's exception leaves run() after the node has ended") {
  bool destroyed = false;
  auto run = [&] {
    onNode(2, [&](Shard& shard) -> kj::Promise<void> {
      shard.atEnd([&destroyed] { destroyed = true; });
      return KJ_EXCEPTION(FAILED, "no disk");
    });
  };
  CHECK_THROWS_WITH_AS(run(), doctest::Contains("no disk"), kj::Exception);
  CHECK(destroyed);
}

TEST_CASE("UvNode: atEnd tasks run on their shard, last shard first, the latest first") {
  std::vector<std::string> order;
  std::thread::id threads[2], ends[2];
  onNode(2, [&](Shard& first) -> Co<void> {
    for (uint32_t i = 0; i < 2; ++i) {
      co_await first.call(i, [&, i, shard = &first] {
        threads[i] = std::this_thread::get_id();
        (void)shard;
      });
    }
    first.atEnd([&] {
      order.push_back("0 early");
      ends[0] = std::this_thread::get_id();
    });
    first.atEnd([&] { order.push_back("0 late"); });
    co_await first.call(1, [&] { return 1; });
  });
  CHECK(order == std::vector<std::string>{"0 late", "0 early"});
  CHECK(ends[0] == threads[0]);
  CHECK(threads[0] != threads[1]);
}

TEST_CASE("UvNode: a signal resolves its promise, and the next one needs a new promise") {
  TestLog log;
  UvNode node({.shards = 2}, log);
  node.run([&](Shard&) -> Co<void> {
    for (int number : {SIGTERM, SIGINT}) {
      auto promise = node.signal();
      CHECK(kill(getpid(), number) == 0);
      CHECK(co_await promise == number);
    }
    {
      auto dropped = node.signal();
    }
  });
}

TEST_CASE("Shard: timers fire in order, never early, also beside a busy loop") {
  onNode(1, [](Shard& shard) -> Co<void> {
    std::vector<int> fired;
    auto note = [&](int wait) -> Co<void> {
      Instant begin = shard.now();
      co_await shard.after(wait * 1ms);
      CHECK(shard.now() - begin >= wait * 1ms);
      fired.push_back(wait);
    };
    auto c = note(30), a = note(5), b = note(12);
    bool busy = true;
    auto spin = [&]() -> Co<void> {
      while (busy) co_await kj::evalLater([] {});
    };
    auto load = spin();
    co_await a;
    co_await b;
    co_await c;
    busy = false;
    co_await load;
    CHECK(fired == std::vector<int>{5, 12, 30});
  });
}

TEST_CASE("Shard: a long callback does not make the next timer early") {
  onNode(1, [](Shard& shard) -> Co<void> {
    co_await shard.after(1ms);
    Instant begin = shard.now();
    while (shard.now() - begin < 20ms) {
    }
    Instant asked = shard.now();
    co_await shard.after(10ms);
    CHECK(shard.now() - asked >= 10ms);
    CHECK(shard.turns().overOneMs >= 1);
    CHECK(shard.turns().longest >= 20ms);
  });
}

TEST_CASE("Shard: a timer already due does not put the loop to sleep") {
  onNode(1, [](Shard& shard) -> Co<void> {
    for (int i = 0; i < 200; ++i) {
      Instant begin = shard.now();
      auto due = shard.after(100us);
      while (shard.now() - begin < 300us) {
      }
      co_await due;
    }
  });
}

TEST_CASE("Shard: an idle node uses no processor") {
  onNode(2, [](Shard& shard) -> Co<void> {
    co_await shard.call(1, [] {});
    double before = cpuSeconds();
    co_await shard.after(300ms);
    CHECK(cpuSeconds() - before < 0.02);
  });
}

TEST_CASE("Shard: within() gives up after its limit and cancels, or passes the value on") {
  onNode(1, [](Shard& shard) -> Co<void> {
    bool cancelled = false;
    auto never = [&]() -> Co<int> {
      KJ_DEFER(cancelled = true);
      co_await kj::Promise<void>(kj::NEVER_DONE);
      co_return 1;
    };
    try {
      co_await shard.within<int>(5ms, never());
      FAIL("resolved");
    } catch (kj::Exception& e) {
      CHECK(e.getType() == kj::Exception::Type::OVERLOADED);
    }
    CHECK(cancelled);
    int value = co_await shard.within<int>(1s, kj::Promise<int>(7));
    CHECK(value == 7);
  });
}

TEST_CASE("Shard: posts arrive in the order of their sender, each exactly once, from all to all") {
  constexpr uint32_t kShards = 4;
  constexpr uint64_t kPosts = 20'000;
  struct Receiver {
    uint64_t next[kShards] = {};
    bool ordered = true;
  };
  Receiver receivers[kShards];  // each used by tasks of its shard only
  onNode(kShards, [&](Shard& first) -> Co<void> {
    auto send = [&](Shard& self) -> Co<void> {
      uint32_t from = self.index();
      for (uint64_t i = 0; i < kPosts; ++i) {
        for (uint32_t to = 0; to < kShards; ++to) {
          self.post(to, [&receiver = receivers[to], from, i] {
            receiver.ordered &= receiver.next[from] == i;
            receiver.next[from] = i + 1;
          });
        }
        if (i % 64 == 0) co_await kj::evalLater([] {});
      }
    };
    std::vector<Shard*> shards(kShards);
    shards[0] = &first;
    std::vector<kj::Promise<void>> sending;
    for (uint32_t i = 0; i < kShards; ++i) {
      sending.push_back(first.call(i, [&send](Shard& there) { return send(there); }));
    }
    for (auto& promise : sending) co_await promise;
    // A call goes the same way behind the posts of shard 0; those of others are waited for by asking.
    for (uint32_t i = 0; i < kShards; ++i) {
      for (;;) {
        bool all = co_await first.call(i, [&receiver = receivers[i]] {
          return std::ranges::all_of(receiver.next, [](uint64_t n) { return n == kPosts; });
        });
        if (all) break;
      }
    }
  });
  for (auto& receiver : receivers) CHECK(receiver.ordered);
}

TEST_CASE("Shard: call gives back values, exceptions and what a promise there gives") {
  onNode(2, [](Shard& first) -> Co<void> {
    for (uint32_t target : {1u, 0u}) {
      int plain = co_await first.call(target, [] { return 42; });
      CHECK(plain == 42);
      auto text = co_await first.call(
          target, [s = std::string("moved")]() mutable { return std::make_unique<std::string>(std::move(s)); });
      CHECK(*text == "moved");
      int later = co_await first.call(target, [](Shard& there) -> Co<int> {
        co_await there.after(1ms);
        co_return 7;
      });
      CHECK(later == 7);
      bool caught = false;
      try {
        co_await first.call(target, [] { KJ_FAIL_REQUIRE("over there"); });
      } catch (kj::Exception& e) {
        caught = e.getDescription() == "over there";
      }
      CHECK(caught);
      caught = false;
      try {
        co_await first.call(target, [](Shard& there) -> Co<void> {
          co_await there.after(1ms);
          throw KJ_EXCEPTION(DISCONNECTED, "peer");
        });
      } catch (kj::Exception& e) {
        caught = e.getType() == kj::Exception::Type::DISCONNECTED;
      }
      CHECK(caught);
    }
  });
}

TEST_CASE("Shard: a dropped call runs to its end, and what it carried is freed at home") {
  struct Carried {
    std::thread::id* freedOn;
    std::atomic<int>* freed;
    Carried(std::thread::id* on, std::atomic<int>* count) : freedOn(on), freed(count) {}
    Carried(Carried&& other) noexcept : freedOn(std::exchange(other.freedOn, nullptr)), freed(other.freed) {}
    ~Carried() {
      if (freedOn == nullptr) return;
      *freedOn = std::this_thread::get_id();
      ++*freed;
    }
  };
  std::atomic<int> ran = 0, freed = 0;
  std::thread::id freedOn[3];
  onNode(2, [&](Shard& first) -> Co<void> {
    {
      auto dropped = first.call(1, [&ran, c = Carried(&freedOn[0], &freed)] { ++ran; });
    }
    {
      auto dropped = first.call(1, [&ran, c = Carried(&freedOn[1], &freed)](Shard& there) -> Co<void> {
        co_await there.after(5ms);
        ++ran;
      });
    }
    {
      auto dropped = first.run(Pool::compute, [&ran, c = Carried(&freedOn[2], &freed)] { ++ran; });
    }
    while (freed < 3) co_await first.after(1ms);
    CHECK(ran == 3);
    for (auto& id : freedOn) CHECK(id == std::this_thread::get_id());
  });
}

TEST_CASE("Shard: calls under way when the node ends are dropped without a trace") {
  std::atomic<int> alive = 0;
  struct Counted {
    std::atomic<int>* count;
    explicit Counted(std::atomic<int>* c) : count(c) { ++*count; }
    Counted(Counted&& other) noexcept : count(other.count) { ++*count; }
    ~Counted() { --*count; }
  };
  for (int round = 0; round < 20; ++round) {
    onNode(3, [&](Shard& first) -> Co<void> {
      for (uint32_t i = 0; i < 3; ++i) {
        first.spawn(first.call(i, [c = Counted(&alive)](Shard& there) -> Co<void> { co_await there.after(1h); }));
        first.spawn(first.call(i, [c = Counted(&alive)] {}));
        first.spawn(first.run(Pool::background, [c = Counted(&alive)] { usleep(1000); }));
      }
      if (round % 2 == 0) co_await first.after(500us);
    });
    CHECK(alive == 0);
  }
}

TEST_CASE("Shard: jobs run beside each other up to the bound of their pool, and give values and exceptions") {
  onNode(2, [](Shard& first) -> Co<void> {
    std::thread::id loop = std::this_thread::get_id();
    std::atomic<int> running = 0, most = 0;
    std::vector<kj::Promise<int>> jobs;
    for (int i = 0; i < 32; ++i) {
      jobs.push_back(first.run(Pool::read, [&, i] {
        int now = ++running;
        for (int seen = most; seen < now && !most.compare_exchange_weak(seen, now);) {
        }
        usleep(2000);
        --running;
        return std::this_thread::get_id() == loop ? -1 : i;
      }));
    }
    for (int i = 0; i < 32; ++i) CHECK(co_await jobs[static_cast<size_t>(i)] == i);
    CHECK(most == 4);
    bool caught = false;
    try {
      co_await first.run(Pool::sync, [] { throw ioError("sync", "f", EIO); });
    } catch (kj::Exception& e) {
      caught = std::string(e.getDescription().cStr()) == "cannot sync f: Input/output error";
    }
    CHECK(caught);
  });
}

TEST_CASE("Shard: a spawned task that fails is logged") {
  TestLog log;
  UvNode node({.shards = 1}, log);
  node.run([&](Shard& shard) -> Co<void> {
    shard.spawn(kj::evalLater([] { KJ_FAIL_REQUIRE("in the background"); }));
    co_await shard.after(1ms);
  });
  CHECK(log.has("shard_task", "in the background"));
}
