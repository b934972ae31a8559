// What a real Kafka broker left in its internal topics, from the fixtures.
#pragma once
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace mq::coordinator {

using Json = nlohmann::json;

inline Buffer fromBase64(const std::string& text) {
  static const std::string digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  Buffer bytes;
  uint32_t bits = 0;
  int count = 0;
  for (char c : text) {
    if (c == '=') break;
    bits = bits << 6 | static_cast<uint32_t>(digits.find(c));
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes.push_back(static_cast<uint8_t>(bits >> count));
  }
  return bytes;
}

struct Written {
  Buffer key;
  std::optional<Buffer> value;
  Json decoded;
};

// The records that a Kafka broker left in those of its topics whose name begins so.
inline std::vector<Written> recordsOf(std::string_view topics) {
  std::ifstream in(MQ_GOLDEN_INTERNAL);
  REQUIRE(in.good());
  std::vector<Written> records;
  for (std::string line; std::getline(in, line);) {
    Json row = Json::parse(line);
    if (row["type"] != "batch" || row["control"] == true || !row["dir"].get<std::string>().starts_with(topics))
      continue;
    for (const Json& record : row["records"]) {
      Written written{.key = fromBase64(record["k"]), .decoded = record["decoded"]};
      if (!record["v"].is_null()) written.value = fromBase64(record["v"]);
      records.push_back(std::move(written));
    }
  }
  REQUIRE(records.size() > 50);
  return records;
}

}  // namespace mq::coordinator
