#include "coordinator/records.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "coordinator/groups.h"
#include "golden_records.h"

namespace mq::coordinator {
namespace {

std::vector<Written> kafkasRecords() { return recordsOf("__consumer"); }

TEST_CASE("records: what Kafka wrote is read and written again byte for byte") {
  size_t offsets = 0, groups = 0, deleted = 0;
  for (const Written& written : kafkasRecords()) {
    auto key = readGroupKey(written.key);
    REQUIRE(key);
    const Json& says = written.decoded["key"]["data"];
    if (auto* offset = std::get_if<OffsetKey>(&*key)) {
      CHECK(offset->group == says["group"].get<std::string>());
      CHECK(offset->topic == says["topic"].get<std::string>());
      CHECK(offset->partition == says["partition"].get<int32_t>());
      if (!written.value) {
        CHECK(offsetTombstone(*offset).key == written.key);
        ++deleted;
        continue;
      }
      auto value = readOffset(*written.value);
      REQUIRE(value);
      CHECK(value->offset == written.decoded["value"]["data"]["offset"].get<int64_t>());
      LogRecord again = offsetRecord(*offset, *value);
      CHECK(again.key == written.key);
      CHECK(again.value == written.value);
      ++offsets;
    } else if (auto* group = std::get_if<GroupKey>(&*key)) {
      CHECK(group->group == says["group"].get<std::string>());
      if (!written.value) {
        CHECK(groupTombstone(group->group).key == written.key);
        ++deleted;
        continue;
      }
      auto value = readGroup(*written.value);
      REQUIRE(value);
      CHECK(value->generation == written.decoded["value"]["data"]["generation"].get<int32_t>());
      LogRecord again = groupRecord(group->group, *value);
      CHECK(again.key == written.key);
      CHECK(again.value == written.value);
      ++groups;
    }
  }
  CHECK(offsets > 10);
  CHECK(groups > 5);
  CHECK(deleted > 3);
}

TEST_CASE("Groups: what Kafka left is what is served") {
  GroupSettings settings;
  Groups::Counters counters;
  Groups machine(settings, counters);
  std::map<std::string, std::map<std::string, int64_t>> expected;  // group → topic-partition → offset
  for (const Written& written : kafkasRecords()) {
    std::optional<Bytes> value;
    if (written.value) value = Bytes(*written.value);
    machine.apply(written.key, value, 0);
    const Json& key = written.decoded["key"];
    if (key["type"] != "1") continue;
    std::string name = key["data"]["topic"].get<std::string>() + "-" + key["data"]["partition"].dump();
    auto& group = expected[key["data"]["group"].get<std::string>()];
    if (written.value)
      group[name] = written.decoded["value"]["data"]["offset"].get<int64_t>();
    else
      group.erase(name);
  }
  Prng random(1);
  metadata::ImageRef image = metadata::emptyImage();
  Now now{Instant(1s), WallMs(1), random, *image};
  machine.loaded(now);
  REQUIRE(expected.size() > 5);
  for (const auto& [group, offsets] : expected) {
    CAPTURE(group);
    Groups::FetchGroup asked;
    asked.groupId = group;
    asked.topics.reset();
    Effects effects;
    std::map<std::string, int64_t> found;
    machine.fetch(
        asked, false, now,
        [&](Result<Groups::FetchedGroup> result) {
          REQUIRE(result);
          for (const auto& topic : result->topics)
            for (const auto& partition : topic.partitions)
              found[topic.name + "-" + std::to_string(partition.partitionIndex)] = partition.committedOffset;
        },
        effects);
    for (auto& answer : effects.answers) answer();
    CHECK(found == offsets);
  }
  // A static member that was there when the broker stopped still is.
  Effects effects;
  machine.describe(
      "g-static", false,
      [](Result<wire::DescribeGroupsResponse::DescribedGroup> group) {
        REQUIRE(group);
        CHECK(group->groupState == "Stable");
        REQUIRE(group->members.size() == 1);
        CHECK(group->members[0].groupInstanceId == "inst-1");
      },
      effects);
  REQUIRE(effects.answers.size() == 1);
  effects.answers[0]();
}

TEST_CASE("records: damaged ones are refused or skipped, never followed") {
  for (const Written& written : kafkasRecords()) {
    for (size_t length = 0; length < written.key.size(); ++length) {
      auto key = readGroupKey(Bytes(written.key).first(length));
      CHECK((!key || std::holds_alternative<std::monostate>(*key)));
    }
    if (!written.value) continue;
    for (size_t length = 0; length < written.value->size(); ++length) {
      (void)readOffset(Bytes(*written.value).first(length));
      (void)readGroup(Bytes(*written.value).first(length));
    }
  }
  GroupSettings settings;
  Groups::Counters counters;
  Groups machine(settings, counters);
  Buffer unknown = {0, 99, 1, 2, 3};
  machine.apply(unknown, Bytes(unknown), 0);
  machine.apply(Buffer{0}, std::nullopt, 0);
  LogRecord future = offsetRecord({"g", "t", 0}, {});
  (*future.value)[1] = 99;
  machine.apply(future.key, Bytes(*future.value), 0);
  CHECK(counters.unknown == 3);
  CHECK(machine.groupCount() == 0);
}

}  // namespace
}  // namespace mq::coordinator
