#include "storage/log_reader.h"

#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "base/crc32c.h"
#include "fixtures.h"
#include "record/records.h"
#include "runtime/uv/file_system.h"
#include "storage/checkpoint.h"
#include "storage/segment_scan.h"

using namespace mq;
using namespace mq::storage;
using namespace mq::storage::test;
using Json = nlohmann::ordered_json;

namespace {

const char* const kHealthy[] = {"plain",
                                "txn",
                                "compact-1-before",
                                "compact-2-cleaned",
                                "compact-3-tombstones-gone",
                                "delrec",
                                "epochs",
                                "internal-1",
                                "internal-2-expired",
                                "metadata",
                                "unclean-killed",
                                "replicas-node1",
                                "replicas-node2",
                                "replicas-node3"};

Json base64(const std::optional<Bytes>& bytes) {
  if (!bytes) return nullptr;
  static constexpr char kLetters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t at = 0; at < bytes->size(); at += 3) {
    size_t count = std::min<size_t>(3, bytes->size() - at);
    uint32_t word = 0;
    for (size_t i = 0; i < 3; ++i) word = word << 8 | (i < count ? (*bytes)[at + i] : 0);
    for (size_t i = 0; i < 4; ++i) text += i <= count ? kLetters[word >> (18 - 6 * i) & 63] : '=';
  }
  return text;
}

Json describeRecords(const record::BatchView& batch, record::Workspace& workspace) {
  Json list = Json::array();
  auto records = record::openRecords(batch, workspace);
  REQUIRE(records.has_value());
  record::RecordView record;
  while (records->next(record)) {
    Json entry = {{"o", record.offset.value()},
                  {"t", record.timestamp.value()},
                  {"k", base64(record.key)},
                  {"v", base64(record.value)}};
    if (!record.headers.empty()) {
      entry["h"] = Json::array();
      for (record::HeaderView header : record.headers)
        entry["h"].push_back(Json::array({std::string(header.key), base64(header.value)}));
    }
    list.push_back(entry);
  }
  CHECK(records->problem() == "");
  return list;
}

Json describeBatch(const LogReader::DumpedBatch& dumped, record::Workspace& workspace) {
  const record::BatchView& batch = dumped.batch;
  Json horizon;
  if (auto time = batch.deleteHorizon()) horizon = time->value();
  return {{"position", dumped.position},
          {"size", batch.sizeBytes()},
          {"baseOffset", batch.baseOffset().value()},
          {"lastOffset", batch.lastOffset().value()},
          {"count", batch.recordCount()},
          {"magic", batch.magic()},
          {"leaderEpoch", batch.leaderEpoch().value()},
          {"producerId", batch.producerId().value()},
          {"producerEpoch", batch.producerEpoch()},
          {"baseSequence", batch.baseSequence()},
          {"lastSequence", batch.lastSequence()},
          {"attributes", batch.attributes()},
          {"codec", std::string(nameOf(batch.codec()))},
          {"timestampType", batch.isLogAppendTime() ? "append" : "create"},
          {"transactional", batch.isTransactional()},
          {"control", batch.isControl()},
          {"baseTimestamp", batch.baseTimestamp().value()},
          {"maxTimestamp", batch.maxTimestamp().value()},
          {"deleteHorizon", horizon},
          {"crc", batch.crc()},
          {"valid", dumped.good},
          {"records", describeRecords(batch, workspace)}};
}

