#include "config/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace mq::config {
namespace {

bool isBlank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
bool isDigit(char c) { return c >= '0' && c <= '9'; }

Complaint complainOfBlanks(std::string_view text) {
  if (text.empty()) return "is empty";
  if (isBlank(text.front())) return "begins with a blank";
  if (isBlank(text.back())) return "ends with a blank";
  return {};
}

struct Suffix {
  std::string_view text;
  int64_t factor;
};
constexpr Suffix kTimes[] = {{"ms", 1},      {"s", 1000},     {"sec", 1000},     {"m", 60000},       {"min", 60000},
                             {"h", 3600000}, {"d", 86400000}, {"day", 86400000}, {"days", 86400000}, {"w", 604800000}};
constexpr Suffix kSizes[] = {{"b", 1},        {"k", 1 << 10},   {"kb", 1 << 10},        {"kib", 1 << 10},
                             {"m", 1 << 20},  {"mb", 1 << 20},  {"mib", 1 << 20},       {"g", 1 << 30},
                             {"gb", 1 << 30}, {"gib", 1 << 30}, {"t", int64_t{1} << 40}};

// "7d" for retention.ms: the number that was meant, in words.
std::string unitHint(const Setting& row, std::string_view text) {
  bool time = row.name.ends_with(".ms");
  bool size = row.name.find("bytes") != std::string_view::npos;
  if (!time && !size) return {};
  int64_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0) return {};
  std::string suffix;
  for (const char* c = end; c != text.data() + text.size(); ++c) {
    if (!isBlank(*c)) suffix += static_cast<char>(*c >= 'A' && *c <= 'Z' ? *c - 'A' + 'a' : *c);
  }
  for (const Suffix& known : time ? std::span<const Suffix>(kTimes) : std::span<const Suffix>(kSizes)) {
    if (known.text != suffix || number > std::numeric_limits<int64_t>::max() / known.factor) continue;
    return fmt::format("; {} is {} {}", text, number * known.factor, time ? "ms" : "bytes");
  }
  return {};
}

template <class T>
std::string joinPrinted(const std::vector<T>& items) {
  std::vector<std::string> texts;
  for (const T& item : items) texts.push_back(item.toString());
  return joinList(texts);
}

// The items of a list of words, each known and at most once.
Complaint parseWords(std::string_view text, std::span<const std::string_view> known, std::vector<bool>& present) {
  std::vector<std::string> items;
  if (Complaint wrong = splitList(text, items)) return wrong;
  present.assign(known.size(), false);
  for (const std::string& item : items) {
    size_t index = 0;
    if (Complaint wrong = parseName(item, known, index)) return wrong;
    if (present[index]) return fmt::format("names {} twice", item);
    present[index] = true;
  }
  return {};
}

constexpr std::string_view kPolicies[] = {"delete", "compact"};
constexpr std::string_view kRoles[] = {"broker", "controller"};

}  // namespace

Complaint parseWhole(const Setting& row, std::string_view text, int64_t min, int64_t max, int64_t& into) {
  if (Complaint wrong = complainOfBlanks(text)) return wrong;
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) {
    return "is not a whole number" + unitHint(row, text);
  }
  if (error != std::errc() || value < min || value > max) return "is out of range";
  into = value;
  return {};
}

std::string allowedWhole(const Setting& row, int64_t min, int64_t max) {
  // A bound that only the type sets is not worth a word.
  bool least = row.min > std::numeric_limits<int64_t>::min();
  bool most = row.max < std::numeric_limits<int64_t>::max();
  if (least && most) return fmt::format("a whole number from {} to {}", min, max);
  if (least) return fmt::format("a whole number, at least {}", min);
  if (most) return fmt::format("a whole number, at most {}", max);
  return max == std::numeric_limits<int32_t>::max() ? "a whole number of 32 bits" : "a whole number";
}

