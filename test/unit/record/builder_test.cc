#include "record/builder.h"

#include <doctest/doctest.h>

#include "vectors.h"

using namespace mq;
using namespace mq::record;
using namespace mq::record::test;

TEST_CASE("what was built reads back equal, for every codec") {
  Workspace workspace;
  Prng random(12);
  for (int round = 0; round < 30; ++round) {
    std::vector<ExpectedRecord> records =
        randomRecords(random, static_cast<int64_t>(random.below(1'000'000)), 60, 5000);
    for (Codec codec : {Codec::none, Codec::gzip, Codec::snappy, Codec::lz4, Codec::zstd}) {
      Buffer bytes = buildBatch(records, codec, workspace);
      BatchView batch(bytes);
      CHECK(nextBatch(bytes).batch.size() == bytes.size());
      CHECK(batch.crcOk());
      CHECK(batch.codec() == codec);
      CHECK(batch.recordCount() == static_cast<int32_t>(records.size()));
      CHECK(batch.lastOffset() == Offset(records.back().offset));
      CHECK(recordsOf(batch, workspace) == records);
    }
  }
}

TEST_CASE("an uncompressed batch is byte for byte what Kafka builds") {
  Workspace workspace;
  std::vector<BatchVector> vectors = batchVectors();
  for (const char* name : {"codec-none", "codec-many-none", "codec-one-empty-none"}) {
    CAPTURE(name);
    const BatchVector& vector = batchVector(vectors, name);
    CHECK(buildBatch(vector.batches[0].records, Codec::none, workspace) == vector.bytes);
  }
}

TEST_CASE("transaction markers are byte for byte what Kafka builds") {
  std::vector<BatchVector> vectors = batchVectors();
  for (const char* name : {"control-abort", "control-commit"}) {
    CAPTURE(name);
    const ExpectedBatch& expected = batchVector(vectors, name).batches[0];
    Buffer marker = endTxnMarker(expected.controlType == "COMMIT" ? ControlType::commit : ControlType::abort,
                                 ProducerId(expected.producerId), static_cast<int16_t>(expected.producerEpoch),
                                 expected.coordinatorEpoch, WallMs(expected.maxTimestamp), Offset(expected.baseOffset));
    setLeaderEpoch(marker, LeaderEpoch(expected.leaderEpoch));
    CHECK(marker == batchVector(vectors, name).bytes);
  }
}

TEST_CASE("a builder goes on where its last batch ended") {
  Workspace workspace;
  BatchBuilder builder(
      {.baseOffset = Offset(10), .producerId = ProducerId(5), .producerEpoch = 0, .baseSequence = INT32_MAX});
  builder.add({.timestamp = WallMs(3), .value = asBytes("a")});
  builder.add({.timestamp = WallMs(2), .value = asBytes("b")});
  CHECK(builder.recordCount() == 2);
  Buffer first = builder.build(workspace);
  CHECK(BatchView(first).maxTimestamp() == WallMs(3));
  CHECK(BatchView(first).lastSequence() == 0);
  CHECK(builder.empty());
  builder.add({.timestamp = WallMs(1), .value = asBytes("c")});
  Buffer second = builder.build(workspace);
  CHECK(BatchView(second).baseOffset() == Offset(12));
  CHECK(BatchView(second).baseSequence() == 1);
  CHECK(BatchView(second).baseTimestamp() == WallMs(1));
}

TEST_CASE("offsets can be left out, before, between and after the records, and a batch can be empty") {
  Workspace workspace;
  BatchBuilder builder({.baseOffset = Offset(100)});
  builder.addAt(Offset(103), {.timestamp = WallMs(1), .value = asBytes("a")});
  builder.addAt(Offset(110), {.timestamp = WallMs(1), .value = asBytes("b")});
  builder.setLastOffset(Offset(119));
  Buffer gaps = builder.build(workspace);
  std::vector<ExpectedRecord> records = recordsOf(BatchView(gaps), workspace);
  REQUIRE(records.size() == 2);
  CHECK(records[0].offset == 103);
  CHECK(records[1].offset == 110);
  CHECK(BatchView(gaps).lastOffset() == Offset(119));

  builder.setLastOffset(Offset(129));
  Buffer empty = builder.build(workspace);
  CHECK(BatchView(empty).baseOffset() == Offset(120));
  CHECK(BatchView(empty).nextOffset() == Offset(130));
  CHECK(recordsOf(BatchView(empty), workspace).empty());
}

TEST_CASE("copied records keep offset, time, attributes and headers") {
  Workspace workspace;
  const BatchVector vector = batchVector(batchVectors(), "codec-none");
  Buffer source = vector.bytes;
  Result<RecordReader> reader = openRecords(BatchView(source), workspace);
  REQUIRE(reader.has_value());
  BatchBuilder builder({.baseOffset = Offset(0)});
  RecordView record;
  while (reader->next(record)) {
    record.attributes = 42;
    if (record.offset != Offset(2)) builder.addCopy(record);
  }
  Workspace other;
  Buffer copy = builder.build(other);
  std::vector<ExpectedRecord> expected = vector.batches[0].records;
  expected.erase(expected.begin() + 2);
  CHECK(recordsOf(BatchView(copy), other) == expected);
  Result<RecordReader> again = openRecords(BatchView(copy), other);
  REQUIRE(again->next(record));
  CHECK(record.attributes == 42);
}

TEST_CASE("a record never takes more room than announced") {
  Workspace workspace;
  Prng random(13);
  for (int round = 0; round < 200; ++round) {
    ExpectedRecord made = randomRecords(random, 0, 1, 3000).front();
    std::vector<HeaderView> headers;
    for (const auto& [key, value] : made.headers)
      headers.push_back({key, value ? std::optional<Bytes>(*value) : std::nullopt});
    NewRecord record{.timestamp = WallMs(made.timestamp), .headers = headers};
    if (made.key) record.key = *made.key;
    if (made.value) record.value = *made.value;
    BatchBuilder builder;
    size_t before = builder.plainSizeBytes();
    builder.add(record);
    CHECK(builder.plainSizeBytes() - before <= BatchBuilder::sizeOf(record));
    CHECK(builder.plainSizeBytes() == builder.build(workspace).size());
  }
}
