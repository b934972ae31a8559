#include "cli/group_admin.h"

#include <doctest/doctest.h>

using namespace mq;
using namespace mq::cli;

namespace {

std::string selected(std::string_view text) {
  try {
    TopicSelection selection = parseSelection(text, "--topic");
    return fmt::format("{} [{}]", selection.topic, fmt::join(selection.partitions, " "));
  } catch (const CommandError& error) {
    CHECK(error.exitCode == exitUsage);
    return "refused";
  }
}

std::string reread(const OffsetLine& line) {
  std::string text;
  appendOffsetLine(text, *line.group, line.at, line.stored);
  return text;
}

}  // namespace

TEST_CASE("topics and partitions as they are written on the command line") {
  CHECK(selected("orders") == "orders []");
  CHECK(selected("orders:0") == "orders [0]");
  CHECK(selected("orders:0,3,12") == "orders [0 3 12]");
  for (const char* bad : {"", ":0", "orders:", "orders:,", "orders:0,", "orders:-1", "orders:x", "orders:0x1",
                          "orders:99999999999", "orders:0 "}) {
    CAPTURE(bad);
    CHECK(selected(bad) == "refused");
  }
  auto [selection, point] = parseTarget("orders:3,4=@2026-11-28T00:00Z");
  CHECK(selection.topic == "orders");
  CHECK(selection.partitions == std::vector<int32_t>{3, 4});
  CHECK(point == "@2026-11-28T00:00Z");
  CHECK_THROWS_AS(parseTarget("orders"), CommandError);
  CHECK_THROWS_AS(parseTarget("orders="), CommandError);
  CHECK_THROWS_AS(parseTarget("=5"), CommandError);
}

TEST_CASE("offsets as JSON lines come back as they were, whatever a client put beside them") {
  for (const std::optional<std::string>& metadata :
       {std::optional<std::string>(), std::optional<std::string>(""), std::optional<std::string>("at \"noon\"\n"),
        std::optional<std::string>("\xff\xfe raw"), std::optional<std::string>(std::string(5, '\0'))}) {
    for (int32_t epoch : {-1, 0, INT32_MAX}) {
      OffsetLine line{.group = "g\xc3\xa4", .at = {"orders", 3}, .stored = {INT64_MAX, epoch, metadata}};
      std::string text = reread(line);
      auto parsed = parseOffsetLine(text);
      REQUIRE(parsed);
      CHECK(parsed->group == line.group);
      CHECK(parsed->at == line.at);
      CHECK(parsed->stored == line.stored);
      CHECK(reread(*parsed) == text);
    }
  }
  auto bare = parseOffsetLine(R"({"topic":"t","partition":0,"offset":5,"ts":1,"value":null})");
  REQUIRE(bare);
  CHECK(!bare->group);
  CHECK(bare->stored == StoredOffset{5, -1, ""});
}

TEST_CASE("offsets as JSON lines: what is none is refused and says why") {
  auto why = [](std::string_view text) {
    auto parsed = parseOffsetLine(text);
    return parsed ? "taken" : parsed.failure().message;
  };
  CHECK(why("") == "not valid JSON");
  CHECK(why("[]") == "not a JSON object");
  CHECK(why(R"({"partition":0,"offset":5})") == "no \"topic\"");
  CHECK(why(R"({"topic":"","partition":0,"offset":5})") == "no \"topic\"");
  CHECK(why(R"({"topic":"t","offset":5})") == "no \"partition\"");
  CHECK(why(R"({"topic":"t","partition":0})") == "no \"offset\"");
  CHECK(why(R"({"topic":7,"partition":0,"offset":5})") == "\"topic\" must be a string");
  CHECK(why(R"({"topic":"t","partition":2147483648,"offset":5})").starts_with("\"partition\" must be"));
  CHECK(why(R"({"topic":"t","partition":0,"offset":-1})").starts_with("\"offset\" must be"));
  CHECK(why(R"({"topic":"t","partition":0,"offset":1.5})").starts_with("\"offset\" must be"));
  CHECK(why(R"({"topic":"t","partition":0,"offset":18446744073709551615})").starts_with("\"offset\" must be"));
  CHECK(why(R"({"topic":"t","partition":0,"offset":5,"metadata":{"base64":"?"}})").find("damaged") !=
        std::string::npos);
}

TEST_CASE("a group with members is left alone, and they are named") {
  GroupView group{.name = "g"};
  CHECK_NOTHROW(refuseMembers(group, "reset"));
  for (int i = 0; i < 7; ++i) {
    GroupMember& member = group.members.emplace_back();
    member.id = fmt::format("m{}", i);
    member.clientId = "kcat";
    member.host = "/10.0.0.1";
  }
  group.members[1].instance = "fixed";
  try {
    refuseMembers(group, "reset");
    FAIL("it was taken");
  } catch (const CommandError& error) {
    CHECK(error.exitCode == exitConflict);
    CHECK(error.message ==
          "cannot reset group 'g' while it has members (NON_EMPTY_GROUP 68): m0 (kcat at /10.0.0.1), fixed (kcat at "
          "/10.0.0.1), m2 (kcat at /10.0.0.1), m3 (kcat at /10.0.0.1), m4 (kcat at /10.0.0.1) and 2 more; stop them "
          "first");
  }
}