Complaint parseDouble(const Setting& row, std::string_view text, double& into) {
  if (Complaint wrong = complainOfBlanks(text)) return wrong;
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument || std::isnan(value)) {
    return "is not a number";
  }
  // The bounds of a row are whole; without any, every finite number goes.
  bool least = row.min > std::numeric_limits<int64_t>::min();
  bool most = row.max < std::numeric_limits<int64_t>::max();
  if (error != std::errc() || std::isinf(value) || (least && value < static_cast<double>(row.min)) ||
      (most && value > static_cast<double>(row.max))) {
    return "is out of range";
  }
  into = value;
  return {};
}

std::string Codec<double>::allowed(const Setting& row) {
  bool least = row.min > std::numeric_limits<int64_t>::min();
  bool most = row.max < std::numeric_limits<int64_t>::max();
  if (least && most) return fmt::format("a number from {} to {}", row.min, row.max);
  if (least) return fmt::format("a number, at least {}", row.min);
  return most ? fmt::format("a number, at most {}", row.max) : "a number";
}

std::string printDouble(double value) {
  double size = std::fabs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e7)) {
    char buffer[64];
    auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific).ptr;
    std::string text(buffer, end);
    size_t e = text.find('e');
    std::string digits = text.substr(0, e);
    int exponent = 0;
    const char* from = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
    std::from_chars(from, text.data() + text.size(), exponent);
    if (digits.find('.') == std::string::npos) digits += ".0";
    return fmt::format("{}E{}", digits, exponent);
  }
  char buffer[64];
  auto end = std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::fixed).ptr;
  std::string text(buffer, end);
  if (text.find('.') == std::string::npos) text += ".0";
  return text;
}

Complaint parseName(std::string_view text, std::span<const std::string_view> names, size_t& into) {
  for (size_t i = 0; i < names.size(); ++i) {
    if (names[i] != text) continue;
    into = i;
    return {};
  }
  if (Complaint wrong = complainOfBlanks(text)) return wrong;
  std::string near = nearest(text, names);
  return near.empty() ? "is not known" : fmt::format("is not known, did you mean {}?", near);
}

std::string oneOf(std::span<const std::string_view> names) {
  return fmt::format("one of {}", fmt::join(names.begin(), names.end(), ", "));
}

Complaint splitList(std::string_view text, std::vector<std::string>& into) {
  into.clear();
  if (std::all_of(text.begin(), text.end(), isBlank)) return {};
  while (true) {
    size_t comma = text.find(',');
    std::string_view item = text.substr(0, comma);
    while (!item.empty() && isBlank(item.front())) item.remove_prefix(1);
    while (!item.empty() && isBlank(item.back())) item.remove_suffix(1);
    if (item.empty()) return "has an empty item";
    into.emplace_back(item);
    if (comma == std::string_view::npos) return {};
    text.remove_prefix(comma + 1);
  }
}

std::string joinList(const std::vector<std::string>& items) {
  return fmt::format("{}", fmt::join(items.begin(), items.end(), ","));
}

Complaint Codec<bool>::parse(const Setting&, std::string_view text, bool& into) {
  if (text != "true" && text != "false") {
    // Kafka takes any case.
    std::string lower(text);
    for (char& c : lower) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    if (lower != "true" && lower != "false") {
      if (Complaint wrong = complainOfBlanks(text)) return wrong;
      return "is neither true nor false";
    }
    into = lower == "true";
    return {};
  }
  into = text == "true";
  return {};
}

// min and max of a row bound a string's length.
Complaint Codec<std::string>::parse(const Setting& row, std::string_view text, std::string& into) {
  if (static_cast<int64_t>(text.size()) < row.min) return "is empty";
  if (static_cast<int64_t>(text.size()) > row.max) return fmt::format("is longer than {} bytes", row.max);
  for (char c : text) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) return "has a control character";
  }
  if (!text.empty()) {
    if (Complaint wrong = complainOfBlanks(text)) return wrong;
  }
  into = std::string(text);
  return {};
}

std::string Codec<std::string>::allowed(const Setting& row) {
  std::string most = row.max < std::numeric_limits<int64_t>::max() ? fmt::format(", at most {} bytes", row.max) : "";
  return (row.min > 0 ? "text that is not empty" : "text") + most;
}

