#include "config/reference.h"

#include <doctest/doctest.h>

#include "config/broker_settings.h"

using namespace mq::config;

TEST_CASE("reference: the example file is valid with every line taken in, and says what holds anyway") {
  std::string example = exampleToml();
  std::string active;
  size_t start = 0, taken = 0;
  while (start < example.size()) {
    size_t end = example.find('\n', start);
    std::string line = example.substr(start, end - start);
    CHECK_MESSAGE((line.empty() || line.starts_with("#")), line);
    CHECK(line.size() <= 120);
    // "# name = value": prose has no " = " behind one word.
    size_t equals = line.find(" = ");
    if (line.starts_with("# ") && equals != std::string::npos && line.find(' ', 2) == equals) {
      active += line.substr(2) + "\n";
      ++taken;
    }
    start = end + 1;
  }
  auto loaded = BrokerConfig::load({.tomlPath = "etc/mq.toml", .toml = active});
  if (!loaded) FAIL(loaded.error().front().toString());
  CHECK(loaded->settings() == BrokerSettings{});
  CHECK(taken == BrokerConfig().describe().size());
}

TEST_CASE("reference: the manual names every setting") {
  std::string manual = manualScdoc();
  for (const Entry& entry : BrokerConfig().describe())
    CHECK_MESSAGE(manual.find("*" + entry.name + "*") != std::string::npos, entry.name);
  for (const Entry& entry : describeTopic({}, {}))
    CHECK_MESSAGE(manual.find("*" + entry.name + "*") != std::string::npos, entry.name);
}
