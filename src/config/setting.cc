#include "config/setting.h"

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/random.h"

namespace mq::config {
namespace {

size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      size_t above = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view nameOf(Source source) {
  switch (source) {
    case Source::dynamicTopic: return "dynamic topic";
    case Source::dynamicGroup: return "dynamic group";
    case Source::dynamicBroker: return "dynamic broker";
    case Source::dynamicDefaultBroker: return "dynamic default broker";
    case Source::staticBroker: return "static broker";
    case Source::defaultValue: return "default";
  }
  return "unknown";
}

const Setting* find(Table table, std::string_view name) {
  for (const Section& section : table) {
    for (const Setting& row : section.rows) {
      if (row.name == name) return &row;
    }
  }
  return nullptr;
}

std::string nearest(std::string_view misspelt, std::span<const std::string_view> known) {
  constexpr size_t kLengthMax = 100;  // nobody misspells a name that long; the distance costs its square
  if (misspelt.empty() || misspelt.size() > kLengthMax) return {};
  std::string_view best;
  size_t bestDistance = std::max<size_t>(1, misspelt.size() / 3) + 1;
  for (std::string_view name : known) {
    size_t distance = editDistance(misspelt, name);
    if (distance >= bestDistance) continue;
    best = name;
    bestDistance = distance;
  }
  return std::string(best);
}

std::string quoted(std::string_view value) {
  constexpr size_t kShown = 100;
  std::string text;
  for (char c : value.substr(0, kShown)) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) {
      fmt::format_to(std::back_inserter(text), "\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  if (value.size() > kShown) text += "...";
  // Blanks at an end would not be seen.
  bool edge = !value.empty() && (value.front() == ' ' || value.back() == ' ');
  return value.empty() || edge ? "'" + text + "'" : text;
}

Result<void> assign(const Setting& row, std::string_view value, void* object) {
  if (auto wrong = row.field->parse(row, value, object)) {
    return failure(Error::invalidConfig, "Invalid value {} for configuration {}: {} (allowed: {})",
                   row.secret ? "(hidden)" : quoted(value), row.name, *wrong, row.field->allowed(row));
  }
  return {};
}

Overrides simulated(Table table, Prng& random) {
  Overrides drawn;
  for (const Section& section : table) {
    for (const Setting& row : section.rows) {
      auto [low, high] = row.sim;
      if ((low == 0 && high == 0) || random.chance(1, 2)) continue;
      // Small values find more bugs than evenly drawn ones: each power of two is as likely.
      auto width = static_cast<uint64_t>(high - low);
      uint64_t above = random.between(0, width >> random.below(static_cast<uint64_t>(std::bit_width(width)) + 1));
      drawn.emplace(row.name, fmt::format_int(low + static_cast<int64_t>(above)).str());
    }
  }
  return drawn;
}

}  // namespace mq::config
