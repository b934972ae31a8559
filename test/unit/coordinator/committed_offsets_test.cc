#include "coordinator/committed_offsets.h"

#include <doctest/doctest.h>

#include <map>

#include "base/random.h"

namespace mq::coordinator {
namespace {

TopicId idOf(uint8_t last) {
  TopicId id;
  id.bytes[15] = last;
  return id;
}

TEST_CASE("CommittedOffsets: against a map, with topics that are made anew") {
  Prng random(11);
  for (int round = 0; round < 200; ++round) {
    CommittedOffsets offsets;
    std::map<std::pair<std::string, int32_t>, int64_t> expected;
    std::map<std::string, uint8_t> ids;
    for (int step = 0; step < 200; ++step) {
      std::string topic = "t" + std::to_string(random.below(3));
      auto partition = static_cast<int32_t>(random.below(20));
      uint64_t kind = random.below(10);
      if (kind == 0) {
        ++ids[topic];  // the next commit is for another topic of that name
        continue;
      }
      if (kind < 3) {
        offsets.remove(topic, partition);
        expected.erase({topic, partition});
        continue;
      }
      auto value = static_cast<int64_t>(random.next() >> 1);
      bool isNewTopic = ids.try_emplace(topic, uint8_t{1}).second;
      auto known = offsets.topics().find(topic);
      if (!isNewTopic && known != offsets.topics().end() && known->second.id != idOf(ids[topic]))
        std::erase_if(expected, [&](const auto& entry) { return entry.first.first == topic; });
      offsets.set(topic, idOf(ids[topic]), partition, {.offset = Offset(value), .metadata = std::to_string(value)});
      expected[{topic, partition}] = value;
    }
    size_t found = 0;
    for (const auto& [name, topic] : offsets.topics()) {
      REQUIRE(!topic.entries.empty());
      for (const auto& entry : topic.entries) {
        REQUIRE(expected.at({name, entry.partition}) == entry.offset.value());
        REQUIRE(entry.metadataText() == std::to_string(entry.offset.value()));
        REQUIRE(offsets.find(name, entry.partition) == &entry);
        ++found;
      }
    }
    REQUIRE(found == expected.size());
  }
}

TEST_CASE("CommittedOffsets: a commit without an id belongs to the topic that is known") {
  CommittedOffsets offsets;
  offsets.set("t", {}, 0, {.offset = Offset(1)});
  CHECK(offsets.topics().at("t").id.isZero());
  offsets.set("t", idOf(1), 1, {.offset = Offset(2)});
  CHECK(offsets.find("t", 0)->offset == Offset(1));
  offsets.set("t", {}, 2, {.offset = Offset(3)});
  CHECK(offsets.topics().at("t").id == idOf(1));
  CHECK(offsets.topics().at("t").entries.size() == 3);
  offsets.set("t", idOf(2), 2, {.offset = Offset(4)});
  CHECK(offsets.topics().at("t").entries.size() == 1);
}

TEST_CASE("CommittedOffsets: an offset is small") { CHECK(sizeof(CommittedOffsets::Entry) <= 40); }

}  // namespace
}  // namespace mq::coordinator
