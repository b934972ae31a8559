#include "record/batch.h"

#include <doctest/doctest.h>

#include "base/crc32c.h"
#include "record/record_parser.h"
#include "vectors.h"

using namespace mq;
using namespace mq::record;
using namespace mq::record::test;

TEST_CASE("every field of every version 2 batch in the vectors reads as Kafka reads it") {
  size_t checked = 0;
  for (const BatchVector& vector : batchVectors()) {
    CAPTURE(vector.name);
    Bytes left = vector.bytes;
    for (const ExpectedBatch& expected : vector.batches) {
      if (expected.magic != 2) continue;
      NextBatch next = nextBatch(left);
      if (next.kind == NextBatch::Kind::bad) {  // shorter than its header: Kafka shows what bytes follow it
        CHECK(expected.hasError);
        break;
      }
      REQUIRE(next.kind == NextBatch::Kind::whole);
      CHECK(next.sizeBytes == expected.sizeBytes);
      CHECK(left.data() - vector.bytes.data() == static_cast<std::ptrdiff_t>(expected.position));
      BatchView batch(next.batch);
      CHECK(batch.sizeBytes() == expected.sizeBytes);
      CHECK(batch.magic() == expected.magic);
      CHECK(batch.baseOffset().value() == expected.baseOffset);
      CHECK(batch.leaderEpoch().value() == expected.leaderEpoch);
      CHECK(batch.crc() == expected.crc);
      CHECK(static_cast<uint16_t>(batch.attributes()) == expected.attributes);
      CHECK(batch.lastOffsetDelta() == expected.lastOffsetDelta);
      CHECK(batch.maxTimestamp().value() == expected.maxTimestamp);
      CHECK(batch.producerId().value() == expected.producerId);
      CHECK(batch.producerEpoch() == expected.producerEpoch);
      CHECK(batch.baseSequence() == expected.baseSequence);
      CHECK(batch.recordCount() == expected.recordCount);
      left = left.subspan(next.sizeBytes);
      ++checked;
      if (expected.compression.empty()) continue;  // Kafka stopped at an error before it derived the rest
      if (!batch.hasDeleteHorizon()) CHECK(batch.baseTimestamp().value() == expected.baseTimestamp);
      CHECK(batch.lastOffset().value() == expected.lastOffset);
      CHECK(batch.nextOffset().value() == expected.nextOffset);
      CHECK(batch.lastSequence() == expected.lastSequence);
      CHECK(batch.isTransactional() == expected.isTransactional);
      CHECK(batch.isControl() == expected.isControl);
      CHECK(batch.isLogAppendTime() == expected.isLogAppendTime);
      CHECK(nameOf(batch.codec()) == expected.compression);
      CHECK(batch.deleteHorizon().has_value() == expected.deleteHorizon.has_value());
      if (expected.deleteHorizon) CHECK(batch.deleteHorizon()->value() == *expected.deleteHorizon);
      if (!expected.hasError) CHECK(batch.crcOk());
    }
  }
  CHECK(checked > 120);
}

TEST_CASE("walking tells whole, torn and bad batches apart") {
  std::vector<BatchVector> vectors = batchVectors();
  const Buffer& good = batchVector(vectors, "codec-none").bytes;
  CHECK(nextBatch({}).kind == NextBatch::Kind::end);
  for (size_t size = 1; size < good.size(); ++size) {
    CAPTURE(size);
    NextBatch next = nextBatch(Bytes(good).first(size));
    CHECK(next.kind == NextBatch::Kind::torn);
    CHECK(next.batch.size() == size);
    CHECK(next.sizeBytes == (size < Layout::kLengthEnd ? 0 : good.size()));
    bool headerIsThere = size >= Layout::kHeaderBytes;
    CHECK((peekBatch(Bytes(good).first(size)).kind == NextBatch::Kind::whole) == headerIsThere);
  }

  Buffer two = good;
  two.insert(two.end(), good.begin(), good.end());
  NextBatch first = nextBatch(two);
  CHECK(first.kind == NextBatch::Kind::whole);
  CHECK(first.batch.size() == good.size());
  CHECK(peekBatch(two).batch.size() == good.size());

  for (const char* name :
       {"bad-magic--1", "bad-magic-0", "bad-magic-3", "batch-length--1", "batch-length-0", "batch-length-48",
        "batch-length--2147483648", "message-format-v0", "message-format-v1", "garbage-100-bytes", "zeros-100-bytes"}) {
    CAPTURE(name);
    NextBatch next = nextBatch(batchVector(vectors, name).bytes);
    CHECK(next.kind == NextBatch::Kind::bad);
    CHECK(next.batch.empty());
    CHECK_FALSE(next.reason.empty());
  }
  NextBatch huge = nextBatch(batchVector(vectors, "batch-length-2147483647").bytes);
  CHECK(huge.kind == NextBatch::Kind::torn);
  CHECK(huge.sizeBytes == size_t{2147483647} + 12);
}

