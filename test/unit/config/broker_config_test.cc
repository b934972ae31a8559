#include <algorithm>

#include <doctest/doctest.h>

#include "config/broker_settings.h"

using namespace mq;
using namespace mq::config;

namespace {

using Loaded = std::expected<BrokerConfig, std::vector<Problem>>;

Loaded fromToml(std::string toml) { return BrokerConfig::load({.tomlPath = "mq.toml", .toml = std::move(toml)}); }
Loaded fromFlags(std::vector<Given> flags) { return BrokerConfig::load({.flags = std::move(flags)}); }

std::string problems(const Loaded& loaded) {
  std::string text;
  if (!loaded) {
    for (const Problem& problem : loaded.error()) text += problem.toString() + "\n";
  }
  return text;
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

Entry entry(const BrokerConfig& config, std::string_view name) {
  for (Entry& e : config.describe()) {
    if (e.name == name) return e;
  }
  FAIL("no entry ", name);
  return {};
}

}  // namespace

TEST_CASE("broker config: nothing given is all defaults") {
  Loaded loaded = BrokerConfig::load({});
  REQUIRE(loaded.has_value());
  CHECK(loaded->settings() == BrokerSettings{});
  CHECK(loaded->settings().listeners.front().toString() == "127.0.0.1:9092");
}

TEST_CASE("broker config: dotted keys, tables and quoted keys are the same") {
  Loaded dotted = fromToml("log.segment.bytes = 2097152\nnum.partitions = 3\nbroker.rack = 'a'\n");
  Loaded tables = fromToml("[log.segment]\nbytes = 2097152\n[num]\npartitions = 3\n[broker]\nrack = 'a'\n");
  Loaded quoted = fromToml("\"log.segment.bytes\" = 2097152\n'num.partitions' = 3\n\"broker.rack\" = \"a\"\n[empty]\n");
  REQUIRE_MESSAGE(dotted.has_value(), problems(dotted));
  REQUIRE_MESSAGE(tables.has_value(), problems(tables));
  REQUIRE_MESSAGE(quoted.has_value(), problems(quoted));
  CHECK(dotted->settings().topicDefaults.segmentBytes == 2097152);
  CHECK(dotted->settings().partitionsDefault == 3);
  CHECK(tables->settings() == dotted->settings());
  CHECK(quoted->settings() == dotted->settings());
}

TEST_CASE("broker config: a name that another continues can be given in quotes") {
  Loaded loaded = fromToml("\"max.connections\" = 10\nmax.connections.per.ip = 5\n");
  REQUIRE_MESSAGE(loaded.has_value(), problems(loaded));
  CHECK(loaded->settings().connectionsMax == 10);
  CHECK(loaded->settings().connectionsPerAddressMax == 5);
  CHECK(contains(problems(fromToml("max.connections = 10\nmax.connections.per.ip = 5\n")), "in quotes"));
}

TEST_CASE("broker config: lists are arrays or text") {
  Loaded loaded = fromToml("listeners = ['127.0.0.1:1', 'b=[::1]:2']\nlog.cleanup.policy = \"compact,delete\"\n");
  REQUIRE_MESSAGE(loaded.has_value(), problems(loaded));
  CHECK(loaded->settings().listeners.size() == 2);
  CHECK(loaded->settings().topicDefaults.cleanup.compacts);
  CHECK(entry(*loaded, "log.cleanup.policy").value == "compact,delete");
  CHECK(contains(problems(fromToml("listeners = ['127.0.0.1:1,127.0.0.1:2']\n")), "array"));
  CHECK(contains(problems(fromToml("listeners = [9092]\n")), "array"));
}

TEST_CASE("broker config: a misspelt key is named with its line and the nearest real one") {
  std::string text = problems(fromToml("num.partitions = 3\n\nlog.retention.byte = 5\n"));
  CHECK(text == "mq.toml:3: Unknown setting log.retention.byte; did you mean log.retention.bytes?\n");
  CHECK(contains(problems(fromToml("[log]\nretention.mss = 1\n")), "mq.toml:2: Unknown setting log.retention.mss"));
  CHECK(contains(problems(fromToml("retention.ms = 1\n")), "the default for all topics is log.retention.ms"));
  CHECK(contains(problems(fromToml("remote.storage.enable = true\n")), "can be set for a topic only"));
  CHECK(contains(problems(fromToml("zookeeper.connect = 'x'\n")), "`mq config list` names all"));
}

TEST_CASE("broker config: everything that is wrong is reported at once, in reading order") {
  std::string text = problems(BrokerConfig::load({.tomlPath = "mq.toml",
                                                  .toml = "num.partitions = 0\nnode.idd = 1\n",
                                                  .environment = {{"MQ_CFG_NODE_ID", "x"}},
                                                  .flags = {{"roles", "brokr", "--roles"}}}));
  CHECK(text ==
        "mq.toml:1: Invalid value 0 for configuration num.partitions: is out of range (allowed: a whole number, at "
        "least 1)\n"
        "mq.toml:2: Unknown setting node.idd; did you mean node.id?\n"
        "MQ_CFG_NODE_ID: Invalid value x for configuration node.id: is not a whole number (allowed: a whole number, at "
        "least 0)\n"
        "--roles: Invalid value brokr for configuration roles: is not known, did you mean broker? (allowed: a list of "
        "broker, controller)\n");
}

TEST_CASE("broker config: a value of the wrong TOML type is refused") {
  CHECK(problems(fromToml("num.partitions = \"3\"\n")) ==
        "mq.toml:1: num.partitions is text in quotes, but needs a whole number, without quotes or unit\n");
  CHECK(contains(problems(fromToml("num.partitions = 3.0\n")), "needs a whole number"));
  CHECK(contains(problems(fromToml("auto.create.topics.enable = \"true\"\n")), "needs true or false"));
  CHECK(contains(problems(fromToml("auto.create.topics.enable = 1\n")), "needs true or false"));
  CHECK(contains(problems(fromToml("broker.rack = 1\n")), "needs text in quotes"));
  CHECK(contains(problems(fromToml("broker.rack = 2020-01-01\n")), "a date or time"));
  CHECK(contains(problems(fromToml("num.partitions.x = 3\n")), "Unknown setting num.partitions.x"));
  CHECK(contains(problems(fromToml("[[listeners]]\nhost = 'x'\n")), "listeners is an array"));
  CHECK(contains(problems(fromToml("[num.partitions]\n")), "num.partitions is a table"));
}

TEST_CASE("broker config: what is not TOML is shown with its line") {
  CHECK(contains(problems(fromToml("num.partitions = 3\nlog.retention.ms = 168h\n")), "mq.toml:2: "));
  CHECK(contains(problems(fromToml("num.partitions = 3\nlog.retention.ms = 168h\n")), "log.retention.ms = 168h"));
  CHECK(contains(problems(fromToml("num.partitions = 3\nnum.partitions = 4\n")), "mq.toml:2: "));
  CHECK(contains(problems(fromToml("num.partitions\n")), "mq.toml:1: "));
  CHECK(contains(problems(fromToml("x = \"\xff\"\n")), "mq.toml:1: "));
  CHECK_FALSE(fromToml(std::string(5000, '[')).has_value());
  CHECK_FALSE(fromToml(std::string("a = ") + std::string(5000, '[')).has_value());
}

TEST_CASE("broker config: flags beat the environment, which beats the file; each value names its source") {
  Loaded loaded =
      BrokerConfig::load({.tomlPath = "mq.toml",
                          .toml = "num.partitions = 2\nnode.id = 7\nbroker.rack = 'file'\n",
                          .environment = {{"MQ_CFG_NUM_PARTITIONS", "3"}, {"MQ_CFG_NODE_ID", "8"}, {"PATH", "/bin"}},
                          .flags = {{"num.partitions", "4", "--set"}, {"num.partitions", "5", "--set"}}});
  REQUIRE_MESSAGE(loaded.has_value(), problems(loaded));
  CHECK(loaded->settings().partitionsDefault == 5);
  CHECK(loaded->settings().nodeId == 8);
  Entry partitions = entry(*loaded, "num.partitions");
  CHECK(partitions.source == Source::staticBroker);
  CHECK(partitions.where == "--set");
  REQUIRE(partitions.synonyms.size() == 4);
  CHECK(partitions.synonyms[1].where == "MQ_CFG_NUM_PARTITIONS");
  CHECK(partitions.synonyms[2].where == "mq.toml:1");
  CHECK(partitions.synonyms[3].source == Source::defaultValue);
  CHECK(partitions.synonyms[3].value == "1");
  CHECK(entry(*loaded, "broker.rack").where == "mq.toml:3");
  CHECK(entry(*loaded, "shards").source == Source::defaultValue);
}

TEST_CASE("broker config: an environment variable that would do nothing stops the start") {
  auto environment = [](std::string name) {
    return problems(BrokerConfig::load({.environment = {{std::move(name), "3"}}}));
  };
  CHECK(environment("MQ_CFG_NUM_PARTITION") ==
        "MQ_CFG_NUM_PARTITION: names no setting; did you mean MQ_CFG_NUM_PARTITIONS?\n");
  CHECK(contains(environment("MQ_CFG_"), "names no setting"));
  CHECK(contains(environment("MQ_CFG_num_partitions"), "names no setting"));
  CHECK(contains(environment("MQ_NUM_PARTITIONS"), "write MQ_CFG_NUM_PARTITIONS"));
  CHECK(contains(environment("MQ_SET_NUM_PARTITIONS"), "write MQ_CFG_NUM_PARTITIONS"));
  CHECK(contains(environment("MQ__NUM_PARTITIONS"), "write MQ_CFG_NUM_PARTITIONS"));
  CHECK(environment("MQ_BROKERS") == "");
  CHECK(environment("MQCFG") == "");
}

TEST_CASE("broker config: of the spellings of one setting the finer unit wins in a layer, and a later layer over all") {
  Loaded same = fromToml("log.retention.hours = 1\nlog.retention.ms = 5\nlog.retention.minutes = 2\n");
  REQUIRE_MESSAGE(same.has_value(), problems(same));
  CHECK(same->settings().topicDefaults.retentionMs == 5);
  Loaded minutes = fromToml("log.retention.hours = 1\nlog.retention.minutes = 2\n");
  CHECK(minutes->settings().topicDefaults.retentionMs == 120000);
  Loaded later = BrokerConfig::load({.tomlPath = "mq.toml",
                                     .toml = "log.retention.ms = 5\nlog.roll.jitter.hours = 2\n",
                                     .flags = {{"log.retention.hours", "1", "--set"}}});
  CHECK(later->settings().topicDefaults.retentionMs == 3600000);
  CHECK(later->settings().topicDefaults.segmentJitterMs == 7200000);
  Entry retention = entry(*later, "log.retention.ms");
  CHECK(retention.value == "3600000");
  CHECK(retention.synonyms.front().name == "log.retention.hours");
  CHECK(retention.synonyms.front().value == "1");
  CHECK(fromToml("log.retention.hours = -1\n")->settings().topicDefaults.retentionMs == -1);
  CHECK(contains(problems(fromToml("log.roll.hours = 0\n")),
                 "log.roll.hours: is out of range (allowed: a whole number from 1"));
  CHECK(contains(problems(fromToml("log.retention.hours = 9999999999999\n")), "out of range"));
}

TEST_CASE("broker config: a wildcard is never advertised") {
  for (const char* host :
       {"0.0.0.0:9092", "[::]:9092", "[::0]:9092", "[0:0:0:0:0:0:0:0]:9092", "*:9092", "[::ffff:0.0.0.0]:9092"}) {
    CAPTURE(host);
    CHECK(contains(problems(fromFlags({{"advertised.listeners", host, "--advertise"}})),
                   "no address that a client could connect to"));
  }
  CHECK(fromFlags({{"advertised.listeners", "[fd00::]:9092", "--advertise"}}).has_value());
  CHECK(contains(problems(fromFlags({{"advertised.listeners", "localhost:0", "--advertise"}})), "needs a port"));
}

TEST_CASE("broker config: listeners and advertised addresses pair by name") {
  auto pair = [](std::string listeners, std::string advertised) {
    return problems(fromFlags({{"listeners", std::move(listeners), "--listen"},
                               {"advertised.listeners", std::move(advertised), "--advertise"}}));
  };
  CHECK(pair("in=0.0.0.0:9092,out=0.0.0.0:9094", "out=example.org:19094") == "");
  CHECK(contains(pair("in=0.0.0.0:9092", "out=example.org:9092"), "no listener with the name out"));
  CHECK(contains(pair("in=0.0.0.0:9092", "example.org:9092"), "has no name, but every listener has one"));
  CHECK(contains(pair("0.0.0.0:9092", "a.org:1,b.org:2"), "two are for the listener without a name"));
  CHECK(contains(pair("127.0.0.1:1,127.0.0.1:2", "a.org:1"), "more than one has no name"));
  CHECK(contains(pair("a=127.0.0.1:1,a=127.0.0.1:2", "a=a.org:1"), "two have the name a"));
  CHECK(contains(pair("127.0.0.1:1,PLAINTEXT=127.0.0.1:2", "a.org:1"), "two have the name PLAINTEXT"));
  CHECK(pair("PLAINTEXT=127.0.0.1:1", "a.org:1") == "");
  CHECK(contains(pair("a=127.0.0.1:1,b=127.0.0.1:1", "a=a.org:1"), "given twice"));
}

TEST_CASE("broker config: roles, controllers and node id must fit together") {
  using Flags = std::vector<config::Given>;
  auto refusal = [](Flags flags) { return problems(fromFlags(std::move(flags))); };
  CHECK(refusal({{"controllers", "1@a:1,2@b:1,3@c:1", "--controllers"}}) == "");
  CHECK(contains(refusal({{"controllers", "2@a:1", "--controllers"}}), "this node (1) is not listed"));
  CHECK(refusal({{"controllers", "2@a:1", "--controllers"}, {"roles", "broker", "--roles"}}) == "");
  CHECK(contains(refusal({{"controllers", "1@a:1", "--controllers"}, {"roles", "broker", "--roles"}}),
                 "lists this node (1), which has not the role controller"));
  CHECK(contains(refusal({{"roles", "broker", "--roles"}}), "needs to know some"));
  CHECK(contains(refusal({{"roles", "controller", "--roles"}}), "not possible in this version"));
  CHECK(contains(refusal({{"controllers", "1@a:1,1@b:1", "--controllers"}}), "names node 1 twice"));
  CHECK(refusal({{"controllers", "3@a:1", "--controllers"}, {"node.id", "3", "--node-id"}}) == "");
  const config::Given cluster{"controllers", "1@a:1,2@b:1,3@c:1", "--controllers"};
  CHECK(contains(refusal({cluster, {"listeners", "0.0.0.0:9092", "--listen"}}), "set advertised.listeners"));
  CHECK(refusal({cluster,
                 {"listeners", "0.0.0.0:9092", "--listen"},
                 {"advertised.listeners", "a.example:9092", "--advertise"}}) == "");
  CHECK(contains(refusal({cluster,
                          {"roles", "broker", "--roles"},
                          {"node.id", "4", "--node-id"},
                          {"peer.listen", "0.0.0.0:9093", "--peer-listen"}}),
                 "name its host"));
  CHECK(contains(refusal({{"broker.heartbeat.interval.ms", "3000", "--set"}}), "more than half"));
}

TEST_CASE("broker config: memory for requests holds at least the largest request") {
  CHECK(contains(problems(fromFlags({{"queued.max.request.bytes", "10485760", "--set"}})), "could never be read"));
  CHECK(fromFlags({{"queued.max.request.bytes", "10485760", "--set"}, {"socket.request.max.bytes", "1048576", "--set"}})
            .has_value());
}

TEST_CASE("broker config: dynamic values beat static ones, the broker's own beat the cluster's, only live ones count") {
  BrokerConfig config = *fromFlags({{"message.max.bytes", "1000", "--set"}});
  BrokerConfig changed =
      config.withDynamic({{"message.max.bytes", "2000"}, {"log.retention.ms", "5"}, {"node.id", "9"}},
                         {{"message.max.bytes", "3000"}, {"unknown", "1"}});
  CHECK(config.settings().topicDefaults.maxMessageBytes == 1000);
  CHECK(changed.settings().topicDefaults.maxMessageBytes == 3000);
  CHECK(changed.settings().topicDefaults.retentionMs == 5);
  CHECK(changed.settings().nodeId == 1);
  Entry size = entry(changed, "message.max.bytes");
  CHECK(size.source == Source::dynamicBroker);
  CHECK_FALSE(size.readOnly);
  REQUIRE(size.synonyms.size() == 4);
  CHECK(size.synonyms[1].source == Source::dynamicDefaultBroker);
  CHECK(size.synonyms[2].source == Source::staticBroker);
  CHECK(entry(changed, "node.id").source == Source::defaultValue);
  CHECK(entry(changed, "node.id").readOnly);
  CHECK(changed.withDynamic({}, {}).settings() == config.settings());
}

TEST_CASE("broker config: what cannot change live is refused as Kafka refuses it") {
  BrokerConfig config;
  auto set = [&](std::string name, std::string value) {
    return alterBroker(config, {}, std::vector{Alteration{std::move(name), AlterOp::set, std::move(value)}});
  };
  CHECK(set("log.cleaner.backoff.ms", "16000").has_value());
  CHECK(set("log.cleaner.io.max.bytes.per.second", "987654321").has_value());
  CHECK(set("node.id", "5").errorCode() == Error::invalidRequest);
  CHECK(set("process.roles", "x").errorCode() == Error::invalidConfig);
  CHECK(set("log.retention.ms", "abc").errorCode() == Error::invalidConfig);
  CHECK(set("log.cleaner.min.compaction.lag.ms", "5").has_value());
  CHECK(contains(set("log.retention.hours", "5").failure().message, "set log.retention.ms"));
  Result<Overrides> appended =
      alterBroker(config, {}, std::vector{Alteration{"log.cleanup.policy", AlterOp::append, "compact"}});
  CHECK(*appended == Overrides{{"log.cleanup.policy", "delete,compact"}});
}

TEST_CASE("broker config: the list has no secret, no hidden name, is sorted and long") {
  std::vector<Entry> entries = BrokerConfig().describe();
  CHECK(entries.size() > 50);
  CHECK(std::is_sorted(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; }));
  for (const Entry& e : entries) {
    CAPTURE(e.name);
    CHECK_FALSE(e.name.starts_with("internal."));
    CHECK(e.doc.size() > 10);
    CHECK_FALSE(e.synonyms.empty());
  }
  CHECK(entry({}, "log.retention.ms").value == "604800000");
}

TEST_CASE("broker config: each name and alias means one setting") {
  std::vector<std::string_view> names;
  for (const Section& section : brokerTable()) {
    for (const Setting& row : section.rows) {
      names.push_back(row.name);
      for (const Alias& alias : row.aliases) {
        if (!alias.name.empty()) names.push_back(alias.name);
      }
    }
  }
  std::sort(names.begin(), names.end());
  CHECK(std::adjacent_find(names.begin(), names.end()) == names.end());
}
