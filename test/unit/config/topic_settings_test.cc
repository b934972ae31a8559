#include "config/topic_settings.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "base/random.h"
#include "config/broker_settings.h"
#include "config/group_settings.h"

using namespace mq;
using namespace mq::config;

namespace {

const Entry& entry(const std::vector<Entry>& entries, std::string_view name) {
  auto found = std::find_if(entries.begin(), entries.end(), [&](const Entry& e) { return e.name == name; });
  REQUIRE_MESSAGE(found != entries.end(), name);
  return *found;
}
std::string synonymsOf(const Entry& e) {
  std::string text;
  for (const Synonym& s : e.synonyms) text += fmt::format("{}:{}={} ", static_cast<int>(s.source), s.name, s.value);
  return text;
}
Alteration set(std::string name, std::string value) { return {std::move(name), AlterOp::set, std::move(value)}; }
BrokerConfig started(std::vector<Given> flags) {
  auto loaded = BrokerConfig::load({.flags = std::move(flags)});
  REQUIRE(loaded.has_value());
  return *loaded;
}

}  // namespace

TEST_CASE("topic settings: the defaults are Kafka's, but for durability and compression") {
  std::vector<Entry> entries = describeTopic({}, {});
  // Name, value, type and broker synonym as kafka-configs --describe --all shows them for a new topic of Kafka 4.4.
  struct Row {
    const char* name;
    const char* value;
    int type;
    const char* synonym;
  };
  const Row expected[] = {
      {"cleanup.policy", "delete", 7, "log.cleanup.policy"},
      {"compression.gzip.level", "-1", 3, "compression.gzip.level"},
      {"compression.lz4.level", "9", 3, "compression.lz4.level"},
      {"compression.type", "auto", 2, "compression.type"},
      {"compression.zstd.level", "3", 3, "compression.zstd.level"},
      {"delete.retention.ms", "86400000", 5, "log.cleaner.delete.retention.ms"},
      {"durability", "fsync", 2, "durability"},
      {"file.delete.delay.ms", "60000", 5, "log.segment.delete.delay.ms"},
      {"flush.messages", "9223372036854775807", 5, "log.flush.interval.messages"},
      {"flush.ms", "9223372036854775807", 5, "log.flush.interval.ms"},
      {"follower.replication.throttled.replicas", "", 7, ""},
      {"index.interval.bytes", "4096", 3, "log.index.interval.bytes"},
      {"leader.replication.throttled.replicas", "", 7, ""},
      {"local.retention.bytes", "-2", 5, "log.local.retention.bytes"},
      {"local.retention.ms", "-2", 5, "log.local.retention.ms"},
      {"max.compaction.lag.ms", "9223372036854775807", 5, "log.cleaner.max.compaction.lag.ms"},
      {"max.message.bytes", "1048588", 3, "message.max.bytes"},
      {"message.timestamp.after.max.ms", "3600000", 5, "log.message.timestamp.after.max.ms"},
      {"message.timestamp.before.max.ms", "9223372036854775807", 5, "log.message.timestamp.before.max.ms"},
      {"message.timestamp.type", "CreateTime", 2, "log.message.timestamp.type"},
      {"min.cleanable.dirty.ratio", "0.5", 6, "log.cleaner.min.cleanable.ratio"},
      {"min.compaction.lag.ms", "0", 5, "log.cleaner.min.compaction.lag.ms"},
      {"min.insync.replicas", "0", 3, "min.insync.replicas"},
      {"preallocate", "false", 1, "log.preallocate"},
      {"remote.copy.lag.bytes", "0", 5, ""},
      {"remote.copy.lag.ms", "0", 5, ""},
      {"remote.log.copy.disable", "false", 1, ""},
      {"remote.log.delete.on.disable", "false", 1, ""},
      {"remote.storage.enable", "false", 1, ""},
      {"retention.bytes", "-1", 5, "log.retention.bytes"},
      {"retention.ms", "604800000", 5, "log.retention.ms"},
      {"segment.bytes", "1073741824", 3, "log.segment.bytes"},
      {"segment.index.bytes", "10485760", 3, "log.index.size.max.bytes"},
      {"segment.jitter.ms", "0", 5, "log.roll.jitter.ms"},
      {"segment.ms", "604800000", 5, "log.roll.ms"},
      {"unclean.leader.election.enable", "false", 1, "unclean.leader.election.enable"},
  };
  REQUIRE(entries.size() == std::size(expected));
  for (size_t i = 0; i < entries.size(); ++i) {
    CAPTURE(expected[i].name);
    CHECK(entries[i].name == expected[i].name);
    CHECK(entries[i].value == expected[i].value);
    CHECK(static_cast<int>(entries[i].type) == expected[i].type);
    CHECK(entries[i].source == Source::defaultValue);
    CHECK_FALSE(entries[i].readOnly);
    CHECK(entries[i].doc.size() > 10);
    std::string synonyms =
        *expected[i].synonym == 0 ? "" : fmt::format("5:{}={} ", expected[i].synonym, expected[i].value);
    CHECK(synonymsOf(entries[i]) == synonyms);
  }
}