Complaint Codec<std::vector<std::string>>::parse(const Setting&, std::string_view text,
                                                 std::vector<std::string>& into) {
  std::vector<std::string> items;
  if (Complaint wrong = splitList(text, items)) return wrong;
  for (const std::string& item : items) {
    if (item == "*" && items.size() == 1) continue;
    size_t colon = item.find(':');
    auto digits = [](std::string_view part) { return !part.empty() && std::all_of(part.begin(), part.end(), isDigit); };
    if (colon == std::string::npos || !digits(item.substr(0, colon)) || !digits(item.substr(colon + 1))) {
      return fmt::format("has an item '{}' that is not PARTITION:BROKER", item);
    }
  }
  into = std::move(items);
  return {};
}

Complaint Codec<CleanupPolicy>::parse(const Setting&, std::string_view text, CleanupPolicy& into) {
  std::vector<bool> present;
  if (Complaint wrong = parseWords(text, kPolicies, present)) return wrong;
  into = {.deletes = present[0], .compacts = present[1]};
  return {};
}
std::string Codec<CleanupPolicy>::print(const CleanupPolicy& value) {
  return value.deletes && value.compacts ? "delete,compact"
         : value.deletes                 ? "delete"
         : value.compacts                ? "compact"
                                         : "";
}

Complaint Codec<Roles>::parse(const Setting&, std::string_view text, Roles& into) {
  std::vector<bool> present;
  if (Complaint wrong = parseWords(text, kRoles, present)) return wrong;
  if (!present[0] && !present[1]) return "is empty";
  into = {.broker = present[0], .controller = present[1]};
  return {};
}
std::string Codec<Roles>::print(const Roles& value) {
  return value.broker && value.controller ? "broker,controller" : value.broker ? "broker" : "controller";
}

Complaint Codec<std::vector<Endpoint>>::parse(const Setting&, std::string_view text, std::vector<Endpoint>& into) {
  std::vector<std::string> items;
  if (Complaint wrong = splitList(text, items)) return wrong;
  std::vector<Endpoint> endpoints;
  for (const std::string& item : items) {
    Endpoint endpoint;
    size_t equals = item.find('=');
    if (equals == 0) return fmt::format("has an item '{}' with an empty name", item);
    std::string_view address = item;
    if (equals != std::string::npos) {
      endpoint.name = item.substr(0, equals);
      address.remove_prefix(equals + 1);
      for (char c : endpoint.name) {
        bool word = isDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '-' || c == '.';
        if (!word) return fmt::format("has an item '{}' whose name has other than letters, digits and _ - .", item);
      }
    }
    Result<Address> parsed = Address::parse(address);
    if (!parsed) return "is wrong: " + parsed.failure().message;
    endpoint.address = std::move(*parsed);
    endpoints.push_back(std::move(endpoint));
  }
  into = std::move(endpoints);
  return {};
}
std::string Codec<std::vector<Endpoint>>::print(const std::vector<Endpoint>& value) { return joinPrinted(value); }

Complaint Codec<std::vector<Voter>>::parse(const Setting& row, std::string_view text, std::vector<Voter>& into) {
  std::vector<std::string> items;
  if (Complaint wrong = splitList(text, items)) return wrong;
  std::vector<Voter> voters;
  for (const std::string& item : items) {
    Voter voter;
    size_t at = item.find('@');
    int64_t id = 0;
    if (at == std::string::npos ||
        parseWhole(row, std::string_view(item).substr(0, at), 0, std::numeric_limits<int32_t>::max(), id)) {
      return fmt::format("has an item '{}' that does not begin with ID@", item);
    }
    voter.id = static_cast<int32_t>(id);
    Result<Address> parsed = Address::parse(std::string_view(item).substr(at + 1));
    if (!parsed) return "is wrong: " + parsed.failure().message;
    voter.address = std::move(*parsed);
    voters.push_back(std::move(voter));
  }
  into = std::move(voters);
  return {};
}
std::string Codec<std::vector<Voter>>::print(const std::vector<Voter>& value) { return joinPrinted(value); }

std::string Endpoint::toString() const { return (name.empty() ? "" : name + "=") + address.toString(); }
std::string Voter::toString() const { return fmt::format("{}@{}", id, address.toString()); }

}  // namespace mq::config
