#include "replica/followers.h"

#include <doctest/doctest.h>

namespace mq::replica {
namespace {

constexpr Duration kLag = 10s;

Instant at(int seconds) { return Instant(std::chrono::seconds(seconds)); }
FollowerId follower(int node, uint64_t session = 1) {
  return {.node = NodeId(node), .incarnation = Uuid::fromHalves(0, static_cast<uint64_t>(node)), .session = session};
}
std::vector<NodeId> nodes(std::initializer_list<int> ids) {
  std::vector<NodeId> list;
  for (int id : ids) list.emplace_back(id);
  return list;
}

struct World {
  Followers followers{NodeId(1)};
  World() { followers.begin(nodes({1, 2, 3}), nodes({1, 2, 3}), 1, Offset(100), at(0)); }
  std::vector<NodeId> wanted(int seconds, Offset from = Offset(100)) {
    return followers.wanted(at(seconds), kLag, {Offset(0), from}, [](NodeId, const Uuid&) { return true; });
  }
};

TEST_CASE("Followers: nobody is durable anywhere before its place was found right, and never beyond it") {
  World w;
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(-1));
  w.followers.placed(follower(2), Offset(90), {Offset(0), Offset(95)}, at(1));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(-1));
  w.followers.placed(follower(3), Offset(100), {Offset(0), Offset(80)}, at(1));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(80));
  w.followers.reported(follower(3), {Offset(0), Offset(120)}, at(1));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(90));
  CHECK(w.followers.durableEnd(Offset(70)) == Offset(70));
  CHECK_FALSE(w.followers.placed(follower(4), Offset(100), {Offset(0), Offset(100)}, at(1)));
  w.followers.begin(nodes({1, 2, 3}), nodes({1, 2, 3}), 2, Offset(100), at(2));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(-1));
}

TEST_CASE("Followers: an older session is not heard, and a newer one may say less") {
  World w;
  w.followers.placed(follower(3), Offset(100), {Offset(0), Offset(100)}, at(1));
  w.followers.placed(follower(2, 5), Offset(100), {Offset(0), Offset(100)}, at(1));
  CHECK_FALSE(w.followers.placed(follower(2, 4), Offset(50), {Offset(0), Offset(50)}, at(1)));
  CHECK_FALSE(w.followers.reported(follower(2, 4), {Offset(0), Offset(100)}, at(1)));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(100));
  w.followers.placed(follower(2, 6), Offset(40), {Offset(0), Offset(30)}, at(1));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(30));
  w.followers.gone(follower(2, 5), at(2));
  CHECK(w.followers.reported(follower(2, 6), {Offset(0), Offset(40)}, at(2)));
}

TEST_CASE("Followers: who keeps up under load is in sync, although it never holds the very end") {
  World w;
  w.followers.placed(follower(2), Offset(100), {Offset(0), Offset(100)}, at(0));
  w.followers.placed(follower(3), Offset(100), {Offset(0), Offset(100)}, at(0));
  for (int second = 1; second < 60; ++second) {
    w.followers.grown(Offset(100 + 10 * second), at(second));
    Offset behind(100 + 10 * (second - 1));
    w.followers.placed(follower(2), behind, {Offset(0), behind}, at(second));
    if (second < 20) w.followers.placed(follower(3), behind, {Offset(0), behind}, at(second));
  }
  CHECK(w.wanted(60, Offset(1000)) == nodes({1, 2}));
  CHECK(w.followers.someoneLags());
}

TEST_CASE("Followers: an idle one is in sync as long as its session lives, then for the time that it may lag") {
  World w;
  w.followers.placed(follower(2), Offset(100), {Offset(0), Offset(100)}, at(1));
  w.followers.placed(follower(3), Offset(100), {Offset(0), Offset(100)}, at(1));
  CHECK_FALSE(w.followers.someoneLags());
  CHECK(w.wanted(1000) == nodes({1, 2, 3}));
  w.followers.gone(follower(3), at(1000));
  CHECK(w.followers.someoneLags());
  CHECK(w.wanted(1010) == nodes({1, 2, 3}));
  CHECK(w.wanted(1011) == nodes({1, 2}));
}

TEST_CASE("Followers: one that a new leader never hears of leaves after the time that it may lag") {
  World w;
  w.followers.placed(follower(2), Offset(100), {Offset(0), Offset(100)}, at(1));
  CHECK(w.wanted(10) == nodes({1, 2, 3}));
  CHECK(w.wanted(11) == nodes({1, 2}));
}

