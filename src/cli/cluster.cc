// `mq cluster ...`, `mq broker list`: what the cluster is, whether it is well, and who votes in its quorum.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "base/address.h"
#include "cli/admin.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "wire/add_raft_voter_request.h"
#include "wire/add_raft_voter_response.h"
#include "wire/describe_quorum_request.h"
#include "wire/describe_quorum_response.h"
#include "wire/metadata_request.h"
#include "wire/remove_raft_voter_request.h"
#include "wire/remove_raft_voter_response.h"

namespace mq::cli {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kPause{200};

struct Load {
  int64_t leaders = 0, replicas = 0;
};

std::map<int32_t, Load> loadsOf(const wire::MetadataResponse& metadata) {
  std::map<int32_t, Load> loads;
  for (const auto& topic : metadata.topics) {
    for (const auto& partition : topic.partitions) {
      ++loads[partition.leaderId].leaders;
      for (int32_t node : partition.replicaNodes) ++loads[node].replicas;
    }
  }
  return loads;
}

int runBrokers(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  auto metadata = client.metadata(nullptr);
  auto loads = loadsOf(metadata);
  Output out;
  Table table({"ID", "ADDRESS", "RACK", "LEADS", "REPLICAS"}, {true, false, false, true, true});
  std::set<int32_t> live;
  for (const auto& broker : metadata.brokers) {
    live.insert(broker.nodeId);
    const Load& load = loads[broker.nodeId];
    table.row({std::to_string(broker.nodeId), Address{broker.host, static_cast<uint16_t>(broker.port)}.toString(),
               broker.rack.value_or("-"), std::to_string(load.leaders), std::to_string(load.replicas)});
  }
  for (const auto& [id, load] : loads) {
    if (id >= 0 && !live.contains(id))
      table.row({std::to_string(id), "not alive", "-", "0", std::to_string(load.replicas)});
  }
  table.print(out);
  out.flush();
  return exitDone;
}

int runInfo(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  auto metadata = client.metadata(nullptr);
  size_t partitions = 0, internal = 0;
  for (const auto& topic : metadata.topics) {
    partitions += topic.partitions.size();
    internal += topic.isInternal;
  }
  Output out;
  out.write(fmt::format("cluster     {}\nbrokers     {}\ntopics      {} and {} internal ones, {} partitions\n",
                        metadata.clusterId.value_or("(not told)"), metadata.brokers.size(),
                        metadata.topics.size() - internal, internal, partitions));
  out.flush();
  return exitDone;
}

struct Health {
  std::vector<std::string> offline;  // partitions without a leader
  std::vector<std::string> lacking;  // replicas missing in the ISR
  std::set<int32_t> away;            // brokers that hold replicas and are not alive
  bool isWell() const { return offline.empty() && lacking.empty() && away.empty(); }
};

Health healthOf(const wire::MetadataResponse& metadata) {
  Health health;
  std::set<int32_t> live;
  for (const auto& broker : metadata.brokers) live.insert(broker.nodeId);
  for (const auto& topic : metadata.topics) {
    for (const auto& partition : topic.partitions) {
      std::string name = fmt::format("{}-{}", topic.name.value_or("?"), partition.partitionIndex);
      if (partition.leaderId < 0)
        health.offline.push_back(fmt::format("{} has no leader: replicas {}, in sync {}", name,
                                             fmt::join(partition.replicaNodes, ","),
                                             fmt::join(partition.isrNodes, ",")));
      else if (partition.isrNodes.size() < partition.replicaNodes.size())
        health.lacking.push_back(fmt::format("{}: in sync {} of {}", name, fmt::join(partition.isrNodes, ","),
                                             fmt::join(partition.replicaNodes, ",")));
      for (int32_t node : partition.replicaNodes)
        if (!live.contains(node)) health.away.insert(node);
    }
  }
  return health;
}

void print(Output& out, const char* what, const std::vector<std::string>& lines) {
  constexpr size_t kShown = 10;
  if (lines.empty()) return;
  out.write(fmt::format("{} {}\n", lines.size(), what));
  for (size_t i = 0; i < std::min(lines.size(), kShown); ++i) out.write("  " + lines[i] + "\n");
  if (lines.size() > kShown) out.write(fmt::format("  ... and {} more\n", lines.size() - kShown));
}

int runHealth(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  const Clock::time_point deadline =
      Clock::now() + std::chrono::seconds(arguments.number("wait", 0, 86400).value_or(0));
  Health health = healthOf(client.metadata(nullptr));
  while (!health.isWell() && Clock::now() < deadline) {
    std::this_thread::sleep_for(kPause);
    health = healthOf(client.metadata(nullptr));
  }
  Output out;
  if (health.isWell()) out.write("healthy: every partition has a leader and all of its replicas\n");
  if (!health.away.empty()) out.write(fmt::format("brokers that are not alive: {}\n", fmt::join(health.away, ", ")));
  print(out, "partitions are offline", health.offline);
  print(out, "partitions lack replicas", health.lacking);
  out.flush();
  return health.isWell() ? exitDone : exitUnhealthy;
}

// --- the quorum

struct Quorum {
  wire::DescribeQuorumResponse response;
  const wire::DescribeQuorumResponse::PartitionData* state = nullptr;

