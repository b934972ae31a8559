#include "cli/output.h"

#include <doctest/doctest.h>

#include <limits>

using namespace mq;
using namespace mq::cli;

TEST_CASE(
    "times are ISO 8601 in UTC with milliseconds; midnight is hour 0; -1 is none; beyond four digits the number") {
  CHECK(isoTime(0) == "1970-01-01T00:00:00.000Z");
  CHECK(isoTime(1700006400000) == "2023-11-15T00:00:00.000Z");
  CHECK(isoTime(1700006399999) == "2023-11-14T23:59:59.999Z");
  CHECK(isoTime(-1) == "none");
  CHECK(isoTime(-2) == "1969-12-31T23:59:59.998Z");
  CHECK(isoTime(9223372036854) == "2262-04-11T23:47:16.854Z");
  CHECK(isoTime(253402300799999) == "9999-12-31T23:59:59.999Z");
  CHECK(isoTime(253402300800000) == "253402300800000 ms");
  CHECK(isoTime(std::numeric_limits<int64_t>::max()) == "9223372036854775807 ms");
  CHECK(isoTime(std::numeric_limits<int64_t>::min()) == "-9223372036854775808 ms");
}

TEST_CASE("bytes for a terminal: text stays, what does not print is escaped") {
  auto escaped = [](std::string_view text) {
    std::string out;
    appendEscaped(out, asBytes(text));
    return out;
  };
  CHECK(escaped("a\tb") == "a\tb");
  CHECK(escaped("\xC3\xA9") == "\xC3\xA9");
  CHECK(escaped("\x1b[2J") == "\\x1b[2J");
  CHECK(escaped("\xff") == "\\xff");
  CHECK(escaped("a\xC3") == "a\\xc3");
}

TEST_CASE("sizes and durations for people") {
  CHECK(humanBytes(0) == "0 B");
  CHECK(humanBytes(999) == "999 B");
  CHECK(humanBytes(1400) == "1.4 kB");
  CHECK(humanBytes(1'400'000'000) == "1.4 GB");
  CHECK(humanDuration(12) == "12 ms");
  CHECK(humanDuration(1500) == "1.5 s");
  CHECK(humanDuration(90'000) == "1 min 30 s");
  CHECK(humanDuration(3 * 86'400'000 + 4 * 3'600'000) == "3 d 4 h");
}
