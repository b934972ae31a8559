// `mq topic create|list|describe|alter|delete|offsets`.
#include <algorithm>

#include "cli/admin.h"
#include "cli/commands.h"
#include "cli/json_record.h"
#include "cli/offset_range.h"
#include "cli/output.h"
#include "wire/create_partitions_request.h"
#include "wire/create_partitions_response.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/delete_topics_request.h"
#include "wire/delete_topics_response.h"
#include "wire/describe_configs_request.h"
#include "wire/describe_configs_response.h"
#include "wire/incremental_alter_configs_request.h"
#include "wire/incremental_alter_configs_response.h"

namespace mq::cli {
namespace {

int32_t timeoutMs(const Arguments& arguments) { return static_cast<int32_t>(clientOptions(arguments).timeout.count()); }

std::string joined(const std::vector<int32_t>& numbers) {
  std::string text;
  for (int32_t number : numbers) text += (text.empty() ? "" : ",") + std::to_string(number);
  return text;
}

int runCreate(const Arguments& arguments) {
  auto partitions = arguments.number("partitions", 1, INT32_MAX).value_or(-1);
  auto replicas = arguments.number("replication-factor", 1, INT16_MAX).value_or(-1);
  wire::CreateTopicsRequest request;
  request.validateOnly = arguments.has("dry-run");
  request.timeoutMs = timeoutMs(arguments);
  for (const std::string& name : arguments.positionals()) {
    auto& topic = request.topics.emplace_back();
    topic.name = name;
    topic.numPartitions = static_cast<int32_t>(partitions);
    topic.replicationFactor = static_cast<int16_t>(replicas);
    for (const std::string& text : arguments.all("config")) {
      auto [key, value] = keyValue(text, "-c");
      auto& config = topic.configs.emplace_back();
      config.name = key;
      config.value = value;
    }
  }
  Client client(clientOptions(arguments));
  auto response = client.call(request, Client::kController);
  Outcome outcome;
  Output out;
  for (const auto& topic : response.topics) {
    if (topic.errorCode == Error::topicAlreadyExists && arguments.has("if-not-exists")) continue;
    outcome.add(fmt::format("topic '{}'", topic.name), topic.errorCode, topic.errorMessage);
    if (topic.errorCode != Error::none) continue;
    out.write(fmt::format("{} {} ({} partitions, {} replicas)\n", request.validateOnly ? "would create" : "created",
                          topic.name, topic.numPartitions, topic.replicationFactor));
  }
  out.flush();
  return outcome.exitCode();
}

int runList(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  auto metadata = client.metadata(nullptr);
  std::sort(metadata.topics.begin(), metadata.topics.end(), [](auto& a, auto& b) { return a.name < b.name; });
  Output out;
  Table table({"NAME", "PARTITIONS", "REPLICAS"}, {false, true, true});
  for (const auto& topic : metadata.topics) {
    if (topic.isInternal && !arguments.has("internal")) continue;
    size_t replicas = topic.partitions.empty() ? 0 : topic.partitions[0].replicaNodes.size();
    if (arguments.has("json")) {
      std::string line = "{\"name\":";
      appendJsonBytes(line, asBytes(topic.name.value_or("")));
      line += fmt::format(",\"id\":\"{}\",\"partitions\":{},\"replicas\":{},\"internal\":{}}}\n", topic.topicId,
                          topic.partitions.size(), replicas, topic.isInternal);
      out.write(line);
    } else {
      table.row({topic.name.value_or(""), std::to_string(topic.partitions.size()), std::to_string(replicas)});
    }
  }
  if (!arguments.has("json")) table.print(out);
  out.flush();
  return exitDone;
}

// The overrides of a topic, sorted; empty where the broker does not let us look.
std::vector<std::pair<std::string, std::string>> overridesOf(Client& client, const std::string& topic) {
  wire::DescribeConfigsRequest request;
  auto& resource = request.resources.emplace_back();
  resource.resourceType = kTopicResource;
  resource.resourceName = topic;
  resource.configurationKeys = std::nullopt;
  auto response = client.call(request);
  std::vector<std::pair<std::string, std::string>> rows;
  if (response.results.empty() || response.results[0].errorCode != Error::none) return rows;
  for (const auto& config : response.results[0].configs) {
    if (config.configSource == 1) rows.emplace_back(config.name, config.value.value_or(""));
  }
  return rows;
}

int runDescribe(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Output out;
  auto metadata = client.metadata(&arguments.positionals());
  Outcome outcome;
  bool first = true;
  for (auto& topic : metadata.topics) {
    std::string name = topic.name.value_or("");
    outcome.add(fmt::format("topic '{}'", name), topic.errorCode, std::nullopt);
    if (topic.errorCode != Error::none) continue;
    std::sort(topic.partitions.begin(), topic.partitions.end(),
              [](auto& a, auto& b) { return a.partitionIndex < b.partitionIndex; });
    std::vector<int32_t> led;
    for (const auto& partition : topic.partitions) {
      if (partition.leaderId >= 0) led.push_back(partition.partitionIndex);
    }
    auto starts = listOffsets(client, name, led, -2, Read::uncommitted);
    auto ends = listOffsets(client, name, led, -1, Read::uncommitted);
    if (!first) out.write("\n");
    first = false;
    out.write(
        fmt::format("topic       {}\nid          {}\npartitions  {}\n", name, topic.topicId, topic.partitions.size()));
    for (const auto& [key, value] : overridesOf(client, name))
      out.write(fmt::format("config      {}={}\n", key, value));
    out.write("\n");
    Table table({"PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END", "RECORDS"},
                {true, true, true, false, false, true, true, true});
    for (const auto& partition : topic.partitions) {
      bool has = starts.contains(partition.partitionIndex);
      int64_t start = has ? starts[partition.partitionIndex] : -1, end = has ? ends[partition.partitionIndex] : -1;
      table.row({std::to_string(partition.partitionIndex),
                 partition.leaderId < 0 ? "none" : std::to_string(partition.leaderId),
                 std::to_string(partition.leaderEpoch), joined(partition.replicaNodes), joined(partition.isrNodes),
                 has ? std::to_string(start) : "?", has ? std::to_string(end) : "?",
                 has ? std::to_string(end - start) : "?"});
    }
    table.print(out);
  }
  out.flush();
  return outcome.exitCode();
}

int runAlter(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  std::string topic = *arguments.positional(0);
  auto count = arguments.number("partitions", 1, INT32_MAX);
  bool dry = arguments.has("dry-run");
  if (!count && arguments.all("config").empty() && arguments.all("delete").empty())
    fail(exitUsage, "nothing to alter: give --partitions N, -c key=value or -d key");
  Outcome outcome;
  Output out;
  std::string verb = dry ? "would set" : "set";
  if (count) {
    wire::CreatePartitionsRequest request;
    auto& row = request.topics.emplace_back();
    row.name = topic;
    row.count = static_cast<int32_t>(*count);
    row.assignments = std::nullopt;
    request.timeoutMs = timeoutMs(arguments);
    request.validateOnly = dry;
    auto response = client.call(request, Client::kController);
    for (const auto& result : response.results) {
      outcome.add(fmt::format("topic '{}'", topic), result.errorCode, result.errorMessage);
      if (result.errorCode == Error::none) out.write(fmt::format("{} {} partitions={}\n", verb, topic, *count));
    }
  }
  if (outcome.exitCode() == exitDone && !(arguments.all("config").empty() && arguments.all("delete").empty())) {
    wire::IncrementalAlterConfigsRequest request;
    request.validateOnly = dry;
    auto& resource = request.resources.emplace_back();
    resource.resourceType = kTopicResource;
    resource.resourceName = topic;
    for (const std::string& text : arguments.all("config")) {
      auto [key, value] = keyValue(text, "-c");
      resource.configs.push_back({.name = key, .configOperation = 0, .value = value, .unknownTags = {}});
    }
    for (const std::string& key : arguments.all("delete")) {
      resource.configs.push_back({.name = key, .configOperation = 1, .value = std::nullopt, .unknownTags = {}});
    }
    auto response = client.call(request, Client::kController);
    for (const auto& result : response.responses) {
      outcome.add(fmt::format("topic '{}'", topic), result.errorCode, result.errorMessage);
      if (result.errorCode != Error::none) continue;
      for (const std::string& text : arguments.all("config")) out.write(fmt::format("{} {} {}\n", verb, topic, text));
      for (const std::string& key : arguments.all("delete"))
        out.write(fmt::format("{} {} {} to its default\n", verb, topic, key));
    }
  }
  out.flush();
  return outcome.exitCode();
}

int runDelete(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  const auto& names = arguments.positionals();
  Outcome outcome;
  Output out;
  auto metadata = client.metadata(&names);
  std::string list;
  wire::DeleteTopicsRequest request;
  request.timeoutMs = timeoutMs(arguments);
  // By name up to version 5, by name or id from 6 on: both lists are filled, the codec takes the one of the version.
  int16_t version = client.versionOf(wire::DeleteTopicsRequest::kApiKey, wire::DeleteTopicsRequest::kVersionMin,
                                     wire::DeleteTopicsRequest::kVersionMax, Client::kController);
  for (const auto& topic : metadata.topics) {
    std::string name = topic.name.value_or("");
    outcome.add(fmt::format("topic '{}'", name), topic.errorCode, std::nullopt);
    if (topic.errorCode != Error::none) continue;
    list += fmt::format("{}{} ({} partitions)", list.empty() ? "" : ", ", name, topic.partitions.size());
    if (version >= 6)
      request.topics.emplace_back().name = name;
    else
      request.topicNames.push_back(name);
  }
  if (list.empty()) return outcome.exitCode();
  if (arguments.has("dry-run")) {
    out.write(fmt::format("would delete {}\n", list));
    out.flush();
    return outcome.exitCode();
  }
  confirm(arguments, fmt::format("delete {} with all records?", list));
  auto response = client.call(request, Client::kController, version);
  for (const auto& result : response.responses) {
    outcome.add(fmt::format("topic '{}'", result.name.value_or("")), result.errorCode, result.errorMessage);
    if (result.errorCode == Error::none) out.write(fmt::format("deleted {}\n", result.name.value_or("")));
  }
  out.flush();
  return outcome.exitCode();
}

int runOffsets(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  std::string topic = *arguments.positional(0);
  auto partitions = partitionsOf(client, topic);
  Read read = arguments.has("read-uncommitted") ? Read::uncommitted : Read::committed;
  auto start = listOffsets(client, topic, partitions, -2, Read::uncommitted);
  auto end = listOffsets(client, topic, partitions, -1, read);
  std::vector<std::string> head = {"PARTITION", "START", "END", "RECORDS"};
  std::map<int32_t, PartitionBounds> at;
  if (auto point = arguments.text("at")) {
    auto range = parseOffsetRange(*point, wallClockMs());
    if (!range || range->to) fail(exitUsage, "--at: {}", range ? "one point, not a range" : range.failure().message);
    at = resolveBounds(client, topic, partitions, *range, false, read);
    head.push_back("AT");
  }
  Table table(head, {true, true, true, true, true});
  Output out;
  for (int32_t partition : partitions) {
    std::vector<std::string> row = {std::to_string(partition), std::to_string(start[partition]),
                                    std::to_string(end[partition]), std::to_string(end[partition] - start[partition])};
    if (!at.empty()) row.push_back(std::to_string(at[partition].from));
    table.row(row);
  }
  table.print(out);
  out.flush();
  return exitDone;
}

const Positional kTopic = {.name = "TOPIC", .help = "the topic"};
const Positional kTopics = {.name = "TOPIC", .help = "one or more topics", .repeats = true};

}  // namespace

std::vector<Command> topicCommands() {
  return {
      {.path = "topic", .summary = "Create, list, describe, alter and delete topics"},
      {.path = "topic create",
       .summary = "Create topics",
       .positionals = {kTopics},
       .flags = withBrokerFlags({{.name = "partitions",
                                  .shortNames = "p",
                                  .value = "N",
                                  .help = "how many (default: the broker's num.partitions)"},
                                 {.name = "replication-factor",
                                  .shortNames = "r",
                                  .value = "N",
                                  .help = "replicas of each partition (default: the broker's)"},
                                 {.name = "config",
                                  .shortNames = "c",
                                  .value = "KEY=VALUE",
                                  .help = "a setting of the topic",
                                  .repeats = true},
                                 {.name = "if-not-exists", .help = "a topic that is there already is no error"},
                                 kDryRun}),
       .examples = {{"mq topic create orders -p 12 -c retention.ms=86400000", "twelve partitions, kept for a day"}},
       .run = runCreate},
      {.path = "topic list",
       .summary = "List topics",
       .flags = withBrokerFlags({{.name = "internal", .shortNames = "i", .help = "also internal topics"},
                                 {.name = "json", .shortNames = "J", .help = "JSON lines"}}),
       .run = runList},
      {.path = "topic describe",
       .summary = "Show partitions, leaders, offsets and settings",
       .positionals = {kTopics},
       .flags = withBrokerFlags({}),
       .run = runDescribe},
      {.path = "topic alter",
       .summary = "Change settings or add partitions",
       .positionals = {kTopic},
       .flags = withBrokerFlags(
           {{.name = "partitions",
             .shortNames = "p",
             .value = "N",
             .help = "the new total; partitions cannot be taken away"},
            {.name = "config", .shortNames = "c", .value = "KEY=VALUE", .help = "set it", .repeats = true},
            {.name = "delete", .shortNames = "d", .value = "KEY", .help = "back to the default", .repeats = true},
            kDryRun}),
       .run = runAlter},
      {.path = "topic delete",
       .summary = "Delete topics and their records",
       .positionals = {kTopics},
       .flags = withBrokerFlags({kYes, kDryRun}),
       .run = runDelete},
      {.path = "topic offsets",
       .summary = "Show the first and the next offset of each partition",
       .positionals = {kTopic},
       .flags = withBrokerFlags({{.name = "at", .value = "POINT", .help = "also where this is: @TIME, -N, +N"},
                                 {.name = "read-uncommitted", .help = "the end includes open transactions"}}),
       .run = runOffsets},
  };
}

}  // namespace mq::cli
