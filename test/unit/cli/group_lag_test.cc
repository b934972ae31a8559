#include "cli/group_lag.h"

#include <doctest/doctest.h>

#include "record/builder.h"

using namespace mq;
using namespace mq::cli;
using namespace mq::record;

namespace {

// Two records at `offset`, with the times given.
Buffer batch(int64_t offset, int64_t first, int64_t second, std::optional<WallMs> appendTime = std::nullopt) {
  Workspace workspace;
  BatchBuilder builder({.baseOffset = Offset(offset), .appendTime = appendTime});
  builder.add({.timestamp = WallMs(first), .value = asBytes("a")});
  builder.add({.timestamp = WallMs(second), .value = asBytes("b")});
  return builder.build(workspace);
}

Buffer marker(int64_t offset) {
  return endTxnMarker(ControlType::commit, ProducerId(1), 0, 0, WallMs(7), Offset(offset));
}

Buffer joined(std::initializer_list<Buffer> parts) {
  Buffer all;
  for (const Buffer& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("lag in time: the first record that is not committed decides") {
  Buffer log = joined({batch(10, 100, 200), batch(12, 300, 250), batch(14, 400, 500, WallMs(1000))});
  CHECK(timeOfFirst(log, 10, 16).ms == 200);
  CHECK(timeOfFirst(log, 11, 16).ms == 200);
  CHECK(timeOfFirst(log, 12, 16).ms == 300);
  CHECK(timeOfFirst(log, 14, 16).ms == 1000);  // the broker's own time
  CHECK(!timeOfFirst(log, 16, 20).ms);
  CHECK(!timeOfFirst(log, 16, 20).nothingLeft);
  CHECK(!timeOfFirst(batch(0, -1, -1), 0, 2).ms);
}

TEST_CASE("lag in time: markers are no records, and alone they are no lag") {
  CHECK(timeOfFirst(joined({marker(10), batch(11, 100, 200)}), 10, 13).ms == 200);
  FirstTime only = timeOfFirst(joined({marker(10), marker(11)}), 10, 12);
  CHECK(only.nothingLeft);
  CHECK(!only.ms);
  CHECK(!timeOfFirst(marker(10), 10, 12).nothingLeft);  // more is behind it, unseen
}

TEST_CASE("lag in time: batches that are cut, damaged or of older formats are not known") {
  Buffer log = batch(10, 100, 200);
  CHECK(timeOfFirst(Bytes(log).first(61), 10, 12).ms == 200);  // the header is enough
  for (size_t size = 0; size < 61; ++size) CHECK(!timeOfFirst(Bytes(log).first(size), 10, 12).ms);
  CHECK(!timeOfFirst(Bytes(log).first(70), 12, 14).ms);
  log[16] = 1;
  CHECK(!timeOfFirst(log, 10, 12).ms);
  CHECK(!timeOfFirst(Buffer(200), 10, 12).ms);
}

TEST_CASE("lag: the total adds records, takes the largest time, and counts what is not known") {
  Lags lags;
  CHECK(totalOf(lags).records == 0);
  CHECK(!totalOf(lags).ms);
  lags[{"t", 0}] = {.records = 5, .ms = 100};
  lags[{"t", 1}] = {.records = 7, .ms = 300};
  lags[{"t", 2}] = {};
  TotalLag total = totalOf(lags);
  CHECK(total.records == 12);
  CHECK(total.ms == 300);
  CHECK(total.unknown == 1);
  CHECK(secondsText(0) == "0.000");
  CHECK(secondsText(61005) == "61.005");
  CHECK(secondsText(std::nullopt) == "-");
}
