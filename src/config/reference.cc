#include "config/reference.h"

#include <algorithm>

#include "config/broker_settings.h"
#include "config/group_settings.h"
#include "config/names.h"

namespace mq::config {
namespace {

constexpr std::string_view kIntro =
    "Configuration of mq serve. Everything is commented out and has its default.\n"
    "\n"
    "Names and units are Kafka's where Kafka has the option. A value here is replaced by the environment\n"
    "(MQ_CFG_NUM_PARTITIONS=3), that by the command line (--set num.partitions=3), and that by what was set while the\n"
    "broker ran, for those that allow it (live). `mq config explain` shows each value and where it comes from;\n"
    "`mq serve --check-config` only checks.\n";

// Words in lines that fit `width`.
std::vector<std::string> wrap(std::string_view text, size_t width) {
  std::vector<std::string> lines;
  std::string line;
  while (!text.empty()) {
    size_t space = text.find(' ');
    std::string_view word = text.substr(0, space);
    if (!line.empty() && line.size() + 1 + word.size() > width) lines.push_back(std::move(line)), line.clear();
    if (!line.empty()) line += ' ';
    line += word;
    if (space == std::string_view::npos) break;
    text.remove_prefix(space + 1);
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

std::string defaultOf(const Setting& row, TopicSettings& topic, BrokerSettings& broker, bool ofTopic) {
  return row.field->print(ofTopic ? static_cast<void*>(&topic) : ownerOf(row, broker));
}

std::string tomlKey(std::string_view name) {
  for (const Section& section : brokerTable()) {
    for (const Setting& row : section.rows) {
      if (row.name.size() > name.size() && row.name.starts_with(name) && row.name[name.size()] == '.') {
        return fmt::format("\"{}\"", name);  // TOML would take it for a table
      }
    }
  }
  return std::string(name);
}

std::string tomlValue(const Setting& row, const std::string& value) {
  switch (row.field->type) {
    case Type::string:
    case Type::password: return fmt::format("\"{}\"", value);
    case Type::list: {
      std::vector<std::string> items;
      (void)splitList(value, items);
      std::string text;
      for (const std::string& item : items) text += fmt::format("{}\"{}\"", text.empty() ? "" : ", ", item);
      return fmt::format("[{}]", text);
    }
    case Type::float64: {
      // Java's 1.0E308 is also TOML's.
      return value;
    }
    default: return value;
  }
}

std::string aliasesOf(const Setting& row) {
  std::string text;
  for (const Alias& alias : row.aliases) {
    if (alias.name.empty()) continue;
    text += text.empty() ? "Also: " : ", ";
    text += alias.name;
  }
  return text.empty() ? text : text + ". ";
}

// scdoc takes these for markup.
std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '*' || c == '_' || c == '\\' || c == '<' || c == '[' || c == '#') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

std::string exampleToml() {
  std::string page;
  auto comment = [&](std::string_view text) {
    for (const std::string& line : wrap(text, 110)) page += "# " + line + "\n";
  };
  std::string_view intro = kIntro;
  while (!intro.empty()) {
    size_t end = intro.find('\n');
    page += end == 0 ? "#\n" : fmt::format("# {}\n", intro.substr(0, end));
    intro.remove_prefix(end + 1);
  }
  TopicSettings topic;
  BrokerSettings broker;
  for (const Section& section : brokerTable()) {
    page += fmt::format("\n\n# {}\n# {}\n", section.title, std::string(section.title.size(), '-'));
    for (const Setting& row : section.rows) {
      if (row.hidden) continue;
      page += "\n";
      comment(row.doc);
      comment(fmt::format("{}Allowed: {}.{}", aliasesOf(row), row.field->allowed(row),
                          row.change == Change::live ? " Live." : ""));
      page += fmt::format("# {} = {}\n", tomlKey(row.name), tomlValue(row, defaultOf(row, topic, broker, false)));
    }
  }
  return page;
}

std::string manualScdoc() {
  std::string page =
      "mq.toml(5)\n\n# NAME\n\nmq.toml - configuration of mq serve\n\n# DESCRIPTION\n\n"
      "*mq serve --config FILE* reads settings from a TOML file. Names and units are Kafka's where Kafka has the "
      "option, written as "
      "dotted keys (*log.retention.ms = 3600000*), as tables or in quotes. An unknown key or a value that is not "
      "allowed "
      "stops the start.\n\n"
      "Later ones win: default, file, environment (*MQ\\_CFG\\_NUM\\_PARTITIONS=3*), command line (*--set "
      "num.partitions=3*), "
      "then what was set while the broker ran, for the whole cluster and for one broker. Of two spellings in one layer "
      "the "
      "finer unit wins. *mq config explain* shows each value and its source.\n\n"
      "Settings marked live can be changed while the broker runs.\n";
  TopicSettings topic;
  BrokerSettings broker;
  auto printRow = [&](const Setting& row, const std::string& value, bool overrides) {
    page += fmt::format("\n*{}*\n", escaped(row.name));
    for (const std::string& line : wrap(row.doc, 100)) page += "\t" + escaped(line) + "\n";
    std::string facts = fmt::format("{}Allowed: {}. Default: {}.", overrides ? "" : aliasesOf(row),
                                    row.field->allowed(row), value.empty() ? "empty" : value);
    if (overrides && !row.broker.empty()) facts += fmt::format(" Default for all: {}.", row.broker);
    if (!overrides && row.change == Change::live) facts += " Live.";
    page += "\n";
    for (const std::string& line : wrap(facts, 100)) page += "\t" + escaped(line) + "\n";
  };
  auto print = [&](const Setting& row, bool ofTopic) {
    printRow(row, defaultOf(row, topic, broker, ofTopic), ofTopic);
  };
  for (const Section& section : brokerTable()) {
    std::string title(section.title);
    std::transform(title.begin(), title.end(), title.begin(),
                   [](char c) { return c >= 'a' && c <= 'z' ? c - 'a' + 'A' : c; });
    page += fmt::format("\n# {}\n", title);
    for (const Setting& row : section.rows) {
      if (!row.hidden) print(row, false);
    }
  }
  page +=
      "\n# TOPIC SETTINGS\n\nSet per topic (*mq topic create -c*, *mq topic alter -c*); they always take effect at "
      "once.\n";
  for (const Section& section : topicTable()) {
    for (const Setting& row : section.rows) {
      if (!row.hidden) print(row, true);
    }
  }
  page +=
      "\n# GROUP SETTINGS\n\nSet per group in the consumer protocol (AlterConfigs of resource type GROUP); they always "
      "take effect at once.\n";
  ConsumerGroupSettings group;
  for (const Section& section : groupTable()) {
    for (const Setting& row : section.rows) printRow(row, row.field->print(&group), true);
  }
  page += "\n# SEE ALSO\n\n*mq*(1)\n";
  return page;
}

}  // namespace mq::config
