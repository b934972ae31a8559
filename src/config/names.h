// What the two tables share: the words of the enums, and altering overrides.
#pragma once
#include <array>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/broker_settings.h"
#include "config/setting.h"
#include "config/text.h"

namespace mq::config {

template <>
struct Names<Durability> {
  static constexpr std::array<std::string_view, 2> names = {"fsync", "page-cache"};
};
template <>
struct Names<CompressionType> {
  static constexpr std::array<std::string_view, 7> names = {"auto",   "producer", "uncompressed", "gzip",
                                                            "snappy", "lz4",      "zstd"};
};
template <>
struct Names<TimestampType> {
  static constexpr std::array<std::string_view, 2> names = {"CreateTime", "LogAppendTime"};
};
template <>
struct Names<LogDetail> {
  static constexpr std::array<std::string_view, 4> names = {"debug", "info", "warning", "error"};
};
template <>
struct Names<LogFormat> {
  static constexpr std::array<std::string_view, 3> names = {"auto", "text", "json"};
};
template <>
struct Names<MigrationPolicy> {
  static constexpr std::array<std::string_view, 4> names = {"disabled", "upgrade", "downgrade", "bidirectional"};
};

// Visible names in order.
std::span<const std::string_view> topicNames();

// Whether a row of the broker table is the default of a topic setting: its field is one of
// BrokerSettings::topicDefaults, not of BrokerSettings.
bool isTopicDefault(const Setting& row);
void* ownerOf(const Setting& row, BrokerSettings& settings);

// What is wrong between settings, each of them valid. In order; empty: nothing.
std::vector<std::string> contradictions(const BrokerSettings& settings);

// The settings of a TOML text. Values are text again, but of the type that their row wants.
std::vector<Given> readToml(const std::string& path, const std::string& text, std::vector<Problem>& problems);

// The row that a name or alias of the broker table means, and the factor of the alias; row null: unknown.
struct Meaning {
  const Setting* row = nullptr;
  int64_t factor = 1;
  size_t rank = 0;  // 0: the name itself, then aliases; the lowest wins within one layer
};
Meaning meaningOf(std::string_view name);
Failure unknownBrokerSetting(std::string_view name);

// A value as it is stored and shown: lists keep their order and lose their blanks, everything else is printed as it was
// understood. Null: not a value of this row.
std::optional<std::string> normalised(const Setting& row, std::string_view value);

// A line of DescribeConfigs for a setting that a resource (topic, group) may override: `effective` is the resource's
// struct, `source` what its overrides count as.
Entry describeRow(const Setting& row, const void* effective, const Overrides& overrides, Source source,
                  const BrokerConfig& broker);

// The overrides after the alterations, names and list operations checked, values not.
Result<Overrides> alter(const Overrides& now, std::span<const Alteration> alterations,
                        const std::function<const Setting*(std::string_view)>& find,
                        const std::function<Failure(std::string_view)>& unknown,
                        const std::function<std::string(const Setting&)>& effective);

}  // namespace mq::config