  const wire::DescribeQuorumResponse::ReplicaState* find(int32_t id) const {
    for (auto* list : {&state->currentVoters, &state->observers})
      for (const auto& replica : *list)
        if (replica.replicaId == id) return &replica;
    return nullptr;
  }
};

Quorum readQuorum(Client& client) {
  wire::DescribeQuorumRequest request;
  auto& topic = request.topics.emplace_back();
  topic.topicName = "__cluster_metadata";
  topic.partitions.emplace_back();
  Quorum quorum{.response = client.call(request)};
  if (quorum.response.errorCode != Error::none)
    fail(exitFailed, "{}: {}", client.where(), describeError(quorum.response.errorCode, quorum.response.errorMessage));
  if (quorum.response.topics.empty() || quorum.response.topics[0].partitions.empty())
    fail(exitFailed, "{} tells nothing of its quorum", client.where());
  quorum.state = &quorum.response.topics[0].partitions[0];
  if (quorum.state->errorCode != Error::none)
    fail(exitFailed, "{}: {}", client.where(), describeError(quorum.state->errorCode, quorum.state->errorMessage));
  return quorum;
}

int runQuorum(const Arguments& arguments) {
  Client client(clientOptions(arguments));
  Quorum quorum = readQuorum(client);
  Output out;
  out.write(fmt::format("leader {}, term {}, {} entries committed\n", quorum.state->leaderId, quorum.state->leaderEpoch,
                        quorum.state->highWatermark));
  Table table({"NODE", "ROLE", "LAG", "DIRECTORY"}, {true, false, true, false});
  auto rows = [&](const auto& replicas, const char* role) {
    for (const auto& replica : replicas) {
      std::string lag = replica.logEndOffset < 0
                            ? "?"
                            : std::to_string(std::max<int64_t>(0, quorum.state->highWatermark - replica.logEndOffset));
      table.row({std::to_string(replica.replicaId), replica.replicaId == quorum.state->leaderId ? "leader" : role, lag,
                 replica.replicaDirectoryId.toString()});
    }
  };
  rows(quorum.state->currentVoters, "voter");
  rows(quorum.state->observers, "observer");
  table.print(out);
  out.flush();
  return exitDone;
}

int changeQuorum(const Arguments& arguments, bool joins) {
  Client client(clientOptions(arguments));
  const std::string& word = arguments.positionals().at(0);
  int32_t id = -1;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), id);
  if (error != std::errc() || end != word.data() + word.size() || id < 0) fail(exitUsage, "'{}' is no node id", word);
  Quorum quorum = readQuorum(client);
  const auto* replica = quorum.find(id);
  if (!replica)
    fail(exitNotFound,
         "node {} does not have the metadata log: start it with --controllers; mq cluster quorum shows all", id);
  Outcome outcome;
  std::string what = fmt::format("node {}", id);
  if (arguments.has("dry-run")) {
    fmt::print(stderr, "mq: would make {} {}\n", what, joins ? "a voter" : "leave the quorum");
    return exitDone;
  }
  if (joins) {
    wire::AddRaftVoterRequest request;
    request.clusterId.reset();
    request.voterId = id;
    request.voterDirectoryId = replica->replicaDirectoryId;
    request.timeoutMs = static_cast<int32_t>(client.timeout().count());
    auto answer = client.call(request);
    outcome.add(what, answer.errorCode, answer.errorMessage);
  } else {
    confirm(arguments, fmt::format("take the vote of node {}?", id));
    wire::RemoveRaftVoterRequest request;
    request.clusterId.reset();
    request.voterId = id;
    request.voterDirectoryId = replica->replicaDirectoryId;
    auto answer = client.call(request);
    outcome.add(what, answer.errorCode, answer.errorMessage);
  }
  return outcome.exitCode();
}

int runJoin(const Arguments& arguments) { return changeQuorum(arguments, true); }
int runLeave(const Arguments& arguments) { return changeQuorum(arguments, false); }

}  // namespace

std::vector<Command> clusterCommands() {
  const std::vector<Positional> node = {{.name = "ID", .help = "a node id"}};
  return {
      {.path = "broker", .summary = "Show brokers"},
      {.path = "cluster", .summary = "Show the cluster and change its quorum"},
      {.path = "broker list",
       .summary = "List the brokers and what they hold",
       .flags = withBrokerFlags({}),
       .examples = {{"mq broker list", "all that are alive, and those that should be"}},
       .run = runBrokers},
      {.path = "cluster info",
       .summary = "Show the cluster's id and size",
       .flags = withBrokerFlags({}),
       .run = runInfo},
      {.path = "cluster health",
       .summary = "Say whether every partition has its leader and replicas",
       .details = "Exits with 10 when something is missing, and names it.",
       .flags = withBrokerFlags({{.name = "wait", .value = "SECONDS", .help = "until it is healthy, at most so long"}}),
       .examples = {{"mq cluster health --wait 60", "behind a restart"}},
       .run = runHealth},
      {.path = "cluster quorum",
       .summary = "Show who votes on the metadata and how far each node has come",
       .flags = withBrokerFlags({}),
       .run = runQuorum},
      {.path = "cluster join",
       .summary = "Let a node vote on the metadata",
       .details = "The node runs already and has the metadata log, as an observer (mq cluster quorum): one that was "
                  "added with "
                  "--controllers, or a voter that has lost its data directory.",
       .positionals = node,
       .flags = withBrokerFlags({kDryRun}),
       .examples = {{"mq cluster join 2", "after node 2 has got a new disk"}},
       .run = runJoin},
      {.path = "cluster leave",
       .summary = "Take a node's vote on the metadata",
       .positionals = node,
       .flags = withBrokerFlags({kYes, kDryRun}),
       .examples = {{"mq cluster leave 2", "before node 2 is switched off for good"}},
       .run = runLeave},
  };
}

}  // namespace mq::cli
