#include <doctest/doctest.h>

#include "config/broker_settings.h"
#include "config/text.h"
#include "config/topic_settings.h"

using namespace mq;
using namespace mq::config;

namespace {

// The message of a refused value; "" if it was taken.
std::string topicSays(std::string_view name, std::string_view value) {
  Result<void> checked = checkTopic({}, {{std::string(name), std::string(value)}});
  return checked ? "" : checked.failure().message;
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

BrokerSettings with(std::string name, std::string value) {
  auto loaded = BrokerConfig::load({.flags = {{std::move(name), std::move(value), "--set"}}});
  REQUIRE_MESSAGE(loaded.has_value(), loaded.error().front().toString());
  return loaded->settings();
}
std::string refused(std::string name, std::string value) {
  auto loaded = BrokerConfig::load({.flags = {{std::move(name), std::move(value), "--set"}}});
  return loaded ? "" : loaded.error().front().toString();
}

}  // namespace

TEST_CASE("values: numbers are whole, within their range and without decoration") {
  CHECK(topicSays("retention.ms", "5000") == "");
  CHECK(topicSays("retention.ms", "-1") == "");
  for (const char* bad :
       {"", " 5", "5 ", "+5", "5.0", "0x10", "5e3", "five", "5,000", "9223372036854775808", "-2", "5\n"}) {
    CAPTURE(bad);
    std::string message = topicSays("retention.ms", bad);
    CHECK(contains(message, "for configuration retention.ms"));
    CHECK(contains(message, "at least -1"));
  }
  CHECK(topicSays("min.insync.replicas", "2147483647") == "");
  CHECK(contains(topicSays("min.insync.replicas", "2147483648"), "out of range"));
  CHECK(contains(topicSays("min.insync.replicas", "-1"), "out of range"));
  CHECK(contains(topicSays("segment.bytes", "1048575"), "at least 1048576"));
  CHECK(contains(topicSays("compression.zstd.level", "23"), "from -131072 to 22"));
}

TEST_CASE("values: a unit is refused, with the number that was meant") {
  CHECK(contains(topicSays("retention.ms", "7d"), "7d is 604800000 ms"));
  CHECK(contains(topicSays("retention.ms", "168h"), "168h is 604800000 ms"));
  CHECK(contains(topicSays("segment.bytes", "1GiB"), "1GiB is 1073741824 bytes"));
  CHECK(contains(topicSays("segment.bytes", "64 MB"), "64 MB is 67108864 bytes"));
  CHECK_FALSE(contains(topicSays("retention.ms", "7 parsecs"), " is 7"));
  CHECK_FALSE(contains(topicSays("retention.ms", "9999999999999999d"), "ms;"));
}

TEST_CASE("values: booleans, words and lists are known ones") {
  CHECK(topicSays("preallocate", "true") == "");
  CHECK(topicSays("preallocate", "FALSE") == "");
  for (const char* bad : {"true ", "yes", "1", ""}) {
    CAPTURE(bad);
    CHECK(contains(topicSays("preallocate", bad), "allowed: true or false"));
  }
  CHECK(topicSays("compression.type", "auto") == "");
  CHECK(
      contains(topicSays("compression.type", "lzma"), "one of auto, producer, uncompressed, gzip, snappy, lz4, zstd"));
  CHECK(contains(topicSays("compression.type", "snapy"), "did you mean snappy?"));
  CHECK(topicSays("durability", "page-cache") == "");
  CHECK(contains(topicSays("durability", "pagecache"), "did you mean page-cache?"));
  CHECK(topicSays("cleanup.policy", "compact, delete") == "");
  CHECK(topicSays("cleanup.policy", "") == "");
  CHECK(contains(topicSays("cleanup.policy", "bogus"), "Invalid value bogus for configuration cleanup.policy"));
  CHECK(contains(topicSays("cleanup.policy", "delete,delete"), "twice"));
  CHECK(contains(topicSays("cleanup.policy", "delete,"), "empty item"));
  CHECK(topicSays("leader.replication.throttled.replicas", "*") == "");
  CHECK(topicSays("leader.replication.throttled.replicas", "0:1,12:3") == "");
  CHECK(contains(topicSays("leader.replication.throttled.replicas", "0:1,x"), "PARTITION:BROKER"));
}

TEST_CASE("values: fractions print as Java prints them, and read what they print") {
  CHECK(printDouble(0.5) == "0.5");
  CHECK(printDouble(0) == "0.0");
  CHECK(printDouble(1) == "1.0");
  CHECK(printDouble(987654321) == "9.87654321E8");
  CHECK(printDouble(1e7) == "1.0E7");
  CHECK(printDouble(9999999) == "9999999.0");
  CHECK(printDouble(0.0001) == "1.0E-4");
  CHECK(printDouble(0.001) == "0.001");
  CHECK(printDouble(std::numeric_limits<double>::max()) == "1.7976931348623157E308");
  CHECK(topicSays("min.cleanable.dirty.ratio", "0.25") == "");
  CHECK(topicSays("min.cleanable.dirty.ratio", "1") == "");
  for (const char* bad : {"1.01", "-0.1", "nan", "inf", "half", "0,5", ""}) {
    CAPTURE(bad);
    CHECK(contains(topicSays("min.cleanable.dirty.ratio", bad), "a number from 0 to 1"));
  }
  CHECK(with("log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308").cleanerBytesPerSecond ==
        std::numeric_limits<double>::max());
}

TEST_CASE("values: addresses take names, IPv4 and IPv6, and say what is wrong with others") {
  BrokerSettings settings = with("listeners", "127.0.0.1:9092, outside=[fd00::]:9094,dual=[::]:0");
  REQUIRE(settings.listeners.size() == 3);
  CHECK(settings.listeners[0] == Endpoint{"", {"127.0.0.1", 9092}});
  CHECK(settings.listeners[1] == Endpoint{"outside", {"fd00::", 9094}});
  CHECK(settings.listeners[1].toString() == "outside=[fd00::]:9094");
  CHECK(settings.listeners[2].address.port == 0);
  CHECK(contains(refused("listeners", "::1:9092"), "an IPv6 address needs brackets"));
  CHECK(contains(refused("listeners", "[::1]"), "the port is missing"));
  CHECK(contains(refused("listeners", "[::1]9092"), "the port is missing"));
  CHECK(contains(refused("listeners", "[localhost]:9092"), "only an IPv6 address"));
  CHECK(contains(refused("listeners", "localhost"), "the port is missing"));
  CHECK(contains(refused("listeners", "localhost:"), "not a number from 0 to 65535"));
  CHECK(contains(refused("listeners", "localhost:65536"), "not a number from 0 to 65535"));
  CHECK(contains(refused("listeners", ":9092"), "the host is missing"));
  CHECK(contains(refused("listeners", "=localhost:9092"), "empty name"));
  CHECK(contains(refused("listeners", "a b=localhost:9092"), "name"));
  CHECK(contains(refused("listeners", "PLAINTEXT://localhost:9092"), "it is a URL; expected HOST:PORT"));
  CHECK(contains(refused("listeners", "local host:9092"), "no host has"));
  CHECK(with("controllers", "1@[::1]:9093").controllers.front() == Voter{1, {"::1", 9093}});
  CHECK(contains(refused("controllers", "localhost:9093"), "ID@"));
  CHECK(contains(refused("controllers", "-1@localhost:9093"), "ID@"));
}

TEST_CASE("values: what a message repeats is short and printable") {
  std::string message = topicSays("retention.ms", std::string(5000, 'x'));
  CHECK(message.size() < 400);
  CHECK(contains(topicSays("retention.ms", "\x1b[31m"), "\\x1b[31m"));
  CHECK(contains(topicSays("retention.ms", "5 "), "'5 '"));
  CHECK(contains(topicSays(std::string(5000, 'y'), "1"), "Unknown topic config name"));
  CHECK(topicSays(std::string(5000, 'y'), "1").size() < 400);
}
