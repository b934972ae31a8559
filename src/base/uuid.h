// Uuid: 16 bytes, printed as Kafka prints topic, cluster and directory ids: 22 characters of unpadded base64url.
#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace mq {

struct Uuid {
  std::array<uint8_t, 16> bytes{};

  static Uuid fromHalves(uint64_t high, uint64_t low);      // big endian, as on the wire
  static Uuid random(uint64_t high, uint64_t low);          // version 4 out of 128 random bits
  static std::optional<Uuid> parse(std::string_view text);  // 22 characters; anything else is nullopt
  std::string toString() const;
  bool isZero() const { return bytes == std::array<uint8_t, 16>{}; }

  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

inline constexpr Uuid kZeroUuid{};

}  // namespace mq

template <>
struct std::hash<mq::Uuid> {
  size_t operator()(const mq::Uuid& id) const noexcept {
    uint64_t a, b;
    std::memcpy(&a, id.bytes.data(), 8);
    std::memcpy(&b, id.bytes.data() + 8, 8);
    return a ^ (b * 0x9E3779B97F4A7C15u);
  }
};

template <>
struct fmt::formatter<mq::Uuid> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const mq::Uuid& id, Context& context) const {
    return fmt::formatter<std::string_view>::format(id.toString(), context);
  }
};
