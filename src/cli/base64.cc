#include "cli/base64.h"

#include <array>

namespace mq::cli {
namespace {
constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> kValues = [] {
  std::array<int8_t, 256> values{};
  values.fill(-1);
  for (int i = 0; i < 64; ++i) values[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  return values;
}();
}  // namespace

void appendBase64(std::string& into, Bytes bytes) {
  into.reserve(into.size() + (bytes.size() + 2) / 3 * 4);
  size_t i = 0;
  for (; i + 2 < bytes.size(); i += 3) {
    uint32_t v = static_cast<uint32_t>(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]);
    into += {kAlphabet[v >> 18], kAlphabet[v >> 12 & 63], kAlphabet[v >> 6 & 63], kAlphabet[v & 63]};
  }
  if (i + 1 == bytes.size()) {
    uint32_t v = static_cast<uint32_t>(bytes[i] << 16);
    into += {kAlphabet[v >> 18], kAlphabet[v >> 12 & 63], '=', '='};
  } else if (i + 2 == bytes.size()) {
    uint32_t v = static_cast<uint32_t>(bytes[i] << 16 | bytes[i + 1] << 8);
    into += {kAlphabet[v >> 18], kAlphabet[v >> 12 & 63], kAlphabet[v >> 6 & 63], '='};
  }
}

std::optional<Buffer> decodeBase64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  Buffer bytes;
  bytes.reserve(text.size() / 4 * 3);
  for (size_t i = 0; i < text.size(); i += 4) {
    uint32_t v = 0;
    size_t given = i + 4 == text.size() ? 4 - padding : 4;
    for (size_t j = 0; j < 4; ++j) {
      int value = j < given ? kValues[static_cast<uint8_t>(text[i + j])] : 0;
      if (value < 0) return std::nullopt;
      v = v << 6 | static_cast<uint32_t>(value);
    }
    uint8_t three[] = {static_cast<uint8_t>(v >> 16), static_cast<uint8_t>(v >> 8), static_cast<uint8_t>(v)};
    for (size_t j = given - 1; j < 3; ++j) {
      if (three[j] != 0) return std::nullopt;  // bits that no encoder sets
    }
    bytes.insert(bytes.end(), three, three + given - 1);
  }
  return bytes;
}

}  // namespace mq::cli
