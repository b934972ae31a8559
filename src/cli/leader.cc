// `mq leader elect|balance` and `mq reassign move|status|cancel`: who leads partitions, and which brokers hold them.
#include <algorithm>
#include <charconv>

#include "cli/admin.h"
#include "cli/commands.h"
#include "cli/group_admin.h"
#include "cli/output.h"
#include "wire/alter_partition_reassignments_request.h"
#include "wire/alter_partition_reassignments_response.h"
#include "wire/elect_leaders_request.h"
#include "wire/elect_leaders_response.h"
#include "wire/list_partition_reassignments_request.h"
#include "wire/list_partition_reassignments_response.h"

namespace mq::cli {
namespace {

constexpr int8_t kPreferred = 0, kUnclean = 1;  // ElectLeaders' numbers

// "TOPIC" or "TOPIC:0,3" with the partitions that are there.
std::vector<TopicPartition> partitionsOf(Client& client, const std::vector<std::string>& words) {
  std::vector<TopicPartition> all;
  for (const std::string& word : words) {
    TopicSelection selection = parseSelection(word, "TOPIC[:N,...]");
    std::vector<std::string> names = {selection.topic};
    auto metadata = client.metadata(&names);
    if (metadata.topics.empty() || metadata.topics[0].errorCode != Error::none)
      fail(exitNotFound, "there is no topic '{}'; mq topic list shows all", selection.topic);
    if (selection.partitions.empty())
      for (const auto& partition : metadata.topics[0].partitions)
        selection.partitions.push_back(partition.partitionIndex);
    for (int32_t partition : selection.partitions) all.push_back({selection.topic, partition});
  }
  std::sort(all.begin(), all.end());
  return all;
}

std::string nameOf(const TopicPartition& partition) {
  return fmt::format("{}-{}", partition.topic, partition.partition);
}

int elect(const Arguments& arguments, int8_t type, bool all) {
  Client client(clientOptions(arguments));
  wire::ElectLeadersRequest request;
  request.electionType = type;
  request.timeoutMs = static_cast<int32_t>(client.timeout().count());
  if (all) {
    request.topicPartitions.reset();
  } else {
    request.topicPartitions.emplace();
    for (const TopicPartition& partition : partitionsOf(client, arguments.positionals())) {
      auto& topics = *request.topicPartitions;
      if (topics.empty() || topics.back().topic != partition.topic) topics.push_back({.topic = partition.topic});
      topics.back().partitions.push_back(partition.partition);
    }
  }
  auto answer = client.call(request);
  Outcome outcome;
  if (answer.errorCode != Error::none) outcome.add("election", answer.errorCode, std::nullopt);
  size_t elected = 0, needless = 0;
  for (const auto& topic : answer.replicaElectionResults) {
    for (const auto& result : topic.partitionResult) {
      if (result.errorCode == Error::electionNotNeeded) {
        ++needless;
        continue;
      }
      elected += result.errorCode == Error::none;
      outcome.add(fmt::format("{}-{}", topic.topic, result.partitionId), result.errorCode, result.errorMessage);
    }
  }
  fmt::print(stderr, "mq: {} elected, {} had the right leader\n", elected, needless);
  return outcome.exitCode();
}

int runElect(const Arguments& arguments) {
  const bool unclean = arguments.has("unclean");
  if (arguments.positionals().empty() != arguments.has("all"))
    fail(exitUsage, "which? Partitions as TOPIC[:N,...], or --all");
  if (unclean) confirm(arguments, "elect leaders that may lack acknowledged records, which are lost then?");
  return elect(arguments, unclean ? kUnclean : kPreferred, arguments.has("all"));
}

int runBalance(const Arguments& arguments) { return elect(arguments, kPreferred, true); }

// --- replicas

std::vector<int32_t> brokerIds(const std::string& text) {
  std::vector<int32_t> ids;
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    int32_t id = -1;
    auto [stop, error] = std::from_chars(text.data() + at, text.data() + end, id);
    if (error != std::errc() || stop != text.data() + end || id < 0)
      fail(exitUsage, "--to {}: it takes broker ids, as 1,2,3", text);
    ids.push_back(id);
    at = end + 1;
  }
  return ids;
}

int alter(Client& client, const std::vector<TopicPartition>& partitions, const std::optional<std::vector<int32_t>>& to,
          bool spread) {
  wire::AlterPartitionReassignmentsRequest request;
  request.timeoutMs = static_cast<int32_t>(client.timeout().count());
  for (const TopicPartition& partition : partitions) {
    if (request.topics.empty() || request.topics.back().name != partition.topic)
      request.topics.push_back({.name = partition.topic});
    auto& row = request.topics.back().partitions.emplace_back();
    row.partitionIndex = partition.partition;
    row.replicas.reset();
    if (!to) continue;
    row.replicas = *to;
    // Another one first with each partition: so the leaders are spread.
    if (spread)
      std::rotate(row.replicas->begin(), row.replicas->begin() + partition.partition % static_cast<int32_t>(to->size()),
                  row.replicas->end());
  }
  auto answer = client.call(request);
  Outcome outcome;
  if (answer.errorCode != Error::none) outcome.add("reassignment", answer.errorCode, answer.errorMessage);
  for (const auto& topic : answer.responses)
    for (const auto& partition : topic.partitions)
      outcome.add(fmt::format("{}-{}", topic.name, partition.partitionIndex), partition.errorCode,
                  partition.errorMessage);
  return outcome.exitCode();
}

int runMove(const Arguments& arguments) {
  auto to = arguments.text("to");
  if (!to) fail(exitUsage, "where to? --to 1,2,3");
  std::vector<int32_t> ids = brokerIds(*to);
  Client client(clientOptions(arguments));
  auto partitions = partitionsOf(client, arguments.positionals());
  if (arguments.has("dry-run")) {
    fmt::print(stderr, "mq: would move {} partitions to brokers {}\n", partitions.size(), *to);
    return exitDone;
  }
  return alter(client, partitions, ids, true);
}

std::vector<wire::ListPartitionReassignmentsResponse::OngoingTopicReassignment> underWay(Client& client) {
  wire::ListPartitionReassignmentsRequest request;
  request.timeoutMs = static_cast<int32_t>(client.timeout().count());
  request.topics.reset();
  auto answer = client.call(request);
  if (answer.errorCode != Error::none)
    fail(exitFailed, "{}: {}", client.where(), describeError(answer.errorCode, answer.errorMessage));
  return std::move(answer.topics);
}

int runStatus(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Output out;
  Table table({"PARTITION", "REPLICAS", "ADDING", "REMOVING"});
  size_t count = 0;
  for (const auto& topic : underWay(client)) {
    for (const auto& partition : topic.partitions) {
      ++count;
      table.row({fmt::format("{}-{}", topic.name, partition.partitionIndex),
                 fmt::format("{}", fmt::join(partition.replicas, ",")),
                 fmt::format("{}", fmt::join(partition.addingReplicas, ",")),
                 fmt::format("{}", fmt::join(partition.removingReplicas, ","))});
    }
  }
  if (count > 0)
    table.print(out);
  else
    fmt::print(stderr, "mq: nothing is under way\n");
  out.flush();
  return exitDone;
}

int runCancel(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  std::vector<TopicPartition> partitions;
  if (arguments.has("all") == !arguments.positionals().empty())
    fail(exitUsage, "which? Partitions as TOPIC[:N,...], or --all");
  if (arguments.has("all")) {
    for (const auto& topic : underWay(client))
      for (const auto& partition : topic.partitions) partitions.push_back({topic.name, partition.partitionIndex});
  } else {
    partitions = partitionsOf(client, arguments.positionals());
  }
  if (partitions.empty()) fail(exitNothing, "nothing is under way");
  std::string names;
  for (const TopicPartition& partition : partitions) names += (names.empty() ? "" : ", ") + nameOf(partition);
  if (arguments.has("dry-run")) {
    fmt::print(stderr, "mq: would cancel the reassignment of {}\n", names);
    return exitDone;
  }
  return alter(client, partitions, std::nullopt, false);
}

}  // namespace

