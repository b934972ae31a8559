#include "record/validate.h"

#include <map>

#include <doctest/doctest.h>

#include "record/builder.h"
#include "vectors.h"

using namespace mq;
using namespace mq::record;
using namespace mq::record::test;

namespace {

constexpr WallMs kNow{1'764'460'800'000};  // when the broker was asked, about

ValidationRules rules() { return {.now = kNow}; }

Buffer small(const char* key, int64_t timestamp, Workspace& workspace) {
  BatchBuilder builder;
  builder.add({.timestamp = WallMs(timestamp), .key = asBytes("k"), .value = asBytes("v")});
  builder.add({.timestamp = WallMs(timestamp + 5), .key = key ? std::optional(asBytes(key)) : std::nullopt});
  builder.add({.timestamp = WallMs(timestamp + 5), .key = asBytes("last"), .value = asBytes("v")});
  return builder.build(workspace);
}

}  // namespace

TEST_CASE("a produced batch is taken or refused as Kafka does, but for the cases named here") {
  const std::map<std::string, std::string> refusedThoughKafkaStores = {
      {"transactional-without-producer", "nobody could ever end such a transaction"},
      {"offset-delta-starts-at-1", "the record's offset is outside of the batch's"},
      {"offset-delta-negative", "the same"},
      {"offset-deltas-repeat", "two records with one offset"},
      {"offset-deltas-backwards", "offsets go back"},
  };
  Workspace workspace;
  size_t taken = 0, refused = 0;
  for (const BatchVector& vector : batchVectors()) {
    CAPTURE(vector.name);
    std::vector<RecordError> recordErrors;
    Result<BatchFacts> facts = validateProduceBatch(vector.bytes, rules(), workspace, &recordErrors);
    CAPTURE((facts ? "taken" : facts.failure().message));
    bool take = vector.produceError == 0 && !refusedThoughKafkaStores.contains(vector.name);
    REQUIRE(facts.has_value() == take);
    if (take) {
      ++taken;
      const ExpectedBatch& batch = vector.batches.front();
      CHECK(facts->sizeBytes == vector.bytes.size() - vector.ignoredTail);
      CHECK(facts->recordCount == batch.recordCount);
      CHECK(facts->timestampsDiffer == (!vector.storedAsSent && vector.ignoredTail == 0));
      continue;
    }
    ++refused;
    CHECK_FALSE(facts.failure().message.empty());
    std::vector<int32_t> indexes;
    for (const RecordError& error : recordErrors) indexes.push_back(error.index);
    CHECK(indexes == vector.recordErrors);
    // Kafka's own number where it has one: it says "unknown" for a payload its codec cannot read, and asked the
    // coordinator first for transactional ones.
    bool ours = vector.produceError == -1 || vector.produceError == 49 || vector.produceError == 0;
    CHECK(static_cast<int>(facts.errorCode()) == (ours ? 87 : vector.produceError));
  }
  CHECK(taken > 45);
  CHECK(refused > 90);
}

TEST_CASE("the facts name the first record with the largest time") {
  Workspace workspace;
  for (Codec codec : {Codec::none, Codec::gzip}) {
    BatchBuilder builder({.codec = codec});
    for (int64_t time : {100, 300, 200, 300, 150}) builder.add({.timestamp = WallMs(time), .value = asBytes("v")});
    Buffer batch = builder.build(workspace);
    Result<BatchFacts> facts = validateProduceBatch(batch, rules(), workspace);
    REQUIRE(facts.has_value());
    CHECK(facts->firstTimestamp == WallMs(100));
    CHECK(facts->lastTimestamp == WallMs(150));
    CHECK(facts->maxTimestamp == WallMs(300));
    CHECK(facts->maxTimestampOffsetDelta == 1);
    CHECK_FALSE(facts->timestampsDiffer);
  }
}

TEST_CASE("with append time all facts are now, and the producer's times are free") {
  Workspace workspace;
  ValidationRules appendTime = rules();
  appendTime.timestampType = TimestampType::logAppendTime;
  appendTime.timestampBeforeMaxMs = 10;
  Result<BatchFacts> facts = validateProduceBatch(small("k2", 5, workspace), appendTime, workspace);
  REQUIRE(facts.has_value());
  CHECK(facts->maxTimestamp == kNow);
  CHECK(facts->firstTimestamp == kNow);
  CHECK(facts->maxTimestampOffsetDelta == 0);
  CHECK(facts->timestampsDiffer);

  BatchBuilder pretending({.appendTime = WallMs(5)});
  pretending.add({.timestamp = WallMs(5)});
  CHECK(validateProduceBatch(pretending.build(workspace), appendTime, workspace).errorCode() ==
        Error::invalidTimestamp);
}

TEST_CASE("timestamps are held to their bounds on both sides, record by record") {
  Workspace workspace;
  ValidationRules bounded = rules();
  bounded.timestampBeforeMaxMs = 1000;
  bounded.timestampAfterMaxMs = 100;
  auto errorAt = [&](int64_t fromNow) {
    std::vector<RecordError> errors;
    BatchBuilder builder;
    builder.add({.timestamp = kNow});
    builder.add({.timestamp = kNow + fromNow});
    Result<BatchFacts> facts = validateProduceBatch(builder.build(workspace), bounded, workspace, &errors);
    if (facts) return Error::none;
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].index == 1);
    return facts.errorCode();
  };
  CHECK(errorAt(-1000) == Error::none);
  CHECK(errorAt(-1001) == Error::invalidTimestamp);
  CHECK(errorAt(100) == Error::none);
  CHECK(errorAt(101) == Error::invalidTimestamp);
  CHECK(errorAt(INT64_MAX - kNow.value()) == Error::invalidTimestamp);
  CHECK(errorAt(-1 - kNow.value()) == Error::none);  // -1: no time, as old clients send
}

