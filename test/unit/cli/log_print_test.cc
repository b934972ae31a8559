// Over data directories that Kafka wrote: test/golden/kafka-data.
#include "cli/log_print.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "../storage/fixtures.h"
#include "cli/json_record.h"
#include "runtime/uv/file_system.h"

using namespace mq;
using namespace mq::cli;
using storage::LogFileName;
using storage::LogReader;
using storage::test::Fixture;
using Json = nlohmann::json;

namespace {

std::vector<std::string> linesOf(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The partition directories of a fixture, in order.
std::vector<std::string> partitions(const Fixture& fixture) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(fixture.path())) {
    std::string name = entry.path().filename();
    if (entry.is_directory() && partitionOf(name)) found.push_back(name);
  }
  std::sort(found.begin(), found.end());
  REQUIRE_FALSE(found.empty());
  return found;
}

struct Dump {
  std::string text;
  size_t problems = 0;
};

Dump dump(const Fixture& fixture, const std::string& name, LogStyle style) {
  auto files = realFileSystem();
  LogReader reader(*files, fixture / name);
  Dump dump;
  LogPrinter printer(reader, name, style, [&](std::string& lines) {
    dump.text += lines;
    lines.clear();
  });
  for (const LogFileName& file : reader.files()) printer.print(file);
  dump.problems = reader.problems().size();
  return dump;
}

}  // namespace

TEST_CASE("log dump: JSON has every batch that Kafka's own reader found, with its fields") {
  for (const char* name : {"plain", "txn", "compact-2-cleaned", "internal-1"}) {
    CAPTURE(name);
    Fixture fixture(name);
    std::vector<Json> expected;
    for (const std::string& line : storage::test::expectedLines(name)) {
      Json json = Json::parse(line);
      if (json["type"] == "batch") expected.push_back(json);
    }
    std::vector<Json> found;
    for (const std::string& partition : partitions(fixture)) {
      Dump dumped = dump(fixture, partition, {.json = true});
      CHECK(dumped.problems == 0);
      for (const std::string& line : linesOf(dumped.text)) {
        Json json = Json::parse(line);  // throws if it is none
        REQUIRE(json["file"].get<std::string>().starts_with(partition + "/"));
        if (json["type"] == "batch") found.push_back(json);
      }
    }
    REQUIRE(found.size() == expected.size());
    auto key = [](const Json& json) { return json["crc"].get<uint64_t>() << 32 | json["position"].get<uint64_t>(); };
    auto less = [&](const Json& a, const Json& b) { return key(a) < key(b); };
    std::sort(found.begin(), found.end(), less);
    std::sort(expected.begin(), expected.end(), less);
    for (size_t i = 0; i < found.size(); ++i) {
      CAPTURE(expected[i].dump());
      CHECK(found[i]["valid"] == true);
      for (const char* field :
           {"position", "size", "baseOffset", "lastOffset", "count", "codec", "leaderEpoch", "producerId",
            "producerEpoch", "baseSequence", "transactional", "control", "baseTimestamp", "maxTimestamp", "crc"}) {
        CHECK_MESSAGE(found[i][field] == expected[i][field], field);
      }
    }
  }
}

TEST_CASE("log dump: records come as mq consume -J writes them, and read back as they were") {
  Fixture fixture("plain");
  size_t records = 0, nulls = 0, binary = 0;
  for (const std::string& partition : partitions(fixture)) {
    for (const std::string& line : linesOf(dump(fixture, partition, {.json = true, .records = true}).text)) {
      auto record = parseJsonRecord(line);
      REQUIRE_MESSAGE(record.has_value(), line);
      CHECK(record->topic == partitionOf(partition)->topic);
      CHECK(record->partition == partitionOf(partition)->partition);
      CHECK(record->timestamp.has_value());
      ++records;
      nulls += !record->value || !record->key;
      binary += line.find("base64") != std::string::npos;
    }
  }
  size_t expected = 0;
  for (const std::string& line : storage::test::expectedLines("plain")) {
    Json json = Json::parse(line);
    if (json["type"] == "batch" && !json["control"].get<bool>()) expected += json["records"].size();
  }
  CHECK(records == expected);
  CHECK(nulls > 0);
  CHECK(binary > 0);
}

