#include "storage/leader_epochs.h"

#include <doctest/doctest.h>

using namespace mq;
using namespace mq::storage;

namespace {

LeaderEpochs epochs(std::initializer_list<std::pair<int, int>> entries) {
  LeaderEpochs epochs;
  for (auto [epoch, start] : entries) epochs.assign(LeaderEpoch(epoch), Offset(start));
  return epochs;
}

std::string show(const LeaderEpochs& epochs) {
  std::string text;
  for (auto& entry : epochs.entries()) text += fmt::format("{}@{} ", entry.epoch, entry.start);
  return text;
}

std::string endOf(const LeaderEpochs& epochs, int epoch, int logEnd = 100) {
  auto end = epochs.endOffsetFor(LeaderEpoch(epoch), Offset(logEnd));
  return end ? fmt::format("{} ends at {}", end->epoch, end->end) : "unknown";
}

}  // namespace

TEST_CASE("an epoch is noted once, at its first offset, and older ones change nothing") {
  LeaderEpochs known = epochs({{2, 0}, {5, 10}});
  CHECK(!known.assign(LeaderEpoch(5), Offset(20)));
  CHECK(!known.assign(LeaderEpoch(4), Offset(20)));
  CHECK(show(known) == "2@0 5@10 ");
  CHECK(known.assign(LeaderEpoch(6), Offset(10)));  // epoch 5 never wrote a record
  CHECK(show(known) == "2@0 6@10 ");
  CHECK(known.latest() == LeaderEpoch(6));
  CHECK(!LeaderEpochs().latest());
}

TEST_CASE("the end of an epoch is answered as KIP-101 and KIP-279 say") {
  LeaderEpochs known = epochs({{2, 5}, {4, 10}, {7, 30}});
  CHECK(endOf(known, 7) == "7 ends at 100");
  CHECK(endOf(known, 4) == "4 ends at 30");
  CHECK(endOf(known, 5) == "4 ends at 30");  // nothing of 5 and 6 here: the lower one
  CHECK(endOf(known, 2) == "2 ends at 10");
  CHECK(endOf(known, 1) == "1 ends at 5");
  CHECK(endOf(known, 8) == "unknown");
  CHECK(endOf(LeaderEpochs(), 0) == "unknown");
  CHECK(known.epochOf(Offset(4)) == std::nullopt);
  CHECK(known.epochOf(Offset(5)) == LeaderEpoch(2));
  CHECK(known.epochOf(Offset(29)) == LeaderEpoch(4));
  CHECK(known.epochOf(Offset(30)) == LeaderEpoch(7));
}

TEST_CASE("epochs follow the log when it is cut at either side") {
  LeaderEpochs known = epochs({{2, 0}, {4, 10}, {7, 30}});
  CHECK(!known.truncateFromEnd(Offset(31)));
  CHECK(known.truncateFromEnd(Offset(30)));
  CHECK(show(known) == "2@0 4@10 ");

  known = epochs({{2, 0}, {4, 10}, {7, 30}});
  CHECK(!known.truncateFromStart(Offset(0)));
  CHECK(known.truncateFromStart(Offset(5)));
  CHECK(show(known) == "2@5 4@10 7@30 ");
  CHECK(known.truncateFromStart(Offset(30)));
  CHECK(show(known) == "7@30 ");
  CHECK(known.truncateFromStart(Offset(99)));
  CHECK(show(known) == "7@99 ");
}

TEST_CASE("the epoch file is Kafka's text, and a damaged one is refused") {
  LeaderEpochs known = epochs({{0, 0}, {3, 17}});
  CHECK(known.encode() == "0\n2\n0 0\n3 17\n");
  CHECK(LeaderEpochs::decode(known.encode()).value().entries() == known.entries());
  CHECK(LeaderEpochs::decode("").value().entries().empty());
  for (auto bad : {"garbage", "0\n1\n", "0\n1\n1\n", "0\n1\n-1 0\n", "0\n2\n3 0\n3 5\n", "0\n2\n3 5\n4 5\n",
                   "0\n1\n2147483648 0\n"})
    CHECK(LeaderEpochs::decode(bad).errorCode() == Error::corruptMessage);
}
