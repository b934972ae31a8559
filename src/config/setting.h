// Setting: one row per option. Parsing, ranges, DescribeConfigs, live change, etc/mq.toml, man/mq.toml.5 and the draws
// of the simulation all read the row; nothing else knows an option's name.
//
// A row points at one member of a plain struct (TopicSettings, BrokerSettings). The member's initializer is the
// default, its C++ type decides how text is parsed and which type DescribeConfigs reports, and its unit is part of the
// name, as in Kafka. Values travel as text (TOML, flags, the protocol, metadata records); they are parsed where they
// enter and refused there, so that code which reads a struct never sees a value out of range.
//
// A number written with a blank, a unit ("7d", "168h") or a sign of the wrong kind is an error that says what is
// allowed; it is never guessed at. Pure: no clock, file or environment.
#pragma once
#include <array>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace mq {
class Prng;
}

namespace mq::config {

// Kafka's numbers for DescribeConfigs.
enum class Type : int8_t {
  boolean = 1,
  string = 2,
  int32 = 3,
  int16 = 4,
  int64 = 5,
  float64 = 6,
  list = 7,
  password = 9,
};

// Where a value comes from: Kafka's numbers for DescribeConfigs. Later layers win: default < static < dynamic default
// < dynamic broker < dynamic topic or group.
enum class Source : int8_t {
  dynamicTopic = 1,
  dynamicBroker = 2,
  dynamicDefaultBroker = 3,
  staticBroker = 4,
  defaultValue = 5,
  dynamicGroup = 8,
};
std::string_view nameOf(Source source);  // "dynamic topic", ..., "default", "dynamic group"

enum class Change : uint8_t { live, restart };

// Values by name, as metadata holds them for a topic or a broker. Ordered, so that every node lists them alike.
using Overrides = std::map<std::string, std::string, std::less<>>;

// Another spelling of a setting in a coarser unit: log.retention.hours is log.retention.ms times 3,600,000.
struct Alias {
  std::string_view name = {};
  int64_t factor = 1;
};

// What can be done with a member without knowing its type; made by field<&Struct::member>().
struct Field {
  Type type;
  // Sets the member from text; otherwise says what is wrong in words that go behind "key=value: ", and leaves it alone.
  std::optional<std::string> (*parse)(const struct Setting& row, std::string_view text, void* object);
  std::string (*print)(const void* object);           // parse(print(x)) is x; doubles print as Java does
  std::string (*allowed)(const struct Setting& row);  // "at least 1", "one of a, b", "true or false"
  // As print shows it after parse; none: it is not allowed.
  std::optional<std::string> (*normalise)(const struct Setting& row, std::string_view text);
};

struct Setting {
  std::string_view name;
  std::string_view broker = {};       // of a topic setting: the broker setting that is its default; empty: none
  std::array<Alias, 2> aliases = {};  // finest first; of a topic setting: of the broker setting
  const Field* field = nullptr;
  int64_t min = std::numeric_limits<int64_t>::min();
  int64_t max = std::numeric_limits<int64_t>::max();
  Change change = Change::restart;
  bool secret = false;                  // its value is shown to nobody
  bool hidden = false;                  // accepted, but listed nowhere (for tests)
  std::array<int64_t, 2> sim = {0, 0};  // the simulation draws from [first, second]; {0, 0}: keeps the default
  std::string_view doc = {};            // sentences for an operator
};

// Rows in the order of the documentation, with headings.
struct Section {
  std::string_view title;
  std::span<const Setting> rows;
};
using Table = std::span<const Section>;

const Setting* find(Table table, std::string_view name);  // by name only, not by alias; null: unknown
// The known name nearest to a misspelt one, if near enough to be meant; else empty.
std::string nearest(std::string_view misspelt, std::span<const std::string_view> known);

// Parses one value into the struct. The failure's message is for a person: key, value, what is allowed.
Result<void> assign(const Setting& row, std::string_view value, void* object);

// A value as a message shows it: without control characters, at most a line, in quotes if a blank would hide.
std::string quoted(std::string_view value);

// For the simulation: about half of the settings that have a `sim` range, with a value from it.
Overrides simulated(Table table, Prng& random);

// One line of DescribeConfigs or `mq config explain`.
struct Synonym {
  std::string name;
  std::string value;
  Source source = Source::defaultValue;
  std::string where;  // "mq.toml:12", "MQ_CFG_NUM_PARTITIONS", "--set"; empty for defaults and dynamic values
};
struct Entry {
  std::string name;
  std::string value;  // empty if secret
  Type type = Type::string;
  Source source = Source::defaultValue;
  std::string where;      // as Synonym's
  bool readOnly = false;  // cannot be changed while the broker runs
  bool secret = false;
  std::vector<Synonym> synonyms;  // what would hold if the ones before it were not there; the first one is in force
  std::string_view doc;
};

// IncrementalAlterConfigs. Kafka's numbers.
enum class AlterOp : int8_t { set = 0, remove = 1, append = 2, subtract = 3 };
struct Alteration {
  std::string name;
  AlterOp op = AlterOp::set;
  std::optional<std::string> value;  // unused by remove
};

}  // namespace mq::config
