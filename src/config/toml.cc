// mq.toml: the only place that sees toml++. Tables are only a way to write dotted names: [log] retention.ms = 1,
// log.retention.ms = 1 and "log.retention.ms" = 1 are the same. A name that another one continues (max.connections,
// max.connections.per.ip) has to be quoted where both are given, because TOML takes one of them for a table.
//
// A value must have the type of its setting: a number in quotes or a word without is an error, not a guess.
#include <toml++/toml.h>

#include "config/names.h"
#include "config/text.h"

namespace mq::config {
namespace {

constexpr size_t kDepthMax = 16;

std::string_view kindOf(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::none: return "nothing";
    case toml::node_type::table: return "a table";
    case toml::node_type::array: return "an array";
    case toml::node_type::string: return "text in quotes";
    case toml::node_type::integer: return "a whole number";
    case toml::node_type::floating_point: return "a number with a fraction";
    case toml::node_type::boolean: return "true or false";
    default: return "a date or time";
  }
}

std::string_view wants(Type type) {
  switch (type) {
    case Type::boolean: return "true or false, without quotes";
    case Type::int16:
    case Type::int32:
    case Type::int64: return "a whole number, without quotes or unit";
    case Type::float64: return "a number, without quotes";
    case Type::list: return "text in quotes, or an array of them";
    case Type::string:
    case Type::password: return "text in quotes";
  }
  return "another type";
}

class Reader {
 public:
  Reader(const std::string& path, std::vector<Problem>& problems) : path_(path), problems_(problems) {}

  void table(const std::string& prefix, const toml::table& from, size_t depth) {
    for (const auto& [key, node] : from) {
      std::string name = prefix.empty() ? std::string(key.str()) : fmt::format("{}.{}", prefix, key.str());
      size_t line = key.source().begin.line;
      Meaning meaning = meaningOf(name);
      if (const toml::table* inner = node.as_table()) {
        if (depth == kDepthMax) {
          report(line, "tables are nested too deep");
        } else if (inner->empty()) {
          // [log] with nothing in it says nothing; but a setting is no table.
          if (meaning.row != nullptr) wrongType(line, name, meaning, node);
        } else {
          table(name, *inner, depth + 1);
        }
        continue;
      }
      if (meaning.row == nullptr) {
        report(line, unknownBrokerSetting(name).message);
        continue;
      }
      if (std::optional<std::string> value = text(meaning, node)) {
        given_.push_back({std::move(name), std::move(*value), fmt::format("{}:{}", path_, line), line});
      } else {
        wrongType(line, name, meaning, node);
      }
    }
  }
  std::vector<Given> take() { return std::move(given_); }

 private:
  void report(size_t line, std::string text) {
    problems_.push_back({fmt::format("{}:{}", path_, line), std::move(text), line});
  }
  void wrongType(size_t line, const std::string& name, const Meaning& meaning, const toml::node& node) {
    report(line, fmt::format("{} is {}, but needs {}", name, kindOf(node), wants(meaning.row->field->type)));
  }

  static std::optional<std::string> text(const Meaning& meaning, const toml::node& node) {
    switch (meaning.row->field->type) {
      case Type::boolean:
        if (const auto* value = node.as_boolean()) return value->get() ? "true" : "false";
        return std::nullopt;
      case Type::int16:
      case Type::int32:
      case Type::int64:
        if (const auto* value = node.as_integer()) return fmt::format_int(value->get()).str();
        return std::nullopt;
      case Type::float64:
        if (const auto* value = node.as_integer()) return fmt::format_int(value->get()).str();
        if (const auto* value = node.as_floating_point()) return fmt::format("{}", value->get());
        return std::nullopt;
      case Type::list:
        if (const auto* items = node.as_array()) {
          std::vector<std::string> texts;
          for (const toml::node& item : *items) {
            const auto* value = item.as_string();
            // A comma inside an item would make two of it.
            if (value == nullptr || value->get().find(',') != std::string::npos) return std::nullopt;
            texts.push_back(value->get());
          }
          return joinList(texts);
        }
        [[fallthrough]];
      case Type::string:
      case Type::password:
        if (const auto* value = node.as_string()) return value->get();
        return std::nullopt;
    }
    return std::nullopt;
  }

  const std::string& path_;
  std::vector<Problem>& problems_;
  std::vector<Given> given_;
};

std::string lineOf(const std::string& text, size_t number) {
  size_t start = 0;
  while (--number > 0) {
    start = text.find('\n', start);
    if (start == std::string::npos) return {};
    ++start;
  }
  return text.substr(start, text.find('\n', start) - start);
}

}  // namespace

std::vector<Given> readToml(const std::string& path, const std::string& text, std::vector<Problem>& problems) {
  try {
    toml::table table = toml::parse(text, path);
    Reader reader(path, problems);
    reader.table("", table, 0);
    return reader.take();
  } catch (const toml::parse_error& error) {
    size_t line = error.source().begin.line;
    std::string at = line == 0 ? "" : lineOf(text, line);
    std::string hint;
    if (at.find("max.connections") != std::string::npos) {
      hint = "; where max.connections and max.connections.per.ip are both given, write \"max.connections\" in quotes";
    }
    problems.push_back({fmt::format("{}:{}", path, line), fmt::format("{} (column {}: {}){}", error.description(),
                                                                      error.source().begin.column, quoted(at), hint)});
    return {};
  }
}

}  // namespace mq::config