TEST_CASE("a compacted topic wants keys, and an empty key is one") {
  Workspace workspace;
  ValidationRules compacted = rules();
  compacted.keyRequired = true;
  std::vector<RecordError> errors;
  CHECK(validateProduceBatch(small("", 5, workspace), compacted, workspace, &errors).has_value());
  Result<BatchFacts> facts = validateProduceBatch(small(nullptr, 5, workspace), compacted, workspace, &errors);
  CHECK(facts.errorCode() == Error::invalidRecord);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].index == 1);
  CHECK(validateProduceBatch(small(nullptr, 5, workspace), rules(), workspace).has_value());
}

TEST_CASE("among records at fault a timestamp decides what the batch gets, as in Kafka, wherever it stands") {
  Workspace workspace;
  ValidationRules compacted = rules();
  compacted.keyRequired = true;
  BatchBuilder builder;
  builder.add({.timestamp = kNow});
  builder.add({.timestamp = kNow + 10'000'000, .key = Bytes()});
  std::vector<RecordError> errors;
  Result<BatchFacts> facts = validateProduceBatch(builder.build(workspace), compacted, workspace, &errors);
  CHECK(facts.errorCode() == Error::invalidTimestamp);
  REQUIRE(errors.size() == 2);
  CHECK(errors[0].index == 0);
  CHECK(errors[1].index == 1);
}

TEST_CASE("the list of records at fault has an end") {
  Workspace workspace;
  BatchBuilder builder;
  for (int i = 0; i < 1000; ++i) builder.add({.timestamp = kNow + 10'000'000});
  std::vector<RecordError> errors;
  Buffer batch = builder.build(workspace);
  CHECK(validateProduceBatch(batch, rules(), workspace, &errors).errorCode() == Error::invalidTimestamp);
  CHECK(errors.size() == kRecordErrorsMax);
}

TEST_CASE("sizes are limited as sent and as decompressed") {
  Workspace workspace;
  BatchBuilder builder({.codec = Codec::zstd});
  Buffer zeros(1_MiB);
  builder.add({.timestamp = kNow, .value = Bytes(zeros)});
  Buffer batch = builder.build(workspace);
  REQUIRE(batch.size() < 1000);
  ValidationRules limited = rules();
  CHECK(validateProduceBatch(batch, limited, workspace).has_value());
  limited.batchBytesMax = batch.size();
  CHECK(validateProduceBatch(batch, limited, workspace).has_value());
  limited.batchBytesMax = batch.size() - 1;
  CHECK(validateProduceBatch(batch, limited, workspace).errorCode() == Error::messageTooLarge);
  limited = rules();
  limited.plainBytesMax = 1_MiB;
  CHECK(validateProduceBatch(batch, limited, workspace).errorCode() == Error::messageTooLarge);
}

TEST_CASE("zstd is refused where the client's Produce is too old for it") {
  Workspace workspace;
  ValidationRules old = rules();
  old.zstdAllowed = false;
  std::vector<BatchVector> vectors = batchVectors();
  CHECK(validateProduceBatch(batchVector(vectors, "codec-zstd").bytes, old, workspace).errorCode() ==
        Error::unsupportedCompressionType);
  CHECK(validateProduceBatch(batchVector(vectors, "codec-lz4").bytes, old, workspace).has_value());
}

TEST_CASE("whether a transactional producer may write here is not asked, only that it is one") {
  Workspace workspace;
  for (BatchVector& vector : batchVectors()) {
    if (!vector.name.starts_with("txn-")) continue;
    setBaseOffset(vector.bytes, Offset(0));
    CHECK(validateProduceBatch(vector.bytes, rules(), workspace).has_value());
  }
}

TEST_CASE("only the broker itself writes control batches") {
  Workspace workspace;
  Buffer marker = endTxnMarker(ControlType::commit, ProducerId(7), 1, 3, kNow);
  ValidationRules own = rules();
  own.origin = Origin::coordinator;
  CHECK(validateProduceBatch(marker, own, workspace).has_value());
  CHECK(validateProduceBatch(marker, rules(), workspace).errorCode() == Error::invalidRecord);
}

TEST_CASE("every built batch is taken, and every changed byte behind the leader epoch refused") {
  Workspace workspace;
  Prng random(11);
  for (int round = 0; round < 40; ++round) {
    for (Codec codec : {Codec::none, Codec::gzip, Codec::snappy, Codec::lz4, Codec::zstd}) {
      Buffer batch = buildBatch(randomRecords(random, 0, 30, 2000), codec, workspace);
      Result<BatchFacts> facts = validateProduceBatch(batch, rules(), workspace);
      REQUIRE_MESSAGE(facts.has_value(), facts.failure().message);
      size_t at = Layout::kMagic + random.below(batch.size() - Layout::kMagic);
      batch[at] ^= static_cast<uint8_t>(1 + random.below(255));
      CHECK_FALSE(validateProduceBatch(batch, rules(), workspace).has_value());
    }
  }
}
