#include "metrics/openmetrics.h"

#include <iterator>
#include <type_traits>

#include <fmt/format.h>

namespace mq::metrics {
namespace {

// Length of the well-formed UTF-8 sequence at the start of text; 0 if there is none.
size_t utf8Length(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  uint8_t first = byte(0);
  if (first < 0x80) return 1;
  size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates, beyond U+10FFFF.
  if ((first == 0xE0 && byte(1) < 0xA0) || (first == 0xED && byte(1) > 0x9F) || (first == 0xF0 && byte(1) < 0x90) ||
      (first == 0xF4 && byte(1) > 0x8F)) {
    return 0;
  }
  return length;
}

// Exact: nanoseconds as seconds, without trailing zeros.
std::string seconds(uint64_t nanoseconds) {
  std::string text = fmt::format("{}.{:09}", nanoseconds / 1'000'000'000, nanoseconds % 1'000'000'000);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text += '0';
  return text;
}

std::string labelText(std::string_view name, const Labels& labels) {
  std::string text;
  if (!name.empty()) text = fmt::format("{}=\"{}\"", name, escapeLabel(labels.value));
  if (labels.partition >= 0) fmt::format_to(std::back_inserter(text), ",partition=\"{}\"", labels.partition);
  return text;
}

class Printer {
 public:
  explicit Printer(const TextOptions& options) : left_(options.seriesMax) {
    if (options.version.empty()) return;
    header({"mq_build", "", "What runs here."}, "info");
    fmt::format_to(out(), "mq_build_info{{version=\"{}\"}} 1\n", escapeLabel(options.version));
  }

  template <class Set>
  void print(const Values<Set>& values) {
    // A set is left out whole, so that a series does not come and go by family.
    size_t kept = std::min(values.size(), left_);
    left_ -= kept;
    dropped_ += values.size() - kept;
    if (kept == 0) return;

    std::vector<std::pair<std::string, const Set*>> shown;
    for (const auto& [labels, set] : values) {
      if (shown.size() == kept) break;
      shown.emplace_back(labelText(Set::kLabel, labels), &set);
    }
    Set::rows([&](const Family& family, auto member) {
      using Kind = std::remove_cvref_t<decltype(std::declval<Set>().*member)>;
      header(family, std::is_same_v<Kind, Counter> ? "counter" : std::is_same_v<Kind, Gauge> ? "gauge" : "histogram");
      for (const auto& [labels, set] : shown) sample(family, labels, set->*member);
    });
  }

  std::string finish() {
    header({"mq_metrics_dropped_series", "", "Labelled sets left out of this page because of metrics.series.max."},
           "gauge");
    fmt::format_to(out(), "mq_metrics_dropped_series {}\n# EOF\n", dropped_);
    return std::move(text_);
  }

 private:
  std::back_insert_iterator<std::string> out() { return std::back_inserter(text_); }

  void header(const Family& family, std::string_view type) {
    fmt::format_to(out(), "# TYPE {} {}\n", family.name, type);
    if (!family.unit.empty()) fmt::format_to(out(), "# UNIT {} {}\n", family.name, family.unit);
    fmt::format_to(out(), "# HELP {} {}\n", family.name, family.help);
  }

  void number(const Family& family, std::string_view suffix, const std::string& labels, std::string_view value) {
    text_ += family.name;
    text_ += suffix;
    if (!labels.empty()) fmt::format_to(out(), "{{{}}}", labels);
    fmt::format_to(out(), " {}\n", value);
  }
  void sample(const Family& family, const std::string& labels, const Counter& counter) {
    bool time = family.unit == "seconds";
    number(family, "_total", labels, time ? seconds(counter.value) : fmt::format_int(counter.value).str());
  }
  void sample(const Family& family, const std::string& labels, const Gauge& gauge) {
    bool time = family.unit == "seconds" && gauge.value >= 0;
    number(family, "", labels, time ? seconds(static_cast<uint64_t>(gauge.value)) : fmt::format_int(gauge.value).str());
  }
  void sample(const Family& family, const std::string& labels, const Histogram& histogram) {
    std::string prefix = labels.empty() ? "" : labels + ",";
    uint64_t seen = 0;
    for (size_t bucket = 0; bucket < Histogram::kBuckets; ++bucket) {
      seen += histogram.count(bucket);
      bool last = bucket == Histogram::kBuckets - 1;
      // Bounds are exclusive inside and inclusive in the text; at whole nanoseconds nobody can tell.
      if (!last && bucket % 2 != 0) continue;
      std::string bound = last ? "+Inf" : seconds(Histogram::endOf(bucket));
      fmt::format_to(out(), "{}_bucket{{{}le=\"{}\"}} {}\n", family.name, prefix, bound, seen);
    }
    number(family, "_count", labels, fmt::format_int(seen).str());
    number(family, "_sum", labels, seconds(histogram.sum()));
  }

  std::string text_;
  size_t left_;
  size_t dropped_ = 0;
};

}  // namespace

std::string escapeLabel(std::string_view value) {
  std::string text;
  text.reserve(value.size());
  while (!value.empty()) {
    size_t length = utf8Length(value);
    if (length == 0) {
      text += "\uFFFD";
      value.remove_prefix(1);
      continue;
    }
    std::string_view sequence = value.substr(0, length);
    if (sequence == "\\") {
      text += "\\\\";
    } else if (sequence == "\"") {
      text += "\\\"";
    } else if (sequence == "\n") {
      text += "\\n";
    } else {
      text += sequence;
    }
    value.remove_prefix(length);
  }
  return text;
}

std::string openMetricsText(const Snapshot& snapshot, const TextOptions& options) {
  Printer printer(options);
  printer.print(std::get<Values<ProcessMetrics>>(snapshot.values));
  printer.print(std::get<Values<ShardMetrics>>(snapshot.values));
  printer.print(std::get<Values<DirectoryMetrics>>(snapshot.values));
  printer.print(std::get<Values<ApiMetrics>>(snapshot.values));
  printer.print(std::get<Values<PartitionMetrics>>(snapshot.values));
  return printer.finish();
}

}  // namespace mq::metrics