// What the reader says about one directory, in the words of expected/*.jsonl: file name to its objects.
std::map<std::string, std::vector<Json>> describe(LogReader& reader) {
  std::map<std::string, std::vector<Json>> files;
  record::Workspace workspace;
  for (const LogFileName& file : reader.files()) {
    std::vector<Json>& lines = files[file.name];
    Json entries = Json::array();
    switch (file.kind) {
      case LogFileKind::log:
      case LogFileKind::metadataSnapshot: {
        auto summary = reader.readLog(
            file, [&](const LogReader::DumpedBatch& dumped) { lines.push_back(describeBatch(dumped, workspace)); });
        lines.push_back({{"size", summary.size},
                         {"batchCount", summary.batches},
                         {"iterableBytes", summary.size - summary.trailingBytes},
                         {"trailingBytes", summary.trailingBytes},
                         {"badBatches", summary.badBatches}});
        break;
      }
      case LogFileKind::offsetIndex:
        for (auto& entry : reader.readOffsetIndex(file, true))
          entries.push_back({entry.offset.value(), entry.position});
        lines.push_back({{"size", file.size}, {"entries", entries}});
        break;
      case LogFileKind::timeIndex:
        for (auto& entry : reader.readTimeIndex(file, true))
          entries.push_back({entry.timestamp.value(), entry.offset.value()});
        lines.push_back({{"size", file.size}, {"entries", entries}});
        break;
      case LogFileKind::transactionIndex:
        for (auto& entry : reader.readTransactionIndex(file)) {
          entries.push_back({{"producerId", entry.producer.value()},
                             {"firstOffset", entry.first.value()},
                             {"lastOffset", entry.last.value()},
                             {"lastStableOffset", entry.lastStable.value()}});
        }
        lines.push_back({{"size", file.size}, {"entries", entries}});
        break;
      case LogFileKind::snapshot:
        for (auto& [id, producer] : reader.readSnapshot(file).producers()) {
          Json first;
          if (producer.inTransaction()) first = producer.transactionFirst.value();
          Json entry = {{"producerId", id.value()},
                        {"producerEpoch", producer.epoch},
                        {"coordinatorEpoch", producer.coordinatorEpoch},
                        {"currentTxnFirstOffset", first},
                        {"lastTimestamp", producer.timestamp.value()}};
          if (producer.batchCount > 0) {
            const ProducerState::Batch& batch = producer.batches[0];
            entry.update({{"firstSequence", batch.firstSequence()},
                          {"lastSequence", batch.lastSequence},
                          {"lastOffset", batch.lastOffset.value()},
                          {"offsetDelta", batch.offsetDelta},
                          {"timestamp", batch.timestamp.value()}});
          }
          entries.push_back(entry);
        }
        lines.push_back({{"size", file.size}, {"entries", entries}});
        break;
      case LogFileKind::leaderEpochs: {
        for (auto& entry : reader.readLeaderEpochs(file).entries())
          entries.push_back({entry.epoch.value(), entry.start.value()});
        lines.push_back({{"size", file.size}, {"entries", entries}});
        break;
      }
      case LogFileKind::partitionMetadata:
        lines.push_back(
            {{"size", file.size}, {"version", "0"}, {"topicId", reader.readPartitionMetadata(file)->toString()}});
        break;
      default: break;
    }
  }
  return files;
}

// Kafka lists the producers of a snapshot in the order of its hash map.
void sortProducers(Json& line) {
  if (line["type"] != "snapshot") return;
  std::vector<Json> entries = line["entries"];
  std::ranges::sort(entries, {}, [](const Json& entry) { return entry["producerId"].get<int64_t>(); });
  line["entries"] = entries;
}

struct Consumed {
  uint64_t count = 0;
  uint32_t digest = 0;
  Json runs = Json::array();
};

