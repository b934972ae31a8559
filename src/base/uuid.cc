#include "base/uuid.h"

namespace mq {
namespace {
constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

int valueOf(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == '-') return 62;
  if (c == '_') return 63;
  return -1;
}
}  // namespace

Uuid Uuid::fromHalves(uint64_t high, uint64_t low) {
  Uuid id;
  for (int i = 0; i < 8; ++i) {
    id.bytes[i] = static_cast<uint8_t>(high >> (56 - 8 * i));
    id.bytes[8 + i] = static_cast<uint8_t>(low >> (56 - 8 * i));
  }
  return id;
}

Uuid Uuid::random(uint64_t high, uint64_t low) {
  Uuid id = fromHalves(high, low);
  id.bytes[6] = static_cast<uint8_t>((id.bytes[6] & 0x0F) | 0x40);
  id.bytes[8] = static_cast<uint8_t>((id.bytes[8] & 0x3F) | 0x80);
  return id;
}

std::string Uuid::toString() const {
  std::string text;
  text.reserve(22);
  for (size_t i = 0; i < 16; i += 3) {
    uint32_t chunk = static_cast<uint32_t>(bytes[i]) << 16;
    if (i + 1 < 16) chunk |= static_cast<uint32_t>(bytes[i + 1]) << 8;
    if (i + 2 < 16) chunk |= bytes[i + 2];
    int characters = i + 2 < 16 ? 4 : 2;
    for (int c = 0; c < characters; ++c) text += kAlphabet[(chunk >> (18 - 6 * c)) & 63];
  }
  return text;
}

std::optional<Uuid> Uuid::parse(std::string_view text) {
  if (text.size() != 22) return std::nullopt;
  Uuid id;
  uint32_t bits = 0;
  int count = 0;
  size_t out = 0;
  for (char c : text) {
    int value = valueOf(c);
    if (value < 0) return std::nullopt;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    count += 6;
    if (count >= 8 && out < 16) {
      count -= 8;
      id.bytes[out++] = static_cast<uint8_t>(bits >> count);
    }
  }
  if ((bits & 0x0F) != 0) return std::nullopt;  // the last four bits carry nothing
  return id;
}

}  // namespace mq
