#include "coordinator/pending_offsets.h"

#include <doctest/doctest.h>

namespace mq::coordinator {
namespace {

PendingOffsets::Offset at(int64_t offset) { return {.topicId = {}, .offset = {.offset = Offset(offset)}}; }

TEST_CASE("PendingOffsets: by producer, place and group") {
  PendingOffsets pending;
  const ProducerId a(1), b(2);
  pending.add(a, {"g", "t", 0}, at(1));
  pending.add(a, {"g", "t", 0}, at(2));
  pending.add(a, {"h", "t", 0}, at(3));
  pending.add(b, {"g", "t", 0}, at(4));
  pending.add(b, {"g", "u", -1}, at(5));
  CHECK(pending.size() == 4);
  CHECK(pending.has("g"));
  CHECK_FALSE(pending.has("f"));
  CHECK_FALSE(pending.has("gg"));
  CHECK(pending.placesOf("g").size() == 2);
  CHECK(pending.placesOf("h").size() == 1);

  auto taken = pending.take(a);
  REQUIRE(taken.size() == 2);
  CHECK(taken.at({"g", "t", 0}).offset.offset == Offset(2));
  CHECK_FALSE(pending.has("h"));
  CHECK(pending.has(PendingOffsets::Place{"g", "t", 0}));
  pending.remove({"g", "t", 0});
  CHECK_FALSE(pending.has(PendingOffsets::Place{"g", "t", 0}));
  CHECK(pending.take(b).size() == 1);
  CHECK(pending.take(b).empty());
  CHECK(pending.size() == 0);
  CHECK_FALSE(pending.has("g"));
}

TEST_CASE("PendingOffsets: overtaken is what came before, not what comes after") {
  PendingOffsets pending;
  PendingOffsets::Place place{"g", "t", 0};
  pending.add(ProducerId(1), place, at(1));
  pending.add(ProducerId(2), place, at(2));
  pending.add(ProducerId(3), place, at(3));
  auto second = pending.take(ProducerId(2));
  pending.overtake(place, second.at(place).order);
  CHECK(pending.take(ProducerId(1)).at(place).isOvertaken);
  CHECK_FALSE(pending.take(ProducerId(3)).at(place).isOvertaken);
  pending.add(ProducerId(1), place, at(4));
  pending.overtake(place);
  pending.add(ProducerId(1), place, at(5));
  CHECK_FALSE(pending.take(ProducerId(1)).at(place).isOvertaken);
}

}  // namespace
}  // namespace mq::coordinator