TEST_CASE("Followers: who is outside comes in once it holds all that it must, if it is admitted") {
  World w;
  w.followers.commit(nodes({1, 2, 3}), nodes({1, 2}), 2, at(0));
  w.followers.placed(follower(2), Offset(100), {Offset(0), Offset(100)}, at(1));
  w.followers.placed(follower(3), Offset(99), {Offset(0), Offset(99)}, at(1));
  CHECK_FALSE(w.followers.someoneMayEnter({Offset(0), Offset(100)}));
  w.followers.placed(follower(3), Offset(100), {Offset(0), Offset(100)}, at(1));
  CHECK(w.followers.someoneMayEnter({Offset(0), Offset(100)}));
  CHECK(w.wanted(1) == nodes({1, 2, 3}));
  CHECK(w.followers.wanted(at(1), kLag, {Offset(0), Offset(100)}, [](NodeId, const Uuid&) { return false; }) ==
        nodes({1, 2}));
  w.followers.gone(follower(3), at(2));
  CHECK_FALSE(w.followers.someoneMayEnter({Offset(0), Offset(100)}));
}

TEST_CASE("Followers: who still holds what was deleted does not come in, and a deletion waits for all that count") {
  World w;
  w.followers.commit(nodes({1, 2, 3}), nodes({1, 2}), 2, at(0));
  w.followers.placed(follower(2), Offset(100), {Offset(40), Offset(100)}, at(1));
  w.followers.placed(follower(3), Offset(100), {Offset(0), Offset(100)}, at(1));
  CHECK(w.followers.beginAt(Offset(40)));
  CHECK_FALSE(w.followers.beginAt(Offset(41)));
  CHECK_FALSE(w.followers.someoneMayEnter({Offset(40), Offset(100)}));
  w.followers.reported(follower(3), {Offset(40), Offset(100)}, at(1));
  CHECK(w.followers.someoneMayEnter({Offset(40), Offset(100)}));
  w.followers.placed(follower(3, 2), Offset(100), {Offset(0), Offset(100)}, at(1));  // begun anew
  w.followers.propose(nodes({1, 2, 3}));
  CHECK_FALSE(w.followers.beginAt(Offset(40)));
}

TEST_CASE("Followers: the union counts while a proposal may still be taken") {
  using Outcome = Followers::Outcome;
  World w;
  auto begin = [&](int32_t epoch) {
    w.followers.commit(nodes({1, 2, 3}), nodes({1, 2}), epoch, at(0));
    w.followers.placed(follower(2), Offset(100), {Offset(0), Offset(100)}, at(1));
    w.followers.placed(follower(3), Offset(90), {Offset(0), Offset(90)}, at(1));
    CHECK(w.followers.durableEnd(Offset(100)) == Offset(100));
    w.followers.propose(nodes({1, 2, 3}));
    CHECK_FALSE(w.followers.mayPropose());
    CHECK(w.followers.durableEnd(Offset(100)) == Offset(90));
  };
  begin(2);
  w.followers.answered(2, Outcome::refused);
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(100));
  CHECK(w.followers.mayPropose());

  for (Outcome outcome : {Outcome::unknown, Outcome::taken}) {
    int32_t epoch = w.followers.partitionEpoch() + 1;
    begin(epoch);
    w.followers.answered(epoch, outcome);
    CHECK(w.followers.durableEnd(Offset(100)) == Offset(90));
    w.followers.propose(nodes({1, 2}));  // the refusal of a later one says nothing of the first
    w.followers.answered(epoch, Outcome::refused);
    CHECK(w.followers.durableEnd(Offset(100)) == Offset(90));
    CHECK(w.followers.isUndecided());
    w.followers.commit(nodes({1, 2, 3}), nodes({1, 2}), epoch + 1, at(1));
    CHECK(w.followers.durableEnd(Offset(100)) == Offset(100));
    CHECK_FALSE(w.followers.isUndecided());
  }
  // A shrink counts once it is committed.
  w.followers.commit(nodes({1, 2, 3}), nodes({1, 2, 3}), 20, at(1));
  w.followers.propose(nodes({1, 2}));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(90));
  w.followers.commit(nodes({1, 2, 3}), nodes({1, 2}), 21, at(1));
  CHECK(w.followers.durableEnd(Offset(100)) == Offset(100));
  w.followers.answered(20, Outcome::unknown);  // late
  CHECK_FALSE(w.followers.isUndecided());
}

}  // namespace
}  // namespace mq::replica