TEST_CASE("log dump: text names the file, each batch, what a control batch says, and the other files") {
  Fixture fixture("txn");
  std::string all;
  for (const std::string& partition : partitions(fixture)) all += dump(fixture, partition, {}).text;
  for (const char* part :
       {"/00000000000000000000.log  segment", "  @0 ", "offsets 0..", "  commit\n", "  abort\n", "transactional",
        "  offset index  ", "  producers  ", "  leader epochs  ", "  topic id  ", "  aborted transactions  "}) {
    CHECK_MESSAGE(all.find(part) != std::string::npos, part);
  }
  CHECK(all.find("DAMAGED") == std::string::npos);
}

TEST_CASE("log dump: a damaged batch is marked, what lies behind it is printed, its records are left out") {
  Fixture fixture("plain");
  std::string partition;
  std::filesystem::path log;
  // The first batch of the largest log.
  for (const std::string& name : partitions(fixture)) {
    for (const auto& entry : std::filesystem::directory_iterator(fixture / name)) {
      if (entry.path().extension() != ".log") continue;
      if (!log.empty() && entry.file_size() <= std::filesystem::file_size(log)) continue;
      log = entry.path();
      partition = name;
    }
  }
  auto before = linesOf(dump(fixture, partition, {.json = true, .records = true}).text);
  {
    std::fstream file(log, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(70);
    char byte = static_cast<char>(file.get());
    file.seekp(70);
    file.put(static_cast<char>(byte ^ 0x10));
  }
  Dump json = dump(fixture, partition, {.json = true});
  CHECK(json.problems > 0);
  size_t bad = 0, good = 0;
  for (const std::string& line : linesOf(json.text)) {
    Json parsed = Json::parse(line);
    if (parsed["type"] != "batch") continue;
    (parsed["valid"] == true ? good : bad) += 1;
    if (parsed["valid"] == false) {
      CHECK(parsed["problem"] == "the checksum is wrong");
      CHECK(parsed["position"] == 0);
    }
  }
  CHECK(bad == 1);
  CHECK(good > 0);
  CHECK(dump(fixture, partition, {}).text.find("DAMAGED: the checksum is wrong") != std::string::npos);
  auto after = linesOf(dump(fixture, partition, {.json = true, .records = true}).text);
  CHECK(after.size() < before.size());
  CHECK(after.size() > 0);
}

TEST_CASE("log dump: no damage that Kafka's fixtures know ends in an exception or in no problem") {
  for (const char* name : {"clean-damaged", "unclean-damaged"}) {
    Fixture fixture(name);
    size_t damaged = 0, all = 0;
    for (const std::string& partition : partitions(fixture)) {
      CAPTURE(partition);
      for (bool records : {false, true}) {
        Dump dumped = dump(fixture, partition, {.json = true, .records = records});
        for (const std::string& line : linesOf(dumped.text)) CHECK(Json::accept(line));
      }
      auto files = realFileSystem();
      LogReader reader(*files, fixture / partition);
      reader.verify();
      ++all;
      damaged += !reader.problems().empty();
      for (const auto& problem : reader.problems()) {
        CHECK_FALSE(problem.what.empty());
        CHECK_FALSE(remedyFor(storage::kindOf(problem.file)).empty());
      }
    }
    // Some damages are none to a reader: a derived file that is missing, zeros behind an index.
    CHECK(damaged * 2 > all);
  }
}

TEST_CASE("partition directories have a topic, a dash and a number") {
  CHECK(partitionOf("hello-0")->topic == "hello");
  CHECK(partitionOf("a-b-12")->topic == "a-b");
  CHECK(partitionOf("a-b-12")->partition == 12);
  for (const char* name : {"hello", "hello-", "-0", "hello-x", "hello-1x", "hello--1x", "hello-99999999999",
                           "quarantine", "c8dTxGvGQoqUyYJxzPcGaw-0-delete"}) {
    CHECK_FALSE(partitionOf(name).has_value());
  }
}
