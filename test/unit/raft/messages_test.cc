#include "raft/messages.h"

#include <doctest/doctest.h>

#include "raft/membership.h"

using namespace mq;
using namespace mq::raft;

namespace {

constexpr int64_t kHuge = INT64_MAX;

bool isSane(int64_t term, auto body) {
  return raft::isSane({.from = {NodeId(1), {}}, .to = {NodeId(2), {}}, .term = term, .body = std::move(body)},
                      Options());
}

Append appendOf(Position previous, std::vector<Entry> entries) {
  return {.previous = previous, .entries = std::move(entries), .commit = 0};
}
Entry entryOf(int64_t index, int64_t term, EntryType type = EntryType::records, Buffer data = {}) {
  return {index, term, type, std::move(data)};
}

}  // namespace

TEST_CASE("Appends make sense when their entries follow each other, with terms that do not fall") {
  CHECK(isSane(3, appendOf({4, 2}, {entryOf(5, 2), entryOf(6, 3)})));
  CHECK(isSane(3, appendOf({0, 0}, {entryOf(1, 1)})));
  CHECK(!isSane(0, appendOf({0, 0}, {})));  // nobody leads in term 0
  CHECK(!isSane(-1, appendOf({0, 0}, {})));
  CHECK(!isSane(kHuge, appendOf({0, 0}, {})));
  CHECK(!isSane(3, appendOf({4, 2}, {entryOf(6, 3)})));  // a gap
  CHECK(!isSane(3, appendOf({4, 2}, {entryOf(5, 1)})));  // a term that falls
  CHECK(!isSane(3, appendOf({4, 2}, {entryOf(5, 4)})));  // a term to come
  CHECK(!isSane(3, appendOf({4, 9}, {})));
  CHECK(!isSane(3, appendOf({0, 2}, {})));  // a term of nothing
  CHECK(!isSane(3, appendOf({4, 0}, {})));  // an entry without one
  CHECK(!isSane(3, appendOf({-4, 2}, {})));
  CHECK(!isSane(3, appendOf({kHuge, 2}, {entryOf(kHuge, 2)})));  // would overflow
  CHECK(!isSane(3, appendOf({0, 0}, {entryOf(1, 0)})));
  CHECK(!isSane(3, appendOf({4, 2}, {entryOf(5, 3, static_cast<EntryType>(3))})));
  CHECK(!isSane(3, appendOf({4, 2}, {entryOf(5, 3, EntryType::membership, {1, 2, 3})})));
  Append append = appendOf({4, 2}, {});
  append.commit = -1;
  CHECK(!isSane(3, append));
}

TEST_CASE("Appends are bounded, and a single large entry passes") {
  Options options;
  CHECK(isSane(1, appendOf({}, {entryOf(1, 1, EntryType::records, Buffer(options.entryBytesMax))})));
  CHECK(!isSane(1, appendOf({}, {entryOf(1, 1, EntryType::records, Buffer(options.entryBytesMax + 1))})));
  std::vector<Entry> many;
  for (int64_t index = 1; index <= 40'000; ++index) many.push_back(entryOf(index, 1));
  CHECK(!isSane(1, appendOf({}, many)));  // empty ones are not free
}

TEST_CASE("Other messages make sense in their ranges") {
  CHECK(isSane(1, VoteRequest{.last = {5, 1}}));
  CHECK(!isSane(1, VoteRequest{.last = {5, 2}}));
  CHECK(!isSane(1, VoteRequest{.last = {5, -1}}));
  CHECK(isSane(0, VoteReply{}));
  CHECK(isSane(1, AppendReply{.index = 3, .isAccepted = true, .hint = {}}));
  CHECK(!isSane(1, AppendReply{.index = -3, .isAccepted = true, .hint = {}}));
  CHECK(!isSane(1, AppendReply{.index = 3, .isAccepted = false, .hint = {0, 4}}));
  CHECK(isSane(1, Heartbeat{.commit = 3, .round = 4}));
  CHECK(!isSane(1, Heartbeat{.commit = kHuge, .round = 4}));
  CHECK(!isSane(1, HeartbeatReply{.round = -4}));
  CHECK(!isSane(1, Removed{-2}));
  CHECK(!isSane(0, TimeoutNow{}));
  CHECK(!raft::isSane({.from = {}, .to = {NodeId(2), {}}, .term = 1, .body = VoteReply{}}, Options()));  // from nobody
}

TEST_CASE("A chunk lies inside its snapshot, and that inside the bound") {
  InstallSnapshot install{.snapshot = {.id = {7, 2}, .bytes = 100, .members = {{{{NodeId(1), {}}, true}}}},
                          .offset = 90,
                          .chunk = Buffer(10)};
  CHECK(isSane(2, install));
  CHECK(!isSane(1, install));  // of a term to come
  auto with = [&](auto change) {
    InstallSnapshot other = install;
    change(other);
    return isSane(2, other);
  };
  CHECK(!with([](auto& one) { one.offset = 91; }));
  CHECK(!with([](auto& one) { one.offset = UINT64_MAX; }));
  CHECK(!with([](auto& one) { one.snapshot.bytes = UINT64_MAX; }));
  CHECK(!with([](auto& one) { one.snapshot.id = {}; }));
  CHECK(!with([](auto& one) { one.snapshot.members = {}; }));
  CHECK(!with([](auto& one) { one.snapshot.members.members.push_back(one.snapshot.members.members[0]); }));
}
