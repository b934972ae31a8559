#include "record/recompress.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "record/builder.h"
#include "vectors.h"

using namespace mq;
using namespace mq::record;
using namespace mq::record::test;

namespace {

constexpr WallMs kNow{1'764'460'800'000};
constexpr Codec kCodecs[] = {Codec::none, Codec::gzip, Codec::snappy, Codec::lz4, Codec::zstd};

// A batch as it arrives, validated and brought into its stored form.
struct Stored {
  Workspace workspace;
  Buffer sent;
  Buffer rewritten;
  Result<MutableBytes> form = Error::none;

  Stored(Buffer batch, const StoreRules& rules) : sent(std::move(batch)) {
    ValidationRules validation{.timestampType = rules.timestampType, .now = kNow};
    Result<BatchFacts> facts = validateProduceBatch(sent, validation, workspace);
    REQUIRE_MESSAGE(facts.has_value(), facts.failure().message);
    form = storedForm(sent, *facts, rules, workspace, rewritten);
  }
  BatchView view() const {
    REQUIRE(form.has_value());
    return BatchView(*form);
  }
  bool inPlace() const { return form->data() == sent.data(); }
};

StoreRules with(std::string_view compressionType) { return {.compression = *Compression::named(compressionType)}; }

Buffer textBatch(size_t valueBytes, Codec codec, uint64_t letters) {
  Workspace workspace;
  Prng random(14);
  Buffer value(valueBytes);
  for (uint8_t& byte : value) byte = static_cast<uint8_t>(random.below(letters));
  BatchBuilder builder({.codec = codec});
  builder.add({.timestamp = kNow, .key = asBytes("key"), .value = Bytes(value)});
  return builder.build(workspace);
}

}  // namespace

TEST_CASE("a topic's codec changes the batch, not what it says") {
  Workspace workspace;
  Prng random(15);
  for (int round = 0; round < 12; ++round) {
    std::vector<ExpectedRecord> records = randomRecords(random, 0, 40, 3000);
    for (Codec from : kCodecs) {
      for (Codec to : kCodecs) {
        CAPTURE(nameOf(from));
        CAPTURE(nameOf(to));
        Stored stored(buildBatch(records, from, workspace), with(to == Codec::none ? "uncompressed" : nameOf(to)));
        CHECK(stored.view().codec() == to);
        CHECK(stored.view().crcOk());
        CHECK(stored.view().sizeBytes() == stored.form->size());
        CHECK(stored.inPlace() == (from == to));
        CHECK(recordsOf(stored.view(), workspace) == records);
      }
    }
  }
}

TEST_CASE("compression.type=producer leaves every codec alone") {
  for (Codec codec : kCodecs) {
    Buffer batch = textBatch(5000, codec, 4);
    Stored stored(batch, with("producer"));
    CHECK(stored.inPlace());
    CHECK(stored.sent == batch);
  }
}

TEST_CASE("auto compresses what came uncompressed, is big enough and gets smaller by an eighth") {
  CHECK(Stored(textBatch(5000, Codec::none, 4), with("auto")).view().codec() == Codec::lz4);
  CHECK(Stored(textBatch(kAutoBytesMin - 100, Codec::none, 2), with("auto")).view().codec() == Codec::none);
  CHECK(Stored(textBatch(5000, Codec::none, 256), with("auto")).view().codec() == Codec::none);
  CHECK(Stored(textBatch(5000, Codec::gzip, 4), with("auto")).view().codec() == Codec::gzip);
  CHECK(Stored(textBatch(5000, Codec::zstd, 4), with("auto")).view().codec() == Codec::zstd);
  for (uint64_t letters = 2; letters <= 256; letters += 6) {
    Stored stored(textBatch(5000, Codec::none, letters), with("auto"));
    size_t plain = stored.sent.size() - Layout::kHeaderBytes;
    if (stored.view().isCompressed()) {
      CHECK(stored.form->size() <= stored.sent.size() - plain / kAutoGain);
    } else {
      CHECK(stored.inPlace());
    }
  }
}

