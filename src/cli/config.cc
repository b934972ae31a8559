// `mq config get|list|set|explain`: settings of topics and brokers, with where each value comes from.
#include <algorithm>

#include "cli/admin.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "config/broker_settings.h"
#include "config/topic_settings.h"
#include "wire/describe_configs_request.h"
#include "wire/describe_configs_response.h"
#include "wire/incremental_alter_configs_request.h"
#include "wire/incremental_alter_configs_response.h"

namespace mq::cli {
namespace {

struct Resource {
  int8_t type = kBrokerResource;
  std::string name;  // topic, node id, or empty: the default of all brokers
  std::string describe() const {
    if (type == kTopicResource) return fmt::format("topic '{}'", name);
    return name.empty() ? "all brokers" : fmt::format("broker {}", name);
  }
};

std::vector<Flag> withResourceFlags(std::vector<Flag> own) {
  own.push_back({.name = "topic", .shortNames = "t", .value = "TOPIC", .help = "of this topic"});
  own.push_back({.name = "broker", .value = "ID", .help = "of this broker"});
  own.push_back({.name = "all-brokers", .help = "the cluster-wide default of all brokers"});
  return withBrokerFlags(std::move(own));
}

Resource resourceOf(const Arguments& arguments, Client& client) {
  int given = arguments.has("topic") + arguments.has("broker") + arguments.has("all-brokers");
  if (given > 1) fail(exitUsage, "only one of --topic, --broker and --all-brokers makes sense at a time");
  if (auto topic = arguments.text("topic")) return {kTopicResource, *topic};
  if (auto broker = arguments.number("broker", 0, INT32_MAX)) return {kBrokerResource, std::to_string(*broker)};
  if (arguments.has("all-brokers")) return {kBrokerResource, ""};
  // Nothing said: the broker we talk to, if there is only one.
  static const std::vector<std::string> none;
  auto metadata = client.metadata(&none);
  if (metadata.brokers.size() != 1) fail(exitUsage, "which one? --topic TOPIC, --broker ID or --all-brokers");
  return {kBrokerResource, std::to_string(metadata.brokers[0].nodeId)};
}

wire::DescribeConfigsResponse::DescribeConfigsResult describe(Client& client, const Resource& resource,
                                                              std::optional<std::vector<std::string>> keys) {
  wire::DescribeConfigsRequest request;
  auto& row = request.resources.emplace_back();
  row.resourceType = resource.type;
  row.resourceName = resource.name;
  row.configurationKeys = std::move(keys);
  request.includeSynonyms = true;
  request.includeDocumentation = true;
  // A broker's own settings are known to that broker only.
  int32_t broker = resource.type == kBrokerResource && !resource.name.empty()
                       ? static_cast<int32_t>(std::stol(resource.name))
                       : Client::kAnyBroker;
  auto response = client.call(request, broker);
  if (response.results.empty()) fail(exitFailed, "{} gave no answer for {}", client.where(), resource.describe());
  auto& result = response.results[0];
  if (result.errorCode != Error::none)
    fail(exitCodeOf(result.errorCode), "{}: {}", resource.describe(),
         describeError(result.errorCode, result.errorMessage));
  std::sort(result.configs.begin(), result.configs.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return result;
}

std::string sourceName(int8_t source) {
  return source >= 1 && source <= 5 ? std::string(config::nameOf(static_cast<config::Source>(source)))
                                    : fmt::format("source {}", source);
}

int runGet(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Resource resource = resourceOf(arguments, client);
  auto result = describe(client, resource, arguments.positionals());
  Output out;
  int exitCode = exitDone;
  for (const std::string& key : arguments.positionals()) {
    auto found = std::find_if(result.configs.begin(), result.configs.end(), [&](auto& c) { return c.name == key; });
    if (found == result.configs.end()) {
      fmt::print(stderr, "mq: {} has no setting '{}'; mq config list shows them\n", resource.describe(), key);
      exitCode = exitNotFound;
    } else {
      out.write(found->value.value_or("") + "\n");
    }
  }
  out.flush();
  return exitCode;
}

int runList(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Resource resource = resourceOf(arguments, client);
  auto result = describe(client, resource, std::nullopt);
  Output out;
  Table table({"KEY", "VALUE", "FROM"});
  for (const auto& config : result.configs) {
    if (arguments.has("changed") && config.configSource == 5) continue;
    table.row(
        {config.name, config.isSensitive ? "(secret)" : config.value.value_or(""), sourceName(config.configSource)});
  }
  table.print(out);
  out.flush();
  return exitDone;
}

int runSet(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Resource resource = resourceOf(arguments, client);
  wire::IncrementalAlterConfigsRequest request;
  request.validateOnly = arguments.has("dry-run");
  auto& row = request.resources.emplace_back();
  row.resourceType = resource.type;
  row.resourceName = resource.name;
  for (const std::string& text : arguments.positionals()) {
    auto [key, value] = keyValue(text, "mq config set");
    row.configs.push_back({.name = key, .configOperation = 0, .value = value, .unknownTags = {}});
  }
  for (const std::string& key : arguments.all("delete")) {
    row.configs.push_back({.name = key, .configOperation = 1, .value = std::nullopt, .unknownTags = {}});
  }
  if (row.configs.empty()) fail(exitUsage, "nothing to set: give KEY=VALUE or -d KEY");
  auto response = client.call(request, Client::kController);
  Outcome outcome;
  Output out;
  for (const auto& result : response.responses) {
    outcome.add(resource.describe(), result.errorCode, result.errorMessage);
    if (result.errorCode != Error::none) continue;
    std::string verb = request.validateOnly ? "would set" : "set";
    for (const std::string& text : arguments.positionals())
      out.write(fmt::format("{} {} {}\n", verb, resource.describe(), text));
    for (const std::string& key : arguments.all("delete"))
      out.write(fmt::format("{} {} {} to its default\n", verb, resource.describe(), key));
  }
  out.flush();
  return outcome.exitCode();
}

// The documentation of our tables; the value and its layers from the broker, if one answers.
int runExplain(const Arguments& arguments) {
  std::string key = *arguments.positional(0);
  bool topic = arguments.has("topic");
  config::Table table = topic ? config::topicTable() : config::brokerTable();
  const config::Setting* row = config::find(table, key);
  if (!row && !topic && (row = config::find(config::topicTable(), key))) topic = true;
  if (!row) {
    std::vector<std::string_view> names;
    for (config::Table each : {config::topicTable(), config::brokerTable()}) {
      for (const config::Section& section : each) {
        for (const config::Setting& setting : section.rows) names.push_back(setting.name);
      }
    }
    std::string near = config::nearest(key, names);
    if (near.empty()) fail(exitNotFound, "there is no setting '{}'", key);
    fail(exitNotFound, "there is no setting '{}'; did you mean '{}'?", key, near);
  }
  Output out;
  out.write(fmt::format("{}\n  {}\n", row->name, row->doc));
  if (row->field) out.write(fmt::format("  allowed: {}\n", row->field->allowed(*row)));
  out.write(fmt::format("  {}\n", topic ? "a setting of topics; the broker's default is what topics without it get"
                                  : row->change == config::Change::live
                                      ? "a setting of brokers; can be changed while they run"
                                      : "a setting of brokers; fixed at start"));
  if (topic && !row->broker.empty()) out.write(fmt::format("  the broker's default: {}\n", row->broker));
  if (topic && !arguments.has("topic")) {
    out.flush();
    return exitDone;
  }
  Client client(clientOptions(arguments));
  Resource resource = resourceOf(arguments, client);
  auto result = describe(client, resource, std::vector<std::string>{std::string(row->name)});
  for (const auto& config : result.configs) {
    if (config.name != row->name) continue;
    out.write(fmt::format("  in force for {}: {} ({})\n", resource.describe(),
                          config.isSensitive ? "(secret)" : config.value.value_or(""),
                          sourceName(config.configSource)));
    for (const auto& synonym : config.synonyms)
      out.write(fmt::format("    {}={} ({})\n", synonym.name, synonym.value.value_or(""), sourceName(synonym.source)));
    // Behind our text the broker says which file, variable or flag; another broker may have other texts.
    std::string_view said = config.documentation ? std::string_view(*config.documentation) : std::string_view();
    for (size_t at = said.find('\n'); at < said.size();) {
      size_t end = std::min(said.find('\n', at + 1), said.size());
      out.write(fmt::format("    {}\n", said.substr(at + 1, end - at - 1)));
      at = end;
    }
  }
  out.flush();
  return exitDone;
}

}  // namespace

std::vector<Command> configCommands() {
  return {
      {.path = "config", .summary = "Show, explain and change settings of topics and brokers"},
      {.path = "config get",
       .summary = "Print the values of settings, one a line",
       .positionals = {{.name = "KEY", .help = "such as retention.ms", .repeats = true}},
       .flags = withResourceFlags({}),
       .examples = {{"mq config get -t orders retention.ms", "one value"}},
       .run = runGet},
      {.path = "config list",
       .summary = "List settings with their values and where these come from",
       .flags = withResourceFlags({{.name = "changed", .help = "only those that are not at their default"}}),
       .run = runList},
      {.path = "config set",
       .summary = "Change settings",
       .positionals = {{.name = "KEY=VALUE", .help = "what to set", .required = false, .repeats = true}},
       .flags = withResourceFlags(
           {{.name = "delete", .shortNames = "d", .value = "KEY", .help = "back to the default", .repeats = true},
            kDryRun}),
       .examples = {{"mq config set -t orders retention.ms=86400000", "keep a day"}},
       .run = runSet},
      {.path = "config explain",
       .summary = "Say what a setting does, what it may be, and what is in force and why",
       .positionals = {{.name = "KEY", .help = "such as retention.ms"}},
       .flags = withResourceFlags({}),
       .run = runExplain},
  };
}

}  // namespace mq::cli
