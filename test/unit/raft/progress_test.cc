#include "raft/progress.h"

#include <doctest/doctest.h>

using namespace mq;
using namespace mq::raft;

namespace {

Instant at(int ms) { return Instant(std::chrono::milliseconds(ms)); }
Progress newOne(int64_t next) { return Progress({NodeId(2), {}}, next, at(0)); }
Options smallWindow() {
  Options options;
  options.windowMessagesMax = 3;
  options.windowBytesMax = 100;
  return options;
}

}  // namespace

TEST_CASE("A probe waits for its answer; after that messages follow each other up to the window") {
  Progress progress = newOne(11);
  CHECK(progress.maySend(smallWindow()));
  progress.sentAppend(13, 20, at(1));  // entries 11 and 12
  CHECK(!progress.maySend(smallWindow()));
  CHECK(progress.next == 11);
  progress.accepted(10);  // what was before is there; the two are on their way to its disk
  CHECK(progress.state() == Progress::State::replicate);
  CHECK(progress.next == 13);
  CHECK(progress.windowBytes() == 20);
  progress.sentAppend(14, 20, at(2));
  progress.sentAppend(15, 20, at(2));
  CHECK(progress.windowMessages() == 3);
  CHECK(!progress.maySend(smallWindow()));
  progress.accepted(12);
  CHECK(progress.windowMessages() == 2);
  progress.sentAppend(16, 90, at(2));
  CHECK(!progress.maySend(smallWindow()));  // by bytes
  progress.accepted(15);
  CHECK(progress.windowBytes() == 0);
  CHECK(progress.match == 15);
}

TEST_CASE("Late and repeated answers change nothing") {
  Progress progress = newOne(11);
  progress.refused(8, 3);  // not what was asked
  CHECK(progress.next == 11);
  progress.refused(10, 5);
  CHECK(progress.next == 6);
  progress.refused(10, 2);  // again
  CHECK(progress.next == 6);
  progress.refused(5, 5);  // a hint that leads nowhere: one back at least
  CHECK(progress.next == 5);
  progress.accepted(4);
  progress.accepted(2);
  CHECK(progress.match == 4);
  progress.refused(3, 0);  // it has that: an old answer
  CHECK(progress.state() == Progress::State::replicate);
  progress.sentAppend(9, 10, at(1));
  progress.refused(6, 0);  // something was lost; but not below what it has
  CHECK(progress.state() == Progress::State::probe);
  CHECK(progress.next == 5);
}

TEST_CASE("What is not answered is sent again") {
  Progress progress = newOne(1);
  progress.sentAppend(2, 10, at(0));
  progress.giveUp(at(299), 300ms);
  CHECK(!progress.maySend(smallWindow()));
  progress.giveUp(at(300), 300ms);
  CHECK(progress.maySend(smallWindow()));
  progress.accepted(0);
  progress.sentAppend(5, 10, at(400));
  progress.giveUp(at(700), 300ms);
  CHECK(progress.state() == Progress::State::probe);
  CHECK(progress.next == 1);
  CHECK(progress.windowBytes() == 0);
}

TEST_CASE("A snapshot goes chunk by chunk, from where the receiver says, until it acknowledges more") {
  Progress progress = newOne(1);
  progress.beginSnapshot({.id = {50, 3}, .bytes = 100, .members = {}});
  CHECK(progress.maySend(smallWindow()));
  progress.sentChunk(at(1));
  CHECK(!progress.maySend(smallWindow()));
  progress.chunkTaken(101);  // nonsense
  CHECK(!progress.maySend(smallWindow()));
  progress.chunkTaken(40);
  CHECK(progress.transfer->next == 40);
  progress.chunkTaken(0);  // it has restarted
  CHECK(progress.transfer->next == 0);
  progress.accepted(7);  // said before
  CHECK(progress.state() == Progress::State::snapshot);
  progress.refused(60, 2);
  CHECK(progress.state() == Progress::State::snapshot);
  progress.accepted(50);
  CHECK(progress.state() == Progress::State::probe);
  CHECK(progress.next == 51);
  CHECK(!progress.transfer);
}