std::vector<Command> leaderCommands() {
  const std::vector<Positional> partitions = {
      {.name = "TOPIC[:N,...]", .help = "a topic, or some of its partitions", .required = false, .repeats = true}};
  return {
      {.path = "leader", .summary = "Change which replica leads"},
      {.path = "reassign", .summary = "Change which brokers hold replicas"},
      {.path = "leader elect",
       .summary = "Elect leaders: the preferred replica, or with --unclean any that lives",
       .details =
           "The preferred replica is the first of a partition's list; it is elected when it is in sync. --unclean is "
           "for "
           "partitions that have no leader because every replica that holds all acknowledged records is gone: what the "
           "elected one lacks is lost.",
       .positionals = partitions,
       .flags = withBrokerFlags({{.name = "all", .help = "every partition that needs it"},
                                 {.name = "unclean", .help = "accept the loss of acknowledged records"},
                                 kYes}),
       .examples = {{"mq leader elect orders:3", "one partition"}},
       .run = runElect},
      {.path = "leader balance",
       .summary = "Lead every partition from its preferred replica, where that is in sync",
       .flags = withBrokerFlags({}),
       .run = runBalance},
      {.path = "reassign move",
       .summary = "Move partitions to other brokers, or change their number of replicas",
       .details = "The new replicas are filled first; when all of them are in sync the old ones go. Leaders are spread "
                  "over the "
                  "named brokers.",
       .positionals = partitions,
       .flags = withBrokerFlags(
           {{.name = "to", .value = "ID,...", .help = "the brokers that hold each of them then"}, kDryRun}),
       .examples = {{"mq reassign move orders --to 1,2,4", "three replicas, on these brokers"}},
       .run = runMove},
      {.path = "reassign status",
       .summary = "Show the reassignments under way",
       .flags = withBrokerFlags({}),
       .run = runStatus},
      {.path = "reassign cancel",
       .summary = "Go back to the replicas before a reassignment",
       .positionals = partitions,
       .flags = withBrokerFlags({{.name = "all", .help = "all that are under way"}, kDryRun}),
       .examples = {{"mq reassign cancel --all", "every one"}},
       .run = runCancel},
  };
}

}  // namespace mq::cli
