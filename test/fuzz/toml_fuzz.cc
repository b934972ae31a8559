// mq.toml: any text is a configuration or a list of complaints with their lines. What was taken reads the same when it
// is given again by flags, and every value is one that its setting allows.
#include "base/check.h"
#include "config/broker_settings.h"
#include "config/reference.h"
#include "fuzz.h"

namespace mq::fuzz {

using namespace config;

void fuzzOne(Bytes input) {
  auto loaded = BrokerConfig::load({.tomlPath = "f", .toml = std::string(asText(input))});
  if (!loaded) {
    MQ_CHECK(!loaded.error().empty());
    for (const Problem& problem : loaded.error()) MQ_CHECK(!problem.text.empty());
    return;
  }
  if (loaded->settings() == BrokerSettings{}) return;  // most mutations: nothing but comments is left
  std::vector<Given> again;
  for (const Entry& entry : loaded->describe()) {
    MQ_CHECK(!entry.synonyms.empty(), entry.name);
    if (entry.source == Source::staticBroker) again.push_back({entry.name, entry.value, "--set"});
  }
  auto reloaded = BrokerConfig::load({.flags = std::move(again)});
  MQ_CHECK(reloaded.has_value(), reloaded.error().front().toString());
  MQ_CHECK(reloaded->settings() == loaded->settings());
}

std::vector<Buffer> fuzzSeeds() {
  std::vector<std::string> texts = {
      "",
      "num.partitions = 3\n[log]\nretention.hours = 24\ncleanup.policy = ['compact', \"delete\"]\n",
      "listeners = ['127.0.0.1:9092', 'out=[::1]:9094']\n\"advertised.listeners\" = \"out=[fd00::]:1\"\n",
      "\"max.connections\" = 5\nmax.connections.per.ip = 0x10\nlog.cleaner.io.max.bytes.per.second = 1e6\n",
      "node = {id = 1_000}\ndurability = 'page-cache'\ncontrollers = '''1000@h:1'''\n# comment",
      "[a.b]\nc = 2020-01-01T00:00:00Z\n[[x]]\ny = [[[1]]]\nz = inf\n",
      exampleToml().substr(0, 2000),
  };
  std::vector<Buffer> seeds;
  for (const std::string& text : texts) seeds.emplace_back(text.begin(), text.end());
  return seeds;
}

}  // namespace mq::fuzz
