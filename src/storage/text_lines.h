// The frame that Kafka's checkpoint files share:  "0\n" COUNT "\n" then COUNT lines. Internal to storage/.
#pragma once
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"

namespace mq::storage {

// Digits only, at most `max`.
inline std::optional<int64_t> parseNumber(std::string_view text, int64_t max) {
  int64_t value = 0;
  if (text.empty() || text.front() == '-') return std::nullopt;
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value > max) return std::nullopt;
  return value;
}

// Calls take(line) for each of the COUNT lines; it answers what is wrong with one, empty for nothing. An empty text has
// no lines. Errors: corruptMessage with the number of the line.
template <class Take>
Result<void> forEachLine(std::string_view text, Take take) {
  size_t number = 0;
  auto nextLine = [&]() -> std::optional<std::string_view> {
    if (text.empty()) return std::nullopt;
    size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    return line;
  };
  auto bad = [&](std::string_view what) { return failure(Error::corruptMessage, "line {}: {}", number, what); };

  if (text.empty()) return {};
  if (auto version = nextLine(); version != "0") return bad("not version 0");
  auto countLine = nextLine();
  auto count = countLine ? parseNumber(*countLine, INT32_MAX) : std::nullopt;
  if (!count) return bad("not a count");
  for (int64_t i = 0; i < *count; ++i) {
    auto line = nextLine();
    if (!line) return failure(Error::corruptMessage, "{} lines were promised, {} are there", *count, i);
    if (std::string problem = take(*line); !problem.empty()) return bad(problem);
  }
  if (nextLine()) return bad("more lines than were promised");
  return {};
}

}  // namespace mq::storage