// What a consumer from `start` gets, by batches, producer state and transaction indexes alone.
Consumed consume(LogReader& reader, Offset start, bool committed, Offset* stable) {
  record::Workspace workspace;
  ProducerState producers;
  std::vector<AbortedTransaction> aborted;
  Offset end{0};
  for (const LogFileName& file : reader.files()) {
    if (file.kind == LogFileKind::transactionIndex)
      for (auto& entry : reader.readTransactionIndex(file)) aborted.push_back(entry);
    if (file.kind != LogFileKind::log) continue;
    end =
        reader.readLog(file, [&](const LogReader::DumpedBatch& dumped) { replay(producers, dumped.batch, workspace); })
            .nextOffset;
  }
  *stable = producers.firstOpen().value_or(end);
  Offset upper = committed ? *stable : end;
  std::vector<AbortedTransaction> overlapping;
  collectAborted(aborted, start, upper, overlapping);

  Consumed consumed;
  std::vector<std::pair<int64_t, int64_t>> runs;
  for (const LogFileName& file : reader.files()) {
    if (file.kind != LogFileKind::log) continue;
    reader.readLog(file, [&](const LogReader::DumpedBatch& dumped) {
      const record::BatchView& batch = dumped.batch;
      if (batch.isControl() || batch.lastOffset() < start || batch.baseOffset() >= upper) return;
      if (committed && batch.isTransactional()) {
        for (auto& entry : overlapping) {
          if (entry.producer == batch.producerId() && batch.baseOffset() >= entry.first &&
              batch.baseOffset() < entry.last)
            return;
        }
      }
      auto records = record::openRecords(batch, workspace);
      REQUIRE(records.has_value());
      record::RecordView record;
      while (records->next(record)) {
        if (record.offset < start) continue;
        Buffer bytes;
        ByteWriter writer(bytes);
        writer.int64(record.offset.value());
        writer.int64(record.timestamp.value());
        for (auto& field : {record.key, record.value}) {
          writer.int32(field ? static_cast<int32_t>(field->size()) : -1);
          if (field) writer.bytes(*field);
        }
        consumed.digest = crc32c(bytes, consumed.digest);
        ++consumed.count;
        int64_t offset = record.offset.value();
        if (!runs.empty() && runs.back().second == offset - 1)
          runs.back().second = offset;
        else
          runs.push_back({offset, offset});
      }
    });
  }
  for (auto& run : runs) consumed.runs.push_back({run.first, run.second});
  return consumed;
}

}  // namespace

TEST_CASE("the offline reader says of Kafka's files what Kafka says") {
  auto files = realFileSystem();
  for (const char* name : kHealthy) {
    CAPTURE(name);
    Fixture fixture(name);
    std::map<std::string, std::unique_ptr<LogReader>> readers;
    std::map<std::string, std::map<std::string, std::vector<Json>>> described;
    std::map<std::pair<std::string, std::string>, size_t> taken;
    size_t compared = 0;
    for (const std::string& text : expectedLines(name)) {
      Json expected = Json::parse(text);
      std::string type = expected["type"];
      if (type == "checkpoint") {
        auto checkpoint = decodeCheckpoint(files->readFile(fixture / expected["file"].get<std::string>(), 1 << 20));
        REQUIRE(checkpoint.has_value());
        std::set<Json> theirs, ours;
        for (auto& entry : expected["entries"]) theirs.insert(entry);
        for (auto& [partition, offset] : *checkpoint)
          ours.insert(Json::array({partition.topic, partition.partition, offset.value()}));
        CHECK(ours == theirs);
        continue;
      }
      if (!expected.contains("dir") || type == "dir") continue;
      std::string dir = expected["dir"];
      if (!readers.contains(dir)) {
        readers[dir] = std::make_unique<LogReader>(*files, fixture / dir);
        described[dir] = describe(*readers[dir]);
      }
      if (type == "consumer") {
        bool committed = expected["isolation"] == "read_committed";
        Offset stable;
        Consumed consumed = consume(*readers[dir], Offset(expected["start"].get<int64_t>()), committed, &stable);
        CAPTURE(text);
        CHECK(consumed.count == expected["count"]);
        CHECK(consumed.digest == expected["digest"]);
        CHECK(consumed.runs == expected["runs"]);
        if (committed) CHECK(stable.value() == expected["end"]);
        continue;
      }
      std::string file = expected["file"];
      if (type == "other") continue;
      CAPTURE(dir);
      CAPTURE(file);
      auto& lines = described[dir][file];
      size_t& at = taken[{dir, file}];
      REQUIRE(at < lines.size());
      Json& ours = lines[at++];
      sortProducers(expected);
      if (type == "batch") {
        for (Json& record : expected["records"]) record.erase("decoded");
      }
      // Of a preallocated index that is all zeros Kafka's tool prints one entry.
      if (type.ends_with("index") && expected["size"] > 1'000'000 && ours["entries"].empty())
        expected["entries"] = Json::array();
      for (auto& [key, value] : ours.items()) {
        CAPTURE(key);
        CHECK(value.dump() == expected[key].dump());
      }
      ++compared;
    }
    CHECK(compared > 10);
    for (auto& [dir, byFile] : described) {
      for (auto& [file, lines] : byFile) {
        size_t seen = taken[std::pair(dir, file)];
        CHECK_MESSAGE(seen == lines.size(), dir << "/" << file);
      }
    }
  }
}