TEST_CASE("topic settings: overrides beat the broker's values, and every value names its source") {
  BrokerConfig broker = started({{"log.retention.hours", "24", "mq.toml:3"}, {"log.segment.bytes", "2097152", "--set"}})
                            .withDynamic({{"log.segment.bytes", "3145728"}}, {});
  std::vector<Entry> entries = describeTopic(broker, {{"segment.bytes", "4194304"}});
  const Entry& segment = entry(entries, "segment.bytes");
  CHECK(segment.value == "4194304");
  CHECK(segment.source == Source::dynamicTopic);
  CHECK(synonymsOf(segment) ==
        "1:segment.bytes=4194304 3:log.segment.bytes=3145728 4:log.segment.bytes=2097152 "
        "5:log.segment.bytes=1073741824 ");
  const Entry& retention = entry(entries, "retention.ms");
  CHECK(retention.value == "86400000");
  CHECK(retention.source == Source::staticBroker);
  CHECK(retention.where == "mq.toml:3");
  CHECK(synonymsOf(retention) == "4:log.retention.hours=24 5:log.retention.ms=604800000 ");

  TopicSettings settings = resolveTopic(broker.settings().topicDefaults, {{"segment.bytes", "4194304"}});
  CHECK(settings.segmentBytes == 4194304);
  CHECK(settings.retentionMs == 86400000);
}

TEST_CASE("topic settings: a list keeps the order in which it was given and loses its blanks") {
  CHECK(entry(describeTopic({}, {{"cleanup.policy", "compact, delete"}}), "cleanup.policy").value == "compact,delete");
  TopicSettings settings = resolveTopic({}, {{"cleanup.policy", "compact, delete"}});
  CHECK(settings.cleanup == CleanupPolicy{.deletes = true, .compacts = true});
  CHECK(resolveTopic({}, {{"cleanup.policy", ""}}).cleanup == CleanupPolicy{.deletes = false, .compacts = false});
}

TEST_CASE("topic settings: unknown names are refused with the nearest known one") {
  Result<void> checked = checkTopic({}, {{"retention.md", "5"}});
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.errorCode() == Error::invalidConfig);
  CHECK(checked.failure().message == "Unknown topic config name: retention.md; did you mean retention.ms?");
  CHECK(checkTopic({}, {{"no.such.config", "1"}}).failure().message == "Unknown topic config name: no.such.config");
}

TEST_CASE("topic settings: values that contradict each other are refused") {
  Result<void> lag = checkTopic({}, {{"min.compaction.lag.ms", "10"}, {"max.compaction.lag.ms", "5"}});
  CHECK(lag.errorCode() == Error::invalidConfig);
  CHECK(lag.failure().message == "min.compaction.lag.ms (10) is above max.compaction.lag.ms (5)");
  TopicSettings defaults;
  defaults.maxCompactionLagMs = 5;
  CHECK_FALSE(checkTopic(defaults, {{"min.compaction.lag.ms", "10"}}).has_value());
  CHECK_FALSE(checkTopic({}, {{"remote.storage.enable", "true"}}).has_value());
  CHECK(checkTopic({}, {{"remote.storage.enable", "false"}}).has_value());
}

TEST_CASE("topic settings: set and remove change overrides; what is refused changes nothing") {
  Overrides now = {{"retention.ms", "5000"}};
  std::vector<Alteration> both = {set("flush.messages", "1"), {"retention.ms", AlterOp::remove, std::nullopt}};
  Result<Overrides> altered = alterTopic({}, now, both);
  REQUIRE(altered.has_value());
  CHECK(*altered == Overrides{{"flush.messages", "1"}});

  CHECK(alterTopic({}, now, std::vector{set("retention.ms", "abc")}).errorCode() == Error::invalidConfig);
  CHECK(alterTopic({}, now, std::vector{set("no.such", "1")}).errorCode() == Error::invalidConfig);
  CHECK(alterTopic({}, now, std::vector{set("retention.ms", "1"), set("retention.ms", "2")}).errorCode() ==
        Error::invalidRequest);
  CHECK(alterTopic({}, now, std::vector{Alteration{"retention.ms", AlterOp::set, std::nullopt}}).errorCode() ==
        Error::invalidRequest);
  CHECK(alterTopic({}, now, std::vector{Alteration{"retention.ms", static_cast<AlterOp>(9), "1"}}).errorCode() ==
        Error::invalidRequest);
  CHECK(alterTopic({}, now, std::vector{Alteration{"no.such", AlterOp::remove, std::nullopt}}).errorCode() ==
        Error::invalidConfig);
  CHECK(alterTopic({}, {{"from.a.newer.version", "1"}},
                   std::vector{Alteration{"from.a.newer.version", AlterOp::remove, std::nullopt}})
            .has_value());
  // A default that is not overridden can be removed: nothing happens.
  CHECK(*alterTopic({}, now, std::vector{Alteration{"segment.ms", AlterOp::remove, std::nullopt}}) == now);
}

