// BrokerConfig: reading the layers and resolving them.
#include <algorithm>
#include <map>
#include <tuple>

#include "config/broker_settings.h"
#include "config/names.h"

namespace mq::config {
namespace {

constexpr std::string_view kPrefix = "MQ_CFG_";

// NUM_PARTITIONS for num.partitions.
std::string environmentName(std::string_view name) {
  std::string upper;
  for (char c : name) upper += static_cast<char>(c == '.' ? '_' : c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c);
  return upper;
}

// NUM_PARTITIONS -> num.partitions, for all names and aliases.
const std::map<std::string, std::string_view, std::less<>>& namesByEnvironment() {
  static const auto names = [] {
    std::map<std::string, std::string_view, std::less<>> known;
    for (const Section& section : brokerTable()) {
      for (const Setting& row : section.rows) {
        known.emplace(environmentName(row.name), row.name);
        for (const Alias& alias : row.aliases) {
          if (!alias.name.empty()) known.emplace(environmentName(alias.name), alias.name);
        }
      }
    }
    return known;
  }();
  return names;
}

std::vector<Given> readEnvironment(const std::vector<std::pair<std::string, std::string>>& environment,
                                   std::vector<Problem>& problems) {
  const auto& names = namesByEnvironment();
  std::vector<Given> given;
  for (const auto& [variable, value] : environment) {
    if (!variable.starts_with("MQ_")) continue;
    if (!variable.starts_with(kPrefix)) {
      // MQ_NUM_PARTITIONS would do nothing, and nobody would notice.
      std::string_view rest = std::string_view(variable).substr(3);
      for (std::string_view other : {"SET_", "CONFIG_", "_"}) {
        if (rest.starts_with(other)) rest.remove_prefix(other.size());
      }
      if (auto meant = names.find(rest); meant != names.end()) {
        problems.push_back(
            {variable, fmt::format("not read by mq; write {}{} to set {}", kPrefix, rest, meant->second)});
      }
      continue;
    }
    std::string_view rest = std::string_view(variable).substr(kPrefix.size());
    auto found = names.find(rest);
    if (found != names.end()) {
      given.push_back({std::string(found->second), value, variable});
      continue;
    }
    std::vector<std::string_view> known;
    for (const auto& [name, setting] : names) known.push_back(name);
    std::string near = nearest(rest, known);
    problems.push_back({variable, near.empty() ? "names no setting; `mq config list` names all"
                                               : fmt::format("names no setting; did you mean {}{}?", kPrefix, near)});
  }
  return given;
}

// The value in the setting's own unit.
Result<std::string> converted(const Meaning& meaning, const Given& given) {
  if (meaning.factor == 1) return given.value;
  // Range and message in the unit that was used.
  Setting row = *meaning.row;
  row.name = given.name;
  row.min = row.min < 0 ? row.min : (row.min + meaning.factor - 1) / meaning.factor;
  row.max = std::min<int64_t>(row.max / meaning.factor, std::numeric_limits<int32_t>::max());
  int64_t value = 0;
  if (Complaint wrong = parseWhole(row, given.value, row.min, row.max, value)) {
    return failure(Error::invalidConfig, "Invalid value {} for configuration {}: {} (allowed: {})", quoted(given.value),
                   given.name, *wrong, allowedWhole(row, row.min, row.max));
  }
  return fmt::format_int(value < 0 ? value : value * meaning.factor).str();
}

}  // namespace

std::string Problem::toString() const { return where.empty() ? text : fmt::format("{}: {}", where, text); }

std::expected<BrokerConfig, std::vector<Problem>> BrokerConfig::load(const StartInput& input) {
  std::vector<Problem> problems;
  BrokerConfig config;
  auto take = [&](Layer layer, const std::vector<Given>& values) {
    for (const Given& given : values) {
      Meaning meaning = meaningOf(given.name);
      if (meaning.row == nullptr) {
        problems.push_back({given.where, unknownBrokerSetting(given.name).message, given.line});
        continue;
      }
      Result<std::string> value = converted(meaning, given);
      BrokerSettings scratch;
      Result<void> assigned = value ? assign(*meaning.row, *value, ownerOf(*meaning.row, scratch)) : value.failure();
      if (!assigned) {
        problems.push_back({given.where, assigned.failure().message, given.line});
        continue;
      }
      std::erase_if(config.fixed_,
                    [&](const Fixed& fixed) { return fixed.layer == layer && fixed.given.name == given.name; });
      config.fixed_.push_back({given, layer});
    }
  };
  take(Layer::file, readToml(input.tomlPath, input.toml, problems));
  // Tables come in order of their keys.
  std::sort(problems.begin(), problems.end(),
            [](const Problem& a, const Problem& b) { return std::tie(a.line, a.text) < std::tie(b.line, b.text); });
  take(Layer::environment, readEnvironment(input.environment, problems));
  take(Layer::flags, input.flags);
  if (problems.empty()) {
    config.settings_ = config.resolve();
    for (std::string& text : contradictions(config.settings_)) problems.push_back({"", std::move(text)});
  }
  if (!problems.empty()) return std::unexpected(std::move(problems));
  return config;
}

BrokerConfig BrokerConfig::withDynamic(const Overrides& clusterWide, const Overrides& own) const {
  BrokerConfig config = *this;
  config.clusterWide_ = clusterWide;
  config.own_ = own;
  config.settings_ = config.resolve();
  return config;
}

std::vector<Synonym> BrokerConfig::synonyms(const Setting& row) const {
  std::vector<Synonym> found;
  auto dynamic = [&](const Overrides& overrides, Source source) {
    auto held = overrides.find(row.name);
    if (held == overrides.end() || row.change != Change::live) return;
    if (auto value = normalised(row, held->second)) found.push_back({held->first, *value, source, {}});
  };
  dynamic(own_, Source::dynamicBroker);
  dynamic(clusterWide_, Source::dynamicDefaultBroker);

  std::vector<std::pair<const Fixed*, Meaning>> fixed;
  for (const Fixed& candidate : fixed_) {
    Meaning meaning = meaningOf(candidate.given.name);
    if (meaning.row == &row) fixed.emplace_back(&candidate, meaning);
  }
  std::sort(fixed.begin(), fixed.end(), [](const auto& a, const auto& b) {
    if (a.first->layer != b.first->layer) return a.first->layer > b.first->layer;
    return a.second.rank < b.second.rank;
  });
  for (const auto& [candidate, meaning] : fixed) {
    // Of an alias, the value as it was given: 168 for log.retention.hours.
    std::string value = meaning.rank == 0 ? *normalised(row, candidate->given.value) : candidate->given.value;
    found.push_back({candidate->given.name, std::move(value), Source::staticBroker, candidate->given.where});
  }
  BrokerSettings defaults;
  found.push_back({std::string(row.name), row.field->print(ownerOf(row, defaults)), Source::defaultValue, {}});
  if (row.secret) {
    for (Synonym& synonym : found) synonym.value.clear();
  }
  return found;
}

BrokerSettings BrokerConfig::resolve() const {
  BrokerSettings settings;
  // Weakest first: layer by layer, and within one the coarser aliases before the name itself.
  std::vector<std::pair<const Fixed*, Meaning>> fixed;
  for (const Fixed& candidate : fixed_) fixed.emplace_back(&candidate, meaningOf(candidate.given.name));
  std::sort(fixed.begin(), fixed.end(), [](const auto& a, const auto& b) {
    if (a.first->layer != b.first->layer) return a.first->layer < b.first->layer;
    return a.second.rank > b.second.rank;
  });
  for (const auto& [candidate, meaning] : fixed) {
    Result<std::string> value = converted(meaning, candidate->given);
    if (value) (void)assign(*meaning.row, *value, ownerOf(*meaning.row, settings));
  }
  for (const Overrides* overrides : {&clusterWide_, &own_}) {
    for (const auto& [name, value] : *overrides) {
      const Setting* row = find(brokerTable(), name);
      if (row != nullptr && row->change == Change::live) (void)assign(*row, value, ownerOf(*row, settings));
    }
  }
  return settings;
}

std::vector<Entry> BrokerConfig::describe() const {
  std::vector<Entry> entries;
  BrokerSettings settings = settings_;
  for (const Section& section : brokerTable()) {
    for (const Setting& row : section.rows) {
      if (row.hidden) continue;
      Entry entry{.name = std::string(row.name),
                  .type = row.field->type,
                  .readOnly = row.change != Change::live,
                  .secret = row.secret,
                  .synonyms = synonyms(row),
                  .doc = row.doc};
      const Synonym& first = entry.synonyms.front();
      entry.source = first.source;
      entry.where = first.where;
      // A list keeps the order in which it was given.
      entry.value = first.name == row.name ? first.value : row.field->print(ownerOf(row, settings));
      if (row.secret) entry.value.clear();
      entries.push_back(std::move(entry));
    }
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

}  // namespace mq::config
