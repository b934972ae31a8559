#include "base/crc32c.h"

#include <doctest/doctest.h>

using namespace mq;

TEST_CASE("CRC-32C of the check string and of RFC 3720's 32 zero bytes") {
  CHECK(crc32c(asBytes("123456789")) == 0xE3069283u);
  Buffer zeros(32, 0);
  CHECK(crc32c(zeros) == 0x8A9136AAu);
  CHECK(crc32c({}) == 0);
}

TEST_CASE("A checksum taken in pieces equals the one taken at once") {
  Buffer data(1000);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 7);
  for (size_t cut : {size_t{0}, size_t{1}, size_t{17}, size_t{999}, size_t{1000}}) {
    CHECK(crc32c(Bytes(data).subspan(cut), crc32c(Bytes(data).first(cut))) == crc32c(data));
  }
}
