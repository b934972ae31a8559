#include "runtime/coro.h"

#include <doctest/doctest.h>
#include <kj/debug.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

using namespace mq;

namespace {

int alive = 0;

struct Counted {
  explicit Counted(int v = 0) : value(v) { ++alive; }
  Counted(const Counted& other) : value(other.value) { ++alive; }
  Counted(Counted&& other) noexcept : value(other.value) { ++alive; }
  ~Counted() { --alive; }
  int value;
};

struct Loop {
  kj::EventLoop loop;
  kj::WaitScope scope{loop};
  ~Loop() { CHECK(alive == 0); }
};

kj::Promise<int> later(int value) {
  return kj::evalLater([value] { return value; });
}

Co<int> sum(int a, int b) {
  int x = co_await later(a);
  int y = co_await later(b);
  co_return x + y;
}

Co<void> failLater() {
  Counted local;
  co_await later(1);
  KJ_FAIL_REQUIRE("boom");
}

Co<int> depth(int n) {
  Counted local;
  if (n == 0) co_return 0;
  co_return 1 + co_await depth(n - 1);
}

Co<void> waitForever(bool* destroyed) {
  struct Mark {
    bool* flag;
    ~Mark() { *flag = true; }
  } mark{destroyed};
  Counted local;
  co_await kj::Promise<void>(kj::NEVER_DONE);
}

Co<void> waitOutside(bool* destroyed) {
  Counted local;
  co_await waitForever(destroyed);
}

}  // namespace

TEST_CASE("Co: awaits give values, in loops, conditions and nested calls") {
  Loop l;
  CHECK(sum(3, 4).wait(l.scope) == 7);
  CHECK(depth(1000).wait(l.scope) == 1000);
  auto mixed = [](bool which) -> Co<int> {
    int total = which ? co_await later(1) : co_await later(2);
    for (int i : {1, 2, 3}) total += co_await later(i);
    co_return total;
  };
  CHECK(mixed(true).wait(l.scope) == 7);
  CHECK(mixed(false).wait(l.scope) == 8);
}

TEST_CASE("Co: values that only move, and temporaries in an awaiting expression, are destroyed once") {
  Loop l;
  auto unique = []() -> Co<std::unique_ptr<int>> {
    co_await later(0);
    co_return std::make_unique<int>(5);
  };
  CHECK(*unique().wait(l.scope) == 5);
  auto take = [](Counted counted, std::string text) -> Co<Counted> {
    co_await later(0);
    CHECK(text.size() == 40);
    co_return Counted(counted.value + 1);
  };
  auto chain = [&]() -> Co<int> { co_return (co_await take(Counted(co_await later(9)), std::string(40, 'y'))).value; };
  CHECK(chain().wait(l.scope) == 10);
}

TEST_CASE("Co: an exception travels through awaits, and can be caught there") {
  Loop l;
  auto catches = []() -> Co<std::string> {
    try {
      co_await failLater();
    } catch (kj::Exception& exception) {
      co_return exception.getDescription().cStr();
    }
    co_return "nothing";
  };
  CHECK(catches().wait(l.scope) == "boom");
  CHECK_THROWS_AS(failLater().wait(l.scope), kj::Exception);
  auto standard = []() -> Co<void> {
    throw std::runtime_error("of the library");
    co_return;
  };
  auto outcome = standard().then([] { return std::string(); },
                                 [](kj::Exception&& e) { return std::string(e.getDescription().cStr()); });
  CHECK(outcome.wait(l.scope).find("of the library") != std::string::npos);
}

TEST_CASE("Co: a broken promise given by then() reaches the awaiting frame") {
  Loop l;
  auto f = []() -> Co<int> {
    auto broken = later(1).then([](int) -> int { KJ_FAIL_REQUIRE("inside"); });
    co_return co_await broken;
  };
  CHECK_THROWS_AS(f().wait(l.scope), kj::Exception);
}

TEST_CASE("Co: a destructor that throws after co_return rejects the promise") {
  Loop l;
  auto f = []() -> Co<int> {
    struct Thrower {
      ~Thrower() noexcept(false) { throw std::runtime_error("late"); }
    } thrower;
    co_await later(1);
    co_return 3;
  };
  CHECK_THROWS_AS(f().wait(l.scope), kj::Exception);
}

TEST_CASE("Co: dropping the promise destroys every frame, wherever it waits") {
  Loop l;
  bool destroyed = false;
  SUBCASE("while waiting") {
    auto promise = waitOutside(&destroyed);
    CHECK(!promise.poll(l.scope));
    CHECK(alive == 2);
  }
  SUBCASE("before its first turn") {
    auto promise = waitOutside(&destroyed);
    CHECK(!destroyed);
  }
  SUBCASE("when another promise was faster") {
    int winner = waitOutside(&destroyed).then([] { return 1; }).exclusiveJoin(later(2)).wait(l.scope);
    CHECK(winner == 2);
  }
  SUBCASE("by a canceler, which the waiting side sees as an exception") {
    kj::Canceler canceler;
    auto promise = canceler.wrap<void>(waitOutside(&destroyed));
    canceler.cancel("enough");
    CHECK_THROWS_AS(promise.wait(l.scope), kj::Exception);
  }
  CHECK(destroyed);
  CHECK(alive == 0);
}

TEST_CASE("Co: dropping at each await of a sequence leaves nothing alive") {
  Loop l;
  for (int steps = 0; steps < 12; ++steps) {
    int reached = 0;
    auto walk = [](int* at) -> Co<void> {
      for (int i = 0; i < 4; ++i) {
        Counted local(i);
        *at += co_await later(1);
        *at += co_await sum(0, 1);
      }
    };
    {
      auto promise = walk(&reached).eagerlyEvaluate(nullptr);
      for (int i = 0; i < steps && !promise.poll(l.scope); ++i) kj::evalLater([] {}).wait(l.scope);
    }
    CHECK(alive == 0);
  }
}

TEST_CASE("Co: dropping a finished promise whose result nobody took frees the result") {
  Loop l;
  {
    auto f = []() -> Co<Counted> { co_return Counted(1); };
    auto promise = f();
    promise.poll(l.scope);
    CHECK(alive == 1);
  }
  CHECK(alive == 0);
}

TEST_CASE("Co: mixes with then, fork and joins of KJ") {
  Loop l;
  CHECK(later(1).then([](int x) { return sum(x, 2); }).wait(l.scope) == 3);
  auto fork = kj::Promise<int>(sum(1, 2)).fork();
  auto a = fork.addBranch(), b = fork.addBranch();
  CHECK(a.wait(l.scope) + b.wait(l.scope) == 6);
  auto parts = kj::heapArrayBuilder<kj::Promise<int>>(2);
  parts.add(sum(1, 2));
  parts.add(sum(3, 4));
  CHECK(kj::joinPromises(parts.finish()).wait(l.scope)[1] == 7);
}

TEST_CASE("Co: a hundred thousand awaits of ready promises do not grow the stack") {
  Loop l;
  auto many = []() -> Co<int> {
    int total = 0;
    for (int i = 0; i < 100'000; ++i) total += co_await kj::Promise<int>(1);
    co_return total;
  };
  CHECK(many().wait(l.scope) == 100'000);
}
