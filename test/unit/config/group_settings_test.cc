#include "config/group_settings.h"

#include <doctest/doctest.h>

#include "config/broker_settings.h"

using namespace mq;
using namespace mq::config;

namespace {

Alteration set(std::string name, std::string value) { return {std::move(name), AlterOp::set, std::move(value)}; }

}  // namespace

TEST_CASE("group settings: an override is taken within what the broker allows") {
  CHECK(checkGroup({}, {{"consumer.session.timeout.ms", "50000"}}).has_value());
  CHECK(checkGroup({}, {{"consumer.heartbeat.interval.ms", "15000"}}).has_value());
  for (const Overrides& wrong :
       {Overrides{{"consumer.session.timeout.ms", "44999"}}, Overrides{{"consumer.session.timeout.ms", "60001"}},
        Overrides{{"consumer.session.timeout.ms", "1"}}, Overrides{{"consumer.session.timeout.ms", "-1"}},
        Overrides{{"consumer.session.timeout.ms", "99999999999"}}, Overrides{{"consumer.session.timeout.ms", "50s"}},
        Overrides{{"consumer.heartbeat.interval.ms", "4999"}}, Overrides{{"consumer.heartbeat.interval.ms", "15001"}},
        Overrides{{"retention.ms", "1"}}, Overrides{{"", ""}}}) {
    CAPTURE(wrong.begin()->second);
    auto checked = checkGroup({}, wrong);
    CHECK(checked.errorCode() == Error::invalidConfig);
    CHECK_FALSE(checked.failure().message.empty());
  }
}

TEST_CASE("group settings: a session that ends before the next heartbeat is refused, though each is allowed alone") {
  GroupLimits wide{.defaults = {}, .least = {1, 1}, .most = {100000, 100000}};
  CHECK(checkGroup(wide, {{"consumer.session.timeout.ms", "5000"}}).errorCode() == Error::invalidConfig);
  CHECK(checkGroup(wide, {{"consumer.session.timeout.ms", "5001"}}).has_value());
  CHECK(checkGroup(wide, {{"consumer.heartbeat.interval.ms", "45000"}}).errorCode() == Error::invalidConfig);
}

TEST_CASE("group settings: a misspelt name is answered with the nearest") {
  auto checked = checkGroup({}, {{"consumer.sesion.timeout.ms", "50000"}});
  REQUIRE_FALSE(checked.has_value());
  CHECK(checked.failure().message ==
        "Unknown group config name: consumer.sesion.timeout.ms; did you mean consumer.session.timeout.ms?");
}

TEST_CASE("group settings: set and remove; what is refused changes nothing") {
  auto altered = alterGroup({}, {}, std::vector{set("consumer.session.timeout.ms", "50000")});
  REQUIRE(altered.has_value());
  CHECK(*altered == Overrides{{"consumer.session.timeout.ms", "50000"}});
  CHECK(alterGroup({}, *altered, std::vector{set("consumer.session.timeout.ms", "1")}).errorCode() ==
        Error::invalidConfig);
  CHECK(alterGroup({}, *altered, std::vector{Alteration{"consumer.session.timeout.ms", AlterOp::append, "1"}})
            .errorCode() == Error::invalidConfig);
  auto removed =
      alterGroup({}, *altered, std::vector{Alteration{"consumer.session.timeout.ms", AlterOp::remove, std::nullopt}});
  REQUIRE(removed.has_value());
  CHECK(removed->empty());
}

TEST_CASE("group settings: what was set under other limits stays within those of today") {
  GroupLimits limits{.defaults = {45000, 5000}, .least = {45000, 5000}, .most = {60000, 15000}};
  CHECK(resolveGroup(limits, {{"consumer.session.timeout.ms", "1000"}}) == ConsumerGroupSettings{45000, 5000});
  CHECK(resolveGroup(limits, {{"consumer.session.timeout.ms", "100000"}}) == ConsumerGroupSettings{60000, 5000});
  CHECK(resolveGroup(limits, {{"of.a.later.version", "1"}, {"consumer.heartbeat.interval.ms", "6000"}}) ==
        ConsumerGroupSettings{45000, 6000});
}

TEST_CASE("group settings: each value names its source") {
  auto broker = BrokerConfig::load({.flags = {{"group.consumer.heartbeat.interval.ms", "6000", "--set"}}});
  REQUIRE(broker.has_value());
  auto entries = describeGroup(*broker, {{"consumer.session.timeout.ms", "050000"}});
  REQUIRE(entries.size() == 2);
  CHECK(entries[0].name == "consumer.heartbeat.interval.ms");
  CHECK(entries[0].value == "6000");
  CHECK(entries[0].source == Source::staticBroker);
  CHECK(entries[0].where == "--set");
  CHECK(entries[1].name == "consumer.session.timeout.ms");
  CHECK(entries[1].value == "50000");
  CHECK(entries[1].source == Source::dynamicGroup);
  CHECK(entries[1].synonyms.size() == 2);
}

TEST_CASE("group settings: a broker whose own values are out of its limits does not start, and says why") {
  for (const Given& wrong : {Given{"group.consumer.session.timeout.ms", "1000", "--set"},
                             Given{"group.consumer.session.timeout.ms", "70000", "--set"},
                             Given{"group.consumer.heartbeat.interval.ms", "1000", "--set"},
                             Given{"group.consumer.max.heartbeat.interval.ms", "4000", "--set"}}) {
    auto loaded = BrokerConfig::load({.flags = {wrong}});
    REQUIRE_FALSE(loaded.has_value());
    CHECK(loaded.error().front().text.find("group.consumer.m") != std::string::npos);
  }
}