TEST_CASE("offset and leader epoch change without a new CRC, timestamps with one") {
  Buffer bytes = batchVector(batchVectors(), "codec-none").bytes;
  BatchView batch(bytes);
  uint32_t crc = batch.crc();
  setBaseOffset(bytes, Offset(1'000'000'000'000));
  setLeaderEpoch(bytes, LeaderEpoch(17));
  CHECK(batch.baseOffset() == Offset(1'000'000'000'000));
  CHECK(batch.lastOffset() == Offset(1'000'000'000'004));
  CHECK(batch.leaderEpoch() == LeaderEpoch(17));
  CHECK(batch.crc() == crc);
  CHECK(batch.crcOk());

  setTimestamps(bytes, TimestampType::createTime, batch.maxTimestamp());
  CHECK(batch.crc() == crc);
  setTimestamps(bytes, TimestampType::logAppendTime, WallMs(1'800'000'000'000));
  CHECK(batch.crc() != crc);
  CHECK(batch.crcOk());
  CHECK(batch.timestampType() == TimestampType::logAppendTime);
  CHECK(batch.maxTimestamp() == WallMs(1'800'000'000'000));
  CHECK(batch.baseOffset() == Offset(1'000'000'000'000));
}

TEST_CASE("offsets and sequences at the end of their range wrap around") {
  Buffer bytes = batchVector(batchVectors(), "codec-none").bytes;
  setBaseOffset(bytes, Offset(INT64_MAX));
  CHECK(BatchView(bytes).lastOffset() == Offset(INT64_MIN + 3));
  CHECK(sequenceAfter(INT32_MAX, 1) == 0);
  CHECK(sequenceAfter(INT32_MAX - 1, 3) == 1);
  CHECK(sequenceAfter(0, 1) == 1);
}

TEST_CASE("codecs have Kafka's names") {
  for (Codec codec : {Codec::none, Codec::gzip, Codec::snappy, Codec::lz4, Codec::zstd}) {
    CHECK(codecNamed(nameOf(codec)) == codec);
  }
  CHECK(nameOf(static_cast<Codec>(7)) == "unknown");
  CHECK_FALSE(codecNamed("brotli").has_value());
}

TEST_CASE("varints decode as in Kafka, here and in base") {
  for (const VarintVector& vector : varintVectors()) {
    CAPTURE(vector.type);
    CAPTURE(vector.value);
    // At the end of the bytes, and with more behind: the cursor takes another way for the two.
    for (size_t extra : {0, 3}) {
      Buffer bytes = vector.bytes;
      if (vector.hasError && extra > 0) continue;  // some of them fail for want of bytes
      bytes.resize(bytes.size() + extra);
      ByteReader reader(bytes);
      VarintCursor cursor(bytes.data(), bytes.data() + bytes.size());
      int64_t read = 0;
      if (vector.type == "varint32") {
        read = reader.varint();
        CHECK(cursor.varint() == read);
      } else if (vector.type == "varint64") {
        read = reader.varlong();
        CHECK(cursor.varlong() == read);
      } else {
        read = reader.unsignedVarint();
      }
      CHECK(reader.ok() != vector.hasError);
      if (vector.type != "uvarint32") CHECK(cursor.ok() != vector.hasError);
      if (vector.hasError) continue;
      CHECK(read == vector.value);
      CHECK(reader.position() == vector.used);
      if (vector.type != "uvarint32") CHECK(cursor.left() == bytes.size() - vector.used);
    }
    if (vector.decodeOnly) continue;
    Buffer written;
    ByteWriter writer(written);
    if (vector.type == "varint32") writer.varint(static_cast<int32_t>(vector.value));
    if (vector.type == "varint64") writer.varlong(vector.value);
    if (vector.type == "uvarint32") writer.unsignedVarint(static_cast<uint32_t>(vector.value));
    CHECK(written == vector.bytes);
  }
}

TEST_CASE("CRC-32C agrees with Kafka's") {
  for (const auto& [bytes, crc] : crcVectors()) CHECK(crc32c(bytes) == crc);
}