TEST_CASE("a batch that the topic's codec makes too large is refused") {
  StoreRules rules = with("uncompressed");
  rules.batchBytesMax = 100'000;
  Stored bomb(textBatch(500'000, Codec::gzip, 1), rules);
  CHECK(bomb.form.errorCode() == Error::messageTooLarge);
  CHECK(bomb.rewritten.capacity() < 100'000);  // not even built

  rules = with("snappy");
  rules.batchBytesMax = 30'000;
  CHECK(Stored(textBatch(30'000, Codec::zstd, 100), rules).form.errorCode() == Error::messageTooLarge);
}

TEST_CASE("append time, and a wrong maximum, are written into the batch whatever its codec becomes") {
  for (const char* type : {"producer", "auto", "gzip"}) {
    CAPTURE(type);
    StoreRules rules = with(type);
    rules.timestampType = TimestampType::logAppendTime;
    Stored stored(textBatch(5000, Codec::none, 4), rules);
    CHECK(stored.view().isLogAppendTime());
    CHECK(stored.view().maxTimestamp() == kNow);
    CHECK(stored.view().crcOk());

    Buffer wrong = textBatch(5000, Codec::none, 4);
    setTimestamps(wrong, TimestampType::createTime, kNow + 12345);
    Stored repaired(wrong, with(type));
    CHECK(repaired.view().maxTimestamp() == kNow);
    CHECK(repaired.view().crcOk());
  }
}

TEST_CASE("the vectors that Kafka changed when it stored them come out as it stored them") {
  std::vector<BatchVector> vectors = batchVectors();
  Stored tail(batchVector(vectors, "two-batches-second-cut").bytes, with("producer"));
  CHECK(tail.form->size() == 164);
  CHECK(tail.view().crcOk());
  Stored flag(batchVector(vectors, "log-append-flag-from-producer").bytes, with("producer"));
  CHECK(flag.view().timestampType() == TimestampType::createTime);
  CHECK(flag.view().crcOk());
  Stored maximum(batchVector(vectors, "max-timestamp-wrong").bytes, with("producer"));
  CHECK(maximum.view().maxTimestamp() == WallMs(1'700'000'000'001));
}

TEST_CASE("control batches are never compressed") {
  Workspace workspace;
  Buffer marker = endTxnMarker(ControlType::abort, ProducerId(7), 1, 3, kNow);
  Buffer before = marker;
  Result<BatchFacts> facts = validateProduceBatch(marker, {.origin = Origin::coordinator, .now = kNow}, workspace);
  REQUIRE(facts.has_value());
  Buffer rewritten;
  CHECK(storedForm(marker, *facts, with("zstd"), workspace, rewritten)->data() == marker.data());
  CHECK(marker == before);
}

TEST_CASE("a client that cannot decode gets an uncompressed copy with the same header") {
  Workspace workspace;
  Prng random(16);
  std::vector<ExpectedRecord> records = randomRecords(random, 50, 40, 3000);
  Buffer plain = buildBatch(records, Codec::none, workspace);
  for (Codec codec : kCodecs) {
    Buffer batch = buildBatch(records, codec, workspace);
    setLeaderEpoch(batch, LeaderEpoch(9));
    Buffer out = {1, 2, 3};
    REQUIRE(decompressed(BatchView(batch), workspace, out).has_value());
    Buffer expected = plain;
    setLeaderEpoch(expected, LeaderEpoch(9));
    CHECK(std::ranges::equal(Bytes(out).subspan(3), expected));
    if (codec == Codec::none) continue;
    CHECK(decompressed(BatchView(batch), workspace, out, 100).errorCode() == Error::messageTooLarge);
    CHECK(out.size() == 3 + expected.size());
  }
}

TEST_CASE("compression.type has Kafka's values and auto") {
  CHECK(Compression::named("producer")->kind == Compression::Kind::producer);
  CHECK(Compression::named("auto")->kind == Compression::Kind::automatic);
  CHECK(Compression::named("uncompressed")->codec == Codec::none);
  CHECK(Compression::named("zstd")->codec == Codec::zstd);
  CHECK_FALSE(Compression::named("none").has_value());
  CHECK_FALSE(Compression::named("brotli").has_value());
}
