#include "base/bytes.h"

#include <doctest/doctest.h>

using namespace mq;

TEST_CASE("Varints round-trip at every length boundary and know their size") {
  for (int64_t v : {int64_t{0}, int64_t{-1}, int64_t{1}, int64_t{63}, int64_t{-64}, int64_t{64}, int64_t{-65},
                    int64_t{8191}, int64_t{INT32_MAX}, int64_t{INT32_MIN}, INT64_MAX, INT64_MIN}) {
    Buffer buffer;
    ByteWriter writer(buffer);
    writer.varlong(v);
    CHECK(buffer.size() == sizeOfVarlong(v));
    ByteReader reader(buffer);
    CHECK(reader.varlong() == v);
    CHECK(reader.ok());
    CHECK(reader.atEnd());
    if (v >= INT32_MIN && v <= INT32_MAX) {
      Buffer small;
      ByteWriter(small).varint(static_cast<int32_t>(v));
      CHECK(small.size() == sizeOfVarint(static_cast<int32_t>(v)));
      CHECK(ByteReader(small).varint() == v);
    }
  }
}

TEST_CASE("A varint that never ends or is cut short fails instead of reading on") {
  Buffer endless(11, 0xFF);
  ByteReader reader(endless);
  reader.unsignedVarint();
  CHECK_FALSE(reader.ok());
  ByteReader longer(endless);
  longer.varlong();
  CHECK_FALSE(longer.ok());
  ByteReader cut(Bytes(endless).first(2));
  cut.varint();
  CHECK_FALSE(cut.ok());
}

TEST_CASE("After the first read that does not fit every later read answers nothing") {
  Buffer three{1, 2, 3};
  ByteReader reader(three);
  CHECK(reader.int16() == 0x0102);
  CHECK(reader.int32() == 0);
  CHECK_FALSE(reader.ok());
  CHECK(reader.int8() == 0);
  CHECK(reader.bytes(1).empty());
  CHECK(reader.left() == 0);
}

TEST_CASE("A count larger than the bytes left fails before anything is taken") {
  Buffer three{1, 2, 3};
  ByteReader reader(three);
  CHECK(reader.bytes(SIZE_MAX).empty());
  CHECK_FALSE(reader.ok());
}

TEST_CASE("Integers are big endian") {
  Buffer buffer;
  ByteWriter writer(buffer);
  writer.int16(-2);
  writer.int32(0x01020304);
  writer.int64(-1);
  writer.float64(1.5);
  CHECK(buffer.size() == 22);
  CHECK(buffer[0] == 0xFF);
  CHECK(buffer[1] == 0xFE);
  CHECK(buffer[2] == 1);
  ByteReader reader(buffer);
  CHECK(reader.int16() == -2);
  CHECK(reader.int32() == 0x01020304);
  CHECK(reader.int64() == -1);
  CHECK(reader.float64() == 1.5);
}
