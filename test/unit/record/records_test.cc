#include "record/records.h"

#include <set>

#include <doctest/doctest.h>

#include "record/builder.h"
#include "vectors.h"

using namespace mq;
using namespace mq::record;
using namespace mq::record::test;

TEST_CASE("every record of the vectors reads as Kafka reads it, and what Kafka cannot read we cannot") {
  // We look at the bytes behind the last record also when a batch says that it has none.
  const std::set<std::string> stricter = {"record-count-0-of-2"};
  Workspace workspace;
  size_t checked = 0;
  for (const BatchVector& vector : batchVectors()) {
    for (const ExpectedBatch& expected : vector.batches) {
      CAPTURE(vector.name);
      NextBatch next = nextBatch(Bytes(vector.bytes).subspan(expected.position));
      if (next.kind == NextBatch::Kind::bad) continue;  // older formats, or shorter than a header
      BatchView batch(next.batch);
      if (!batch.crcOk()) {
        CHECK(expected.hasError);
        continue;
      }
      Result<RecordReader> reader = openRecords(batch, workspace);
      std::vector<ExpectedRecord> records;
      RecordView record;
      while (reader && reader->next(record)) records.push_back(copyOf(record));
      bool ok = reader && reader->ok();
      if (batch.isControl() && expected.hasError) continue;  // a data record that says it is one of control
      CHECK(ok == (!expected.hasError && !stricter.contains(vector.name)));
      if (expected.hasError || !ok) continue;
      // The vectors are text, which cannot show a header key that is none; we keep its bytes.
      if (vector.name == "header-key-bad-utf8") continue;
      CHECK(records == expected.records);
      checked += records.size();
    }
  }
  CHECK(checked > 1000);
}

TEST_CASE("null and empty keys, values and header values stay apart") {
  Workspace workspace;
  std::vector<HeaderView> headers = {{"", Bytes()}, {"null", std::nullopt}, {"", std::nullopt}};
  BatchBuilder builder;
  builder.add({.key = std::nullopt, .value = Bytes()});
  builder.add({.key = Bytes(), .value = std::nullopt, .headers = headers});
  Buffer bytes = builder.build(workspace);
  std::vector<ExpectedRecord> records = recordsOf(BatchView(bytes), workspace);
  REQUIRE(records.size() == 2);
  CHECK_FALSE(records[0].key.has_value());
  CHECK(records[0].value == Buffer());
  CHECK(records[1].key == Buffer());
  CHECK_FALSE(records[1].value.has_value());
  REQUIRE(records[1].headers.size() == 3);
  CHECK(records[1].headers[0].second == Buffer());
  CHECK(records[1].headers[1].first == "null");
  CHECK_FALSE(records[1].headers[1].second.has_value());
}

TEST_CASE("control records of the vectors read back") {
  Workspace workspace;
  std::vector<BatchVector> vectors = batchVectors();
  Result<ControlRecord> commit = readControlRecord(BatchView(batchVector(vectors, "control-commit").bytes), workspace);
  REQUIRE(commit.has_value());
  CHECK(commit->type == ControlType::commit);
  CHECK(commit->coordinatorEpoch == 11);
  Result<ControlRecord> abort = readControlRecord(BatchView(batchVector(vectors, "control-abort").bytes), workspace);
  REQUIRE(abort.has_value());
  CHECK(abort->type == ControlType::abort);
  CHECK(abort->coordinatorEpoch == batchVector(vectors, "control-abort").batches[0].coordinatorEpoch);
  for (const char* name : {"control-flag-on-data", "codec-none"}) {
    CHECK(readControlRecord(BatchView(batchVector(vectors, name).bytes), workspace).errorCode() ==
          Error::corruptMessage);
  }
}

TEST_CASE("a reader stays at the end once it stopped") {
  Workspace workspace;
  const BatchVector vector = batchVector(batchVectors(), "record-count-3-of-2");
  Result<RecordReader> reader = openRecords(BatchView(vector.bytes), workspace);
  REQUIRE(reader.has_value());
  RecordView record;
  CHECK(reader->next(record));
  CHECK(reader->next(record));
  CHECK_FALSE(reader->next(record));
  CHECK(reader->problem() == "a batch has fewer records than it says");
  CHECK_FALSE(reader->next(record));
  CHECK_FALSE(reader->ok());
}

TEST_CASE("any cut or changed byte of the records is either refused or read without a step outside") {
  Workspace workspace;
  Prng random(20261130);
  for (int round = 0; round < 40; ++round) {
    std::vector<ExpectedRecord> records = randomRecords(random, 0, 12, 400);
    Buffer good = buildBatch(records, Codec::none, workspace);
    for (int change = 0; change < 60; ++change) {
      // A fresh copy of exact size, so that a step outside is one outside of the allocation.
      Buffer plain(good.begin() + Layout::kRecords, good.end());
      size_t at = random.below(plain.size());
      bool cut = random.chance(1, 3);
      if (cut) {
        plain.resize(at);
        plain.shrink_to_fit();
      } else {
        plain[at] = static_cast<uint8_t>(random.next());
      }
      RecordReader reader{BatchView(good), plain};
      RecordView record;
      size_t bytesSeen = 0;
      while (reader.next(record)) {
        ExpectedRecord copy = copyOf(record);
        bytesSeen += record.sizeBytes;
      }
      CHECK(bytesSeen <= plain.size());
      if (cut) CHECK_FALSE(reader.ok());
    }
  }
}