TEST_CASE("a whole data directory reads as Kafka's brief listing has it, and verifies without a problem") {
  auto files = realFileSystem();
  Fixture fixture("datadir");
  size_t compared = 0;
  std::set<std::string> verified;
  for (const std::string& text : expectedLines("datadir")) {
    Json expected = Json::parse(text);
    if (!expected.contains("dir")) continue;
    LogReader reader(*files, fixture / expected["dir"].get<std::string>());
    if (verified.insert(expected["dir"]).second) {
      CAPTURE(expected["dir"].dump());
      reader.verify();
      std::string problems;
      for (auto& problem : reader.problems()) problems += problem.file + ": " + problem.what + "\n";
      CHECK(problems == "");
    }
    if (expected["type"] != "log") continue;
    auto file = std::ranges::find(reader.files(), expected["file"].get<std::string>(), &LogFileName::name);
    REQUIRE(file != reader.files().end());
    Json batches = Json::array();
    reader.readLog(*file, [&](const LogReader::DumpedBatch& dumped) {
      batches.push_back({dumped.batch.baseOffset().value(), dumped.batch.lastOffset().value(), dumped.position,
                         dumped.batch.sizeBytes()});
    });
    CHECK(batches.dump() == expected["batches"].dump());
    ++compared;
  }
  CHECK(compared > 20);
}

TEST_CASE("verifying names what is wrong in a damaged directory, and where") {
  auto files = realFileSystem();
  Fixture fixture("unclean-killed");
  std::string log = fixture / "u-0/00000000000000000110.log";
  auto problemsOf = [&] {
    LogReader reader(*files, fixture / "u-0");
    reader.verify();
    return reader.problems();
  };
  REQUIRE(problemsOf().empty());

  SUBCASE("a flipped bit in the records of one batch is one problem") {
    FileRef file = files->open(log, OpenMode::readWrite);
    uint8_t byte = 0;
    file->read(5700, MutableBytes(&byte, 1));
    byte ^= 0x10;
    file->write(5700, Bytes(&byte, 1));
    auto problems = problemsOf();
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].file == "00000000000000000110.log");
    CHECK(problems[0].position == 5616);
    CHECK(problems[0].what == "the checksum is wrong");
  }
  SUBCASE("a missing segment is named by its offsets") {
    files->remove(log);
    auto problems = problemsOf();
    REQUIRE(problems.size() == 3);
    CHECK(problems[0].file == "00000000000000000220.log");
    CHECK(problems[0].what == "offsets 110 to 219 are missing before it");
    CHECK(problems[1].what == "an index without its log");
  }
  SUBCASE("a torn tail") {
    files->open(log, OpenMode::readWrite)->truncate(15000);
    auto problems = problemsOf();
    REQUIRE(!problems.empty());
    CHECK(problems[0].position == 14168);
    CHECK(problems[0].what == "832 bytes behind the last whole batch: a batch of 1392 bytes, of which 832 are there");
  }
  SUBCASE("an index entry that points elsewhere") {
    FileRef file = files->open(fixture / "u-0/00000000000000000110.index", OpenMode::readWrite);
    uint8_t byte = 0x61;
    file->write(7, Bytes(&byte, 1));
    auto problems = problemsOf();
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].what.starts_with("entry 0: no batch that ends with 129 begins at "));
  }
}

TEST_CASE("indexes that a killed broker had only set space aside for are no problem") {
  auto files = realFileSystem();
  Fixture fixture("unclean-killed");
  for (const char* name : {"u-0", "ucompact-0", "udef-0"}) {
    LogReader reader(*files, fixture / name);
    reader.verify();
    CAPTURE(name);
    CHECK(reader.problems().empty());
  }
}
