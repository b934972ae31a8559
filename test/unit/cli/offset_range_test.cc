#include "cli/offset_range.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <ctime>

using namespace mq;
using namespace mq::cli;

namespace {

constexpr int64_t kNow = 1'700'000'000'000;

std::string text(const OffsetPoint& point) {
  using Kind = OffsetPoint::Kind;
  switch (point.kind) {
    case Kind::start: return "start";
    case Kind::end: return "end";
    case Kind::stored: return "stored";
    case Kind::absolute: return fmt::format("{}", point.value);
    case Kind::fromEnd: return fmt::format("-{}", point.value);
    case Kind::fromStart: return fmt::format("+{}", point.value);
    case Kind::time: return fmt::format("@{}", point.value);
  }
  return "?";
}

std::string range(std::string_view given, OffsetsOf whose = OffsetsOf::log) {
  auto parsed = parseOffsetRange(given, kNow, whose);
  if (!parsed) return parsed.failure().message;
  return text(parsed->from) + (parsed->to ? ":" + text(*parsed->to) : "");
}

bool refused(std::string_view given) { return range(given).find("is no offset") != std::string::npos; }

// Local times as in a zone of our choice.
class Zone {
 public:
  explicit Zone(const char* name) {
    if (const char* before = std::getenv("TZ")) before_ = before;
    setenv("TZ", name, 1);
    tzset();
  }
  ~Zone() {
    before_ ? setenv("TZ", before_->c_str(), 1) : unsetenv("TZ");
    tzset();
  }

 private:
  std::optional<std::string> before_;
};

}  // namespace

TEST_CASE("offset range: points") {
  CHECK(range("start") == "start");
  CHECK(range("beginning") == "start");
  CHECK(range("end") == "end");
  CHECK(range("0") == "0");
  CHECK(range("9223372036854775807") == "9223372036854775807");
  CHECK(range("-5") == "-5");
  CHECK(range("+5") == "+5");
  CHECK(range("s@1234") == "@1234");
}

TEST_CASE("offset range: from and to, either may be left out") {
  CHECK(range(":") == "start");
  CHECK(range("5:") == "5");
  CHECK(range(":5") == "start:5");
  CHECK(range("5:10") == "5:10");
  CHECK(range("-10:-5") == "-10:-5");
  CHECK(range("+10:end") == "+10:end");
  CHECK(range("e@1234") == "start:@1234");
  CHECK(range("s@1:e@2") == "@1:@2");
}

TEST_CASE("offset range: times") {
  CHECK(range("@1700000000") == "@1700000000000");
  CHECK(range("@1700000000123") == "@1700000000123");
  CHECK(range("@2023-11-14T22:13:20Z") == "@1700000000000");
  CHECK(range("@2023-11-14T22:13:20.123456Z") == "@1700000000123");
  CHECK(range("@2023-11-15T03:43:20+05:30") == "@1700000000000");
  CHECK(range("@2023-11-14t14:13:20-0800") == "@1700000000000");
  CHECK(range("@-1h") == fmt::format("@{}", kNow - 3'600'000));
  CHECK(range("@-1h30m") == fmt::format("@{}", kNow - 5'400'000));
  CHECK(range("@+250ms") == fmt::format("@{}", kNow + 250));
  CHECK(range("@-1w") == fmt::format("@{}", kNow - 604'800'000));
  CHECK(range("@1970-01-01T00:00:00Z") == "@0");
  CHECK(range("@1969-12-31T23:59:59.999Z") == "@0");  // -1 and -2 mean latest and earliest to a broker
}

TEST_CASE("offset range: the longest time wins, and @A:B is short for @A:@B") {
  CHECK(range("@2023-11-14T22:13:20Z:@2023-11-14T22:13:21Z") == "@1700000000000:@1700000001000");
  CHECK(range("@2023-11-14T22:13:20Z:2023-11-14T22:13:21Z") == "@1700000000000:@1700000001000");
  CHECK(range("@-1h:-30m") == fmt::format("@{}:@{}", kNow - 3'600'000, kNow - 1'800'000));
  CHECK(range("@2023-11-14T22:13:20Z:10") == "@1700000000000:10");
  CHECK(range("@2023-11-14T22:13:20Z:") == "@1700000000000");
  CHECK(range(":@1700000000") == "start:@1700000000000");
}

TEST_CASE("offset range: a time without a zone is local, also over a change of the clock") {
  {
    Zone zone("IST-5:30");
    CHECK(range("@2023-11-15T03:43:20") == "@1700000000000");
    CHECK(range("@2023-11-15") == "@1699986600000");
  }
  Zone zone("America/Los_Angeles");
  int64_t before = 0, after = 0;
  auto ms = [](std::string_view given) {
    auto parsed = parseOffsetRange(given, kNow);
    REQUIRE(parsed.has_value());
    return parsed->from.value;
  };
  before = ms("@2023-11-05T00:30");
  after = ms("@2023-11-05T03:30");
  CHECK((after - before == 4 * 3'600'000 || after - before == 3 * 3'600'000));  // the latter without zone files
}

TEST_CASE("offset range: what is none is refused and named") {
  for (const char* given : {"",
                            "middle",
                            "--5",
                            "+-5",
                            "5:10:15",
                            "@",
                            "@yesterday",
                            "@12:34",
                            "1.5",
                            "0x10",
                            "5 ",
                            "@2023-13-01",
                            "@2023-02-30",
                            "@2023-1-1",
                            "@2023-11-14T25:00:00Z",
                            "@2023-11-14T22:13:20.Z",
                            "@-1y",
                            "@-h",
                            "@-",
                            "@-99999999999999999999w",
                            "@17000000000",
                            "9223372036854775808",
                            "s@-1",
                            "@@1700000000"}) {
    CAPTURE(given);
    CHECK(refused(given));
  }
  CHECK(range("@+15250284452w") != "");  // far away, but no overflow
  CHECK(range("stored").find("consumer group") != std::string::npos);
}

TEST_CASE("offset range: members of a group begin with what is stored, unless they say otherwise") {
  auto ofGroup = [](std::string_view given) { return range(given, OffsetsOf::group); };
  CHECK(ofGroup("stored") == "stored");
  CHECK(ofGroup("stored:") == "stored");
  CHECK(ofGroup(":end") == "stored:end");
  CHECK(ofGroup("stored:@1700000000") == "stored:@1700000000000");
  CHECK(ofGroup("e@1234") == "stored:@1234");
  CHECK(ofGroup("start") == "start");
  CHECK(ofGroup("5:10") == "5:10");
  CHECK(ofGroup("5:stored").find("not where it stops") != std::string::npos);
  CHECK(range("stored:5").find("consumer group") != std::string::npos);
  CHECK(range("5:stored").find("not where it stops") != std::string::npos);
}
