#include "storage/file_names.h"

#include <charconv>

#include <fmt/format.h>

namespace mq::storage {
namespace {
constexpr size_t kDigits = 20;
}

std::string fileName(Offset base, std::string_view suffix) { return fmt::format("{:020}{}", base.value(), suffix); }

std::string filePath(std::string_view directory, Offset base, std::string_view suffix) {
  return fmt::format("{}/{:020}{}", directory, base.value(), suffix);
}

std::optional<OffsetName> parseFileName(std::string_view name) {
  if (name.size() < kDigits) return std::nullopt;
  std::string_view digits = name.substr(0, kDigits);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  int64_t base = 0;
  auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), base);
  if (parsed.ec != std::errc()) return std::nullopt;
  return OffsetName{Offset(base), name.substr(kDigits)};
}

}  // namespace mq::storage
