// Recovery of Kafka's damaged partitions, each with the case's recovery point as durable mark. The table says how each
// case ends here, in our own words; what must hold for all of them is checked against what Kafka made of the same
// files:
//
//   - no record is invented: every batch that is left is one of the undamaged partition, at its place;
//   - nothing that Kafka keeps is dropped silently: it is there, or the log is offline with a reason, or what was cut
//   is
//     kept in .cut files and told.
#include "storage/recovery.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "fixtures.h"
#include "runtime/uv/file_system.h"
#include "storage/file_names.h"
#include "storage/partition_metadata.h"

using namespace mq;
using namespace mq::storage;
using mq::storage::test::Fixture;

namespace {

enum class Outcome {
  whole,    // all 730 records
  cut,      // ends at `end`; the rest is kept in .cut files and told
  ends,     // ends at `end`, with nothing behind it to keep (a torn batch is kept all the same)
  offline,  // stays offline with a reason
};

struct Expectation {
  Outcome outcome;
  int64_t end = 730;
  int64_t start = 0;
};

// By case and mode; "*" is every mode that is not named.
const std::map<std::string, std::map<std::string, Expectation>> kExpected = {
    // Torn or zeroed tails: behind the mark they are cut; after a clean stop everything was safe once.
    {"tail-cut-+0", {{"*", {Outcome::ends, 720}}, {"clean", {Outcome::offline}}}},
    {"tail-cut-+1", {{"*", {Outcome::ends, 720}}, {"clean", {Outcome::offline}}}},  // one byte, and that is zero
    {"tail-cut", {{"*", {Outcome::cut, 720}}, {"clean", {Outcome::offline}}}},
    {"tail-zero-last-batch", {{"*", {Outcome::ends, 720}}, {"clean", {Outcome::offline}}}},
    {"tail-zero-half-batch", {{"*", {Outcome::cut, 720}}, {"clean", {Outcome::offline}}}},
    {"tail-zeros-appended", {{"*", {Outcome::ends, 730}}}},
    {"tail-garbage-appended", {{"*", {Outcome::cut, 730}}}},
    {"tail-last-batch-twice", {{"*", {Outcome::cut, 730}}}},
    {"active-log-emptied", {{"*", {Outcome::ends, 660}}, {"clean", {Outcome::offline}}}},
    {"log-missing-active", {{"*", {Outcome::ends, 660}}, {"clean", {Outcome::offline}}}},
    {"active-flip-record-byte", {{"*", {Outcome::cut, 690}}, {"clean", {Outcome::whole}}}},
    // Flips in old data. Below the mark no checksum is taken at a start (scrubbing does), but the headers must hold
    // together.
    {"old-flip-record-byte", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    {"old-flip-crc", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    {"old-flip-attributes-codec", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    {"old-flip-leader-epoch", {{"*", {Outcome::whole}}}},
    {"old-flip-base-offset", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    {"old-flip-base-offset-high", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    {"old-flip-length-high", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    {"old-flip-length-low", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    {"old-flip-magic", {{"rp0", {Outcome::cut, 160}}, {"*", {Outcome::whole}}}},
    // A missing segment is never a silent gap.
    {"log-missing-middle-with-indexes-left", {{"rp0", {Outcome::cut, 110}}, {"*", {Outcome::offline}}}},
    {"segment-missing-middle", {{"rp0", {Outcome::cut, 110}}, {"*", {Outcome::offline}}}},
    {"segment-extra-empty-past-gap", {{"*", {Outcome::cut, 730}}}},
    // The first segment was on its way out; in Kafka's directory no stored start says so.
    {"files-deleted", {{"*", {Outcome::whole, 730, 110}}}},
};

Expectation expected(const std::string& name, const std::string& mode) {
  auto row = kExpected.find(name);
  if (row == kExpected.end() && name.starts_with("tail-cut-")) row = kExpected.find("tail-cut");
  if (row == kExpected.end()) return {Outcome::whole};
  auto column = row->second.find(mode);
  return column != row->second.end() ? column->second : row->second.at("*");
}

// Position and offsets of every batch of the undamaged partition, by the bytes behind its leader epoch.
std::map<int64_t, std::string> batchesOf(FileSystem& files, const std::string& directory) {
  std::map<int64_t, std::string> batches;
  for (const DirectoryEntry& entry : files.list(directory)) {
    auto name = parseFileName(entry.name);
    if (!name || name->suffix != kLogSuffix) continue;
    FileRef log = files.open(directory + "/" + entry.name, OpenMode::read);
    scanSegment(*log, name->base, {.nextOffset = name->base}, [&](const record::BatchView& batch, uint64_t) {
      batches[batch.baseOffset().value()] = std::string(asText(batch.whole().subspan(record::Layout::kMagic)));
    });
  }
  return batches;
}

bool hasCut(FileSystem& files, const std::string& directory) {
  for (const DirectoryEntry& entry : files.list(directory)) {
    if (entry.name.ends_with(kCutSuffix)) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("recovery: each damaged partition of Kafka ends as designed: nothing invented, nothing dropped silently") {
  auto files = realFileSystem();
  std::vector<nlohmann::json> cases;
  for (const std::string& line : test::expectedLines("unclean")) {
    auto one = nlohmann::json::parse(line);
    if (one["type"] == "damage" && !one.contains("note")) cases.push_back(std::move(one));
  }
  REQUIRE(cases.size() > 150);
  Fixture unclean("unclean-damaged"), clean("clean-damaged");
  const auto undamaged = batchesOf(*files, unclean / "u-0");
  REQUIRE(undamaged.size() > 50);

  for (const auto& one : cases) {
    std::string name = one["case"], mode = one["mode"];
    INFO(name, " ", mode);
    Fixture* fixture = mode == "clean" ? &clean : &unclean;
    std::string directory = *fixture / (std::string(one["dir"]) + "-" + mode);
    std::filesystem::copy(*fixture / std::string(one["dir"]), directory);

    RecoverySettings settings{
        .clean = mode == "clean", .mark = Offset(int64_t(one["recoveryPoint"])), .now = WallMs(1)};
    if (name == "files-deleted") settings.start = Offset(110);
    RecoveredLog log = recoverLog(*files, directory, settings);
    Expectation want = expected(name, mode);
    std::string notes;
    for (const std::string& note : log.notes) notes += note + "\n";
    INFO("damage: ", log.damage.value_or("none"), "\nnotes:\n", notes);

    CHECK((want.outcome == Outcome::offline) == log.damage.has_value());
    if (log.damage) {
      CHECK(log.damage->find(directory) != std::string::npos);
      continue;
    }
    CHECK(log.end == Offset(want.end));
    CHECK(log.start == Offset(want.start));
    CHECK((want.outcome == Outcome::cut) == hasCut(*files, directory));
    if (want.outcome == Outcome::cut) CHECK_FALSE(log.notes.empty());

    // Every batch is one of the undamaged partition. (What is damaged below the mark is for scrubbing and readers.)
    bool damagedBelow =
        (name.starts_with("old-flip") && mode != "rp0") || (name == "active-flip-record-byte" && mode == "clean");
    int64_t next = want.start;
    for (const RecoveredSegment& segment : log.segments) {
      FileRef file = files->open(filePath(directory, segment.facts.base, kLogSuffix), OpenMode::read);
      CHECK(file->size() == segment.facts.size);
      CHECK(segment.facts.base == Offset(next));
      next = segment.facts.end.value();
      if (damagedBelow) continue;
      int64_t offset = segment.facts.base.value();
      ScanResult scan = scanSegment(*file, segment.facts.base, {.nextOffset = segment.facts.base},
                                    [&](const record::BatchView& batch, uint64_t) {
                                      auto original = undamaged.find(batch.baseOffset().value());
                                      CHECK(batch.baseOffset() == Offset(offset));
                                      REQUIRE(original != undamaged.end());
                                      CHECK(original->second == asText(batch.whole().subspan(record::Layout::kMagic)));
                                      offset = batch.nextOffset().value();
                                    });
      CHECK(scan.stop == ScanStop::end);
      CHECK(offset == next);
    }
    CHECK(next == want.end);

    // Indexes and the rest are derived: after a second look at the result nothing is left to mend.
    RecoveredLog again = recoverLog(*files, directory, {.mark = log.end, .start = settings.start, .now = WallMs(1)});
    CHECK_FALSE(again.damage.has_value());
    CHECK(again.end == log.end);
    CHECK(again.cutBytes == 0);
    CHECK(again.producers.size() == log.producers.size());
    if (!log.epochsChanged) CHECK(again.epochs.entries() == log.epochs.entries());
  }
}

// Kafka stops, or takes the whole log directory offline, for most of these.
TEST_CASE("recovery: damaged partition.metadata and epoch checkpoints are written anew, another topic's are an error") {
  auto files = realFileSystem();
  Fixture fixture("clean-damaged");
  const std::string good = files->readFile(fixture / "u-0/partition.metadata", 1000);
  const TopicId topic = *decodePartitionMetadata(good);
  struct Case {
    std::string_view file, content, damage;
  };
  for (const Case& one :
       {Case{"partition.metadata", "", ""}, Case{"partition.metadata", "gar\x01\xff\n", ""},
        Case{"partition.metadata", "version: 1\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", ""},
        Case{"partition.metadata", "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ", "belongs to topic id"},
        Case{"leader-epoch-checkpoint", "", ""}, Case{"leader-epoch-checkpoint", "gar\x01\xff\n", ""}}) {
    INFO(one.file, " ", one.content);
    std::string directory = fixture / "case";
    std::filesystem::copy(fixture / "u-0", directory);
    FileRef file = files->open(directory + "/" + std::string(one.file), OpenMode::create);
    file->truncate(0);
    if (!one.content.empty()) file->write(0, asBytes(one.content));
    RecoverySettings settings{.topic = topic, .clean = true, .mark = Offset(730), .now = WallMs(1)};
    RecoveredLog log = recoverLog(*files, directory, settings);
    CHECK(log.damage.has_value() == !one.damage.empty());
    if (log.damage) CHECK(log.damage->find(one.damage) != std::string::npos);
    if (!log.damage) {
      CHECK(log.end == Offset(730));
      CHECK_FALSE(log.epochs.entries().empty());
      CHECK(files->readFile(directory + "/partition.metadata", 1000) == good);
    }
    std::filesystem::remove_all(directory);
  }
}

TEST_CASE("recovery: transaction indexes that are missing or damaged are made anew, byte for byte Kafka's") {
  auto files = realFileSystem();
  size_t compared = 0;
  for (const char* dir : {"txn-0", "txn-1", "txn2-0"}) {
    for (std::string_view with : {"nothing", "garbage", "half"}) {
      INFO(dir, " ", with);
      Fixture fixture("txn");
      std::string directory = fixture / dir;
      std::map<Offset, std::string> before;
      Offset end;
      for (const DirectoryEntry& entry : files->list(directory)) {
        auto name = parseFileName(entry.name);
        if (!name || name->suffix != kLogSuffix) continue;
        std::string problem;
        end = inspectSegment(*files, directory, name->base, &problem).end;
        std::string index = filePath(directory, name->base, kTransactionIndexSuffix);
        before[name->base] = files->exists(index) ? files->readFile(index, 1 << 20) : "";
        if (before[name->base].empty()) continue;
        ++compared;
        if (with == "nothing") files->remove(index);
        if (with == "garbage") files->replaceFile(index, std::string(before[name->base].size(), 'x'));
        if (with == "half") files->replaceFile(index, before[name->base].substr(0, 20));
      }
      RecoveredLog log = recoverLog(*files, directory, {.clean = true, .mark = end, .now = WallMs(1)});
      CHECK_FALSE(log.damage.has_value());
      for (const RecoveredSegment& segment : log.segments) {
        if (segment.facts.size == 0) continue;
        const std::string& was = before[segment.facts.base];
        CHECK(segment.aborted == was.size() / 34);
        CHECK(files->readFile(filePath(directory, segment.facts.base, kTransactionIndexSuffix), 1 << 20) == was);
      }
    }
  }
  CHECK(compared >= 9);
}
