// base/bytes.h against the varints of Kafka's ByteUtils.
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "vectors.h"

using namespace mq;
using mq::wire::fromHex;

TEST_CASE("Varints are Kafka's byte for byte") {
  std::ifstream in(std::string(MQ_GOLDEN_WIRE) + "/varint.jsonl");
  size_t seen = 0;
  for (std::string line; std::getline(in, line); ++seen) {
    INFO(line);
    auto json = nlohmann::json::parse(line);
    std::string type = json["type"];
    Buffer bytes = fromHex(json["hex"].get<std::string>());
    ByteReader reader(bytes);
    int64_t value = type == "uvarint32"  ? static_cast<int32_t>(reader.unsignedVarint())
                    : type == "varint32" ? reader.varint()
                                         : reader.varlong();
    if (json.contains("error")) {
      CHECK_FALSE(reader.ok());
      continue;
    }
    int64_t expected = json["value"];
    if (type == "uvarint32") expected = static_cast<int32_t>(expected);  // Java's ints have a sign
    CHECK(value == expected);
    CHECK(reader.ok());
    CHECK(reader.position() == json.value("used", bytes.size()));
    if (json.contains("decodeOnly")) continue;  // longer than need be: read, never written
    Buffer written;
    ByteWriter writer(written);
    size_t size = 0;
    if (type == "uvarint32") {
      writer.unsignedVarint(static_cast<uint32_t>(value));
      size = sizeOfUnsignedVarint(static_cast<uint32_t>(value));
    } else if (type == "varint32") {
      writer.varint(static_cast<int32_t>(value));
      size = sizeOfVarint(static_cast<int32_t>(value));
    } else {
      writer.varlong(value);
      size = sizeOfVarlong(value);
    }
    CHECK(size == bytes.size());
    CHECK(written == bytes);
  }
  CHECK(seen > 600);
}