TEST_CASE("topic settings: lists can be appended to and subtracted from, starting at the default") {
  auto alter = [](const Overrides& now, AlterOp op, std::string value) {
    return alterTopic({}, now, std::vector{Alteration{"cleanup.policy", op, std::move(value)}});
  };
  Overrides both = {{"cleanup.policy", "delete,compact"}};
  CHECK(*alter({}, AlterOp::append, "compact") == both);
  CHECK(*alter(both, AlterOp::append, "compact") == both);
  CHECK(*alter(both, AlterOp::subtract, "delete") == Overrides{{"cleanup.policy", "compact"}});
  CHECK(*alter(both, AlterOp::subtract, "delete,compact") == Overrides{{"cleanup.policy", ""}});
  CHECK(alter(both, AlterOp::append, "bogus").errorCode() == Error::invalidConfig);
  Result<Overrides> number = alterTopic({}, {}, std::vector{Alteration{"retention.ms", AlterOp::append, "1"}});
  CHECK(number.errorCode() == Error::invalidConfig);
  CHECK(number.failure().message == "Can't append to configuration retention.ms: it is not a list");
}

TEST_CASE("topic settings: what this version does not understand leaves the default, and is named") {
  std::vector<std::string> ignored;
  TopicSettings settings =
      resolveTopic({}, {{"from.the.future", "x"}, {"retention.ms", "soon"}, {"segment.ms", "9"}}, &ignored);
  CHECK(settings.retentionMs == 604800000);
  CHECK(settings.segmentMs == 9);
  CHECK(ignored == std::vector<std::string>{"from.the.future", "retention.ms"});
}

TEST_CASE("topic settings: tests may have small segments by the internal name, which nobody lists") {
  Overrides small = {{"internal.segment.bytes", "4096"}, {"segment.bytes", "2097152"}};
  CHECK(checkTopic({}, small).has_value());
  CHECK(resolveTopic({}, small).segmentBytes == 4096);
  CHECK(checkTopic({}, {{"segment.bytes", "4096"}}).errorCode() == Error::invalidConfig);
}

TEST_CASE("topic settings: every row reads what it prints") {
  for (Table table : {topicTable(), groupTable(), brokerTable()}) {
    for (const Section& section : table) {
      for (const Setting& row : section.rows) {
        CAPTURE(row.name);
        bool ofTopic = table.data() == topicTable().data() || &section == &brokerTable().back();
        TopicSettings topic, topicAgain;
        ConsumerGroupSettings group, groupAgain;
        BrokerSettings broker, brokerAgain;
        bool ofGroup = table.data() == groupTable().data();
        void* object = ofTopic ? static_cast<void*>(&topic) : ofGroup ? static_cast<void*>(&group) : &broker;
        void* again = ofTopic   ? static_cast<void*>(&topicAgain)
                      : ofGroup ? static_cast<void*>(&groupAgain)
                                : &brokerAgain;
        std::string printed = row.field->print(object);
        CHECK_FALSE(row.field->parse(row, printed, again).has_value());
        CHECK(row.field->print(again) == printed);
      }
    }
  }
}

TEST_CASE("topic settings: what the simulation draws is allowed, differs by seed and repeats by seed") {
  std::vector<Overrides> drawn;
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Prng random(seed), same(seed);
    Overrides topic = simulated(topicTable(), random);
    CHECK(topic == simulated(topicTable(), same));
    CHECK(checkTopic({}, topic).has_value());
    BrokerSettings broker;
    for (const auto& [name, value] : simulated(brokerTable(), random)) {
      CHECK(assign(*find(brokerTable(), name), value, &broker).has_value());
    }
    drawn.push_back(topic);
  }
  std::sort(drawn.begin(), drawn.end());
  CHECK(std::unique(drawn.begin(), drawn.end()) - drawn.begin() > 40);
}
