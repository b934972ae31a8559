#include "cli/json_record.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/random.h"

using namespace mq;
using namespace mq::cli;

namespace {

std::string refusal(std::string_view line) {
  auto record = parseJsonRecord(line);
  return record ? "accepted" : record.failure().message;
}
bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
std::string textOf(const MaybeBytes& bytes) { return bytes ? std::string(asText(*bytes)) : "(null)"; }

std::string printed(const PrintedRecord& record) {
  std::string line;
  appendJsonRecord(line, record);
  return line;
}

}  // namespace

TEST_CASE("JSON record: a line has its fields in the order of the documentation") {
  PrintedRecord record;
  record.topic = "t";
  record.partition = 3;
  record.offset = 5;
  record.timestamp = 1700000000000;
  record.leaderEpoch = 2;
  record.headers = {{asBytes("k"), asBytes("v")}, {asBytes("n"), std::nullopt}};
  record.key = asBytes("key");
  record.value = asBytes("value");
  CHECK(printed(record) ==
        "{\"topic\":\"t\",\"partition\":3,\"offset\":5,\"ts\":1700000000000,\"tstype\":\"create\",\"leaderEpoch\":2,"
        "\"headers\":[[\"k\",\"v\"],[\"n\",null]],\"key\":\"key\",\"value\":\"value\"}\n");
  record = {};
  record.topic = "t";
  record.logAppendTime = true;
  CHECK(printed(record) == "{\"topic\":\"t\",\"partition\":0,\"offset\":0,\"key\":null,\"value\":null}\n");
}

TEST_CASE("JSON record: any bytes go through unchanged, null is not empty, and the line is valid JSON") {
  Prng random(7);
  const std::string pieces[] = {"a",        "\"",   "\\",   "\n",           std::string(1, '\0'), "\x7f",
                                "\xC3\xA9", "\xFF", "\xC3", "\xED\xA0\x80", "\xC0\x80",           "\xF0\x9F\x98\x80",
                                "</script>"};
  for (int round = 0; round < 500; ++round) {
    auto draw = [&]() -> MaybeBytes {
      if (random.chance(1, 6)) return std::nullopt;
      Buffer bytes;
      for (uint64_t n = random.below(6); n > 0; --n) {
        const std::string& piece = pieces[random.below(std::size(pieces))];
        bytes.insert(bytes.end(), piece.begin(), piece.end());
      }
      return bytes;
    };
    MaybeBytes key = draw(), value = draw(), header = draw();
    Buffer name = draw().value_or(Buffer{'n'});
    auto view = [](const MaybeBytes& bytes) { return bytes ? std::optional<Bytes>(*bytes) : std::nullopt; };
    PrintedRecord record;
    record.topic = "t";
    record.timestamp = static_cast<int64_t>(random.below(1u << 30)) - 1;
    record.key = view(key);
    record.value = view(value);
    record.headers = {{Bytes(name), view(header)}};
    std::string line = printed(record);
    CHECK(nlohmann::json::accept(line));
    CHECK(line.find('\n') == line.size() - 1);
    auto back = parseJsonRecord(line);
    REQUIRE_MESSAGE(back.has_value(), line);
    CHECK(back->key == key);
    CHECK(back->value == value);
    CHECK(back->timestamp == record.timestamp);
    REQUIRE(back->headers.size() == 1);
    CHECK(back->headers[0].first == asText(name));
    CHECK(back->headers[0].second == header);
  }
}

TEST_CASE("JSON record: fields that are not there, that are null, that are unknown") {
  auto record = parseJsonRecord(R"({"value":"v","colour":{"deep":[1,2]},"offset":"any"})");
  REQUIRE(record.has_value());
  CHECK(textOf(record->value) == "v");
  CHECK_FALSE(record->key.has_value());
  CHECK_FALSE(record->topic.has_value());
  CHECK_FALSE(record->partition.has_value());
  CHECK_FALSE(record->timestamp.has_value());
  record = parseJsonRecord(R"({"topic":null,"partition":null,"ts":null,"headers":null,"key":null,"value":null})");
  REQUIRE(record.has_value());
  CHECK_FALSE(record->value.has_value());  // a tombstone
  CHECK(parseJsonRecord(R"({"tstype":"append","value":""})")->logAppendTime);
  CHECK(textOf(parseJsonRecord(R"({"value":""})")->value) == "");
}

TEST_CASE("JSON record: what is wrong is named") {
  CHECK(contains(refusal(R"({"key":"k"})"), "no \"value\""));
  CHECK(contains(refusal(R"({"value":{"a":1}})"), "nested JSON"));
  CHECK(contains(refusal(R"({"value":12})"), "must be a string"));
  CHECK(contains(refusal(R"({"value":{"base64":"Zg="}})"), "base64 is damaged"));
  CHECK(contains(refusal(R"({"value":{"base64":"Zg==","more":1}})"), "must be a string"));
  CHECK(contains(refusal(R"({"value":"v","partition":-1})"), "\"partition\""));
  CHECK(contains(refusal(R"({"value":"v","partition":2147483648})"), "\"partition\""));
  CHECK(contains(refusal(R"({"value":"v","partition":1.5})"), "\"partition\""));
  CHECK(contains(refusal(R"({"value":"v","ts":18446744073709551615})"), "\"ts\""));
  CHECK(contains(refusal(R"({"value":"v","ts":"now"})"), "\"ts\""));
  CHECK(contains(refusal(R"({"value":"v","topic":1})"), "\"topic\""));
  CHECK(contains(refusal(R"({"value":"v","headers":{"k":"v"}})"), "\"headers\""));
  CHECK(contains(refusal(R"({"value":"v","headers":[["k"]]})"), "\"headers\""));
  CHECK(contains(refusal(R"({"value":"v","headers":[[null,"v"]]})"), "cannot be null"));
  CHECK(contains(refusal("[1]"), "not a JSON object"));
  CHECK(contains(refusal("hello"), "not valid JSON"));
  CHECK(contains(refusal(""), "not valid JSON"));
  CHECK(contains(refusal("{\"value\":\"\xFF\"}"), "not valid JSON"));
  CHECK(contains(refusal("{\"value\":\"a\nb\"}"), "not valid JSON"));
  CHECK(contains(refusal(R"({"value":"v"} x)"), "not valid JSON"));
}

TEST_CASE("JSON record: depth costs no stack") {
  std::string deep(200'000, '[');
  CHECK(refusal(deep) != "accepted");
  CHECK(refusal("{\"value\":\"v\",\"x\":" + deep + std::string(deep.size(), ']') + "}") == "accepted");
}
