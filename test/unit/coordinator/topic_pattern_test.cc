#include "coordinator/topic_pattern.h"

#include <doctest/doctest.h>

namespace mq::coordinator {
namespace {

TEST_CASE("TopicPattern: whole names, RE2's syntax") {
  auto pattern = TopicPattern::compile("orders\\..*|pay(ments)?");
  REQUIRE(pattern);
  CHECK(pattern->matches("orders.eu"));
  CHECK(pattern->matches("pay"));
  CHECK(pattern->matches("payments"));
  CHECK(!pattern->matches("my-payments"));
  CHECK(!pattern->matches("orders"));
  CHECK(TopicPattern::compile("").value().matches(""));
}

TEST_CASE("TopicPattern: what is wrong with an expression is said") {
  for (const char* bad : {"(", "[a-", "a**", "(?=x)", "\\1"}) {
    CAPTURE(bad);
    auto pattern = TopicPattern::compile(bad);
    REQUIRE(!pattern);
    CHECK(pattern.failure().error == Error::invalidRegularExpression);
    CHECK(pattern.failure().message.find(bad) != std::string::npos);
  }
  CHECK(!TopicPattern::compile(std::string(5000, 'a')));
  CHECK(!TopicPattern::compile("((a{1,100}){1,100}){1,100}"));  // small to write, huge to compile
}

TEST_CASE("TopicPattern: no expression takes long") {
  auto pattern = TopicPattern::compile("(a*)*b");
  REQUIRE(pattern);
  CHECK(!pattern->matches(std::string(249, 'a')));  // others need 2^249 steps
}

}  // namespace
}  // namespace mq::coordinator
