#include "raft/log_view.h"

#include <doctest/doctest.h>

#include "base/random.h"

using namespace mq;
using namespace mq::raft;

namespace {

Entry entryOf(int64_t index, int64_t term, size_t bytes = 0) {
  return {index, term, EntryType::records, Buffer(bytes)};
}

void write(LogView& log) {
  while (log.hasUnhanded()) {
    log.hand(1);
    log.written();
  }
}

}  // namespace

TEST_CASE("Terms are known for the whole log, also where the entries are not in memory") {
  LogView log({10, 2}, 0);
  for (auto [index, term] : {std::pair{11, 2}, {12, 3}, {13, 3}, {14, 7}}) log.append(entryOf(index, term));
  write(log);
  CHECK(!log.isInMemory(14));
  CHECK(!log.termAt(9));
  CHECK(log.termAt(10) == 2);
  CHECK(log.termAt(11) == 2);
  CHECK(log.termAt(13) == 3);
  CHECK(log.termAt(14) == 7);
  CHECK(!log.termAt(15));
  CHECK(log.lastWithin(14, 6) == Position{13, 3});
  CHECK(log.lastWithin(12, 9) == Position{12, 3});
  CHECK(log.lastWithin(99, 2) == Position{11, 2});
  CHECK(log.lastWithin(99, 1) == Position{10, 2});  // nothing: where the log starts
  log.truncate(13);
  CHECK(log.last() == Position{12, 3});
  CHECK(log.durableIndex() == 12);
  log.compact({12, 3});
  CHECK(log.start() == Position{12, 3});
  CHECK(log.termAt(12) == 3);
  CHECK(!log.termAt(11));
}

TEST_CASE("What is not durable stays in memory; of the rest only the newest, up to the bound") {
  LogView log({}, 10 * (kEntryOverheadBytes + 100));
  for (int64_t index = 1; index <= 100; ++index) log.append(entryOf(index, 1, 100));
  CHECK(log.isInMemory(1));
  CHECK(log.unsyncedBytes() == 100 * (kEntryOverheadBytes + 100));
  write(log);
  CHECK(log.unsyncedBytes() == 0);
  CHECK(log.tailBytes() == 10 * (kEntryOverheadBytes + 100));
  CHECK(!log.isInMemory(90));
  CHECK(log.isInMemory(91));
  CHECK(log.slice(91, 101, 1).size() == 1);  // at least one
  CHECK(log.slice(91, 101, 3 * (kEntryOverheadBytes + 100)).size() == 3);
}

TEST_CASE("A suffix that is replaced while its write is under way is not durable by it") {
  LogView log({}, 1'000);
  for (int64_t index = 1; index <= 5; ++index) log.append(entryOf(index, 1));
  CHECK(log.hand(10'000).size() == 5);
  log.truncate(3);
  log.append(entryOf(3, 2));
  log.written();
  CHECK(log.durableIndex() == 2);
  CHECK(log.unsyncedBytes() == kEntryOverheadBytes);
  auto next = log.hand(10'000);
  REQUIRE(next.size() == 1);
  CHECK(next[0].term == 2);
  log.notWritten();  // no space
  CHECK(log.durableIndex() == 2);
  CHECK(log.hand(10'000).size() == 1);
  log.written();
  CHECK(log.durableIndex() == 3);
}

TEST_CASE("Behind a snapshot that came in nothing is durable before it is") {
  LogView log({}, 1'000);
  log.append(entryOf(1, 1));
  log.hand(1'000);
  log.reset({50, 4});
  log.append(entryOf(51, 4));
  log.written();  // of entry 1
  CHECK(log.durableIndex() == -1);
  log.handReset();
  CHECK(log.hand(1'000).size() == 1);
  log.written();
  CHECK(log.durableIndex() == 51);
  CHECK(log.unsyncedBytes() == 0);
}

TEST_CASE("Bytes are counted right whatever happens") {
  Prng chance(7);
  LogView log({}, 500);
  int64_t term = 1;
  for (int step = 0; step < 50'000; ++step) {
    uint64_t what = chance.below(8);
    if (what < 4) {
      term += static_cast<int64_t>(chance.below(2));
      log.append(entryOf(log.lastIndex() + 1, term, chance.below(100)));
    } else if (what == 4 && log.lastIndex() > log.start().index) {
      log.truncate(log.start().index + 1 +
                   static_cast<int64_t>(chance.below(static_cast<uint64_t>(log.lastIndex() - log.start().index))));
    } else if (what == 5) {
      log.hand(chance.below(300) + 1);
      chance.chance(1, 5) ? log.notWritten() : log.written();
    } else if (what == 6 && log.durableIndex() > log.start().index) {
      log.compact({log.durableIndex(), log.termAt(log.durableIndex()).value()});
    }
    size_t tail = 0, unsynced = 0;
    for (int64_t index = log.lastIndex(); index > log.start().index && log.isInMemory(index); --index) {
      size_t cost = costOf(log.slice(index, index + 1, 1).front());
      tail += cost;
      if (index > log.durableIndex()) unsynced += cost;
    }
    REQUIRE(log.tailBytes() == tail);
    REQUIRE(log.unsyncedBytes() == unsynced);
    REQUIRE(tail <= 500 + unsynced);
  }
}
