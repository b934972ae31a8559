#include "raft/membership.h"

#include <doctest/doctest.h>

#include "raft/messages.h"

using namespace mq;
using namespace mq::raft;

namespace {

Membership membersOf(std::initializer_list<int> voters, std::initializer_list<int> observers = {}) {
  Membership membership;
  for (int id : voters)
    membership.members.push_back({{NodeId(id), Uuid::fromHalves(7, static_cast<uint64_t>(id))}, true});
  for (int id : observers) membership.members.push_back({{NodeId(id), {}}, false});
  return membership;
}

}  // namespace

TEST_CASE("A membership entry has the bytes that its comment says, and comes back") {
  Membership membership = membersOf({1}, {258});
  Buffer data = encodeMembership(membership);
  const Buffer expected = {0, 0,                                                           // version
                           0, 0, 0, 2,                                                     // count
                           0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1, 1,  //
                           0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  CHECK(data == expected);
  CHECK(decodeMembership(data) == membership);
  Entry first = bootstrapEntry(membership);
  CHECK(first.index == 1);
  CHECK(first.term == 1);
  CHECK(decodeMembership(first.data) == membership);
}

TEST_CASE("What is no membership is refused") {
  Buffer good = encodeMembership(membersOf({1, 2}, {3}));
  for (size_t length = 0; length < good.size(); ++length) CHECK(!decodeMembership(Bytes(good.data(), length)));
  auto with = [&](size_t at, uint8_t byte) {
    Buffer data = good;
    data[at] = byte;
    return decodeMembership(data);
  };
  CHECK(!with(1, 1));                                              // a version to come
  CHECK(!with(5, 4));                                              // more than there are
  CHECK(!with(5, 2));                                              // fewer
  CHECK(!with(2, 0x7F));                                           // two billion
  CHECK(!with(6, 0x80));                                           // a negative id
  CHECK(!with(9, 2));                                              // one id twice
  CHECK(!with(9, 9));                                              // not ascending
  CHECK(!with(26, 2));                                             // neither voter nor observer
  CHECK(!decodeMembership(encodeMembership(membersOf({}, {3}))));  // nobody votes
  CHECK(!decodeMembership(encodeMembership({})));
}

TEST_CASE("A majority has reached the value that more than half of the voters have reached") {
  auto reached = [](std::initializer_list<int> voters, auto... values) {
    std::vector<int> all = {values...};
    return majorityOf(membersOf(voters, {9}), [&](NodeId id) { return all[static_cast<size_t>(id.value() - 1)]; });
  };
  CHECK(reached({1}, 5) == 5);
  CHECK(reached({1, 2}, 5, 3) == 3);
  CHECK(reached({1, 2, 3}, 5, 3, 4) == 4);
  CHECK(reached({1, 2, 3, 4}, 5, 3, 4, 2) == 3);
  CHECK(reached({1, 2, 3, 4, 5}, 1, 5, 2, 4, 3) == 3);
}

TEST_CASE("Two memberships differ by the voters that come and go, and a directory is part of a voter") {
  CHECK(votersChanged(membersOf({1, 2}), membersOf({1, 2})) == 0);
  CHECK(votersChanged(membersOf({1, 2}), membersOf({1, 2}, {3})) == 0);
  CHECK(votersChanged(membersOf({1, 2}), membersOf({1, 2, 3})) == 1);
  CHECK(votersChanged(membersOf({1, 2}), membersOf({1}, {2})) == 1);
  CHECK(votersChanged(membersOf({1, 2}), membersOf({1, 3})) == 2);
  Membership wiped = membersOf({1, 2});
  wiped.members[1].replica.directory = Uuid::fromHalves(8, 8);
  CHECK(votersChanged(membersOf({1, 2}), wiped) == 2);
  CHECK(!wiped.isVoter(membersOf({1, 2}).members[1].replica));
  CHECK(wiped.find(NodeId(2)) != nullptr);
  CHECK(wiped.find(NodeId(3)) == nullptr);
}

TEST_CASE("The membership of an index is that of the last entry up to it") {
  MembershipHistory history(0, membersOf({1}));
  history.add(5, membersOf({1}, {2}));
  history.add(8, membersOf({1, 2}));
  auto at = [&](int64_t index) { return show(history.at(index)); };
  CHECK(at(0) == "1");
  CHECK(at(4) == "1");
  CHECK(at(5) == "1 (2)");
  CHECK(at(7) == "1 (2)");
  CHECK(at(100) == "1 2");
  CHECK(history.committed(8).index == 8);
  CHECK(history.committed(7).index == 5);
  CHECK(history.committed(0).index == 5);  // whatever is known: 8 came only when 5 was committed
  history.compact(6);                      // nobody asks below
  CHECK(at(6) == "1 (2)");
  CHECK(at(8) == "1 2");
  history.truncate(8);
  CHECK(history.latestIndex() == 5);
  history.truncate(1);  // the first one stays: it is committed
  CHECK(history.latestIndex() == 5);
  history.reset(20, membersOf({3}));
  CHECK(at(20) == "3");
  CHECK(history.latestIndex() == 20);
}
