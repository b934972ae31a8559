#include "controller/discovery.h"

#include <algorithm>

#include "runtime/tasks.h"

namespace mq::controller {
namespace {

constexpr Duration kAskEvery = 100ms;
constexpr Duration kAnswerWithin = 1s;
constexpr Duration kTellEvery = 5s;

struct Heard {
  NodeId node;
  std::optional<NodeStatus> status;
  std::string problem;  // without status
};

Co<Heard> askOne(Peers& peers, NodeId node) {
  Heard heard{node, std::nullopt, {}};
  try {
    heard.status = co_await peers.status(node, kAnswerWithin);
  } catch (...) {
    heard.problem = describe(caughtException());
  }
  co_return heard;
}

std::vector<NodeId> idsOf(const std::vector<config::Voter>& controllers) {
  std::vector<NodeId> ids;
  for (const config::Voter& voter : controllers) ids.emplace_back(voter.id);
  std::ranges::sort(ids);
  return ids;
}

// Empty: all of them may begin a cluster.
std::string obstacle(const std::vector<Heard>& all, const std::vector<NodeId>& listed) {
  for (const Heard& heard : all) {
    if (!heard.status) return fmt::format("node {} cannot be reached ({})", heard.node, heard.problem);
    if (!heard.status->isEmpty) return fmt::format("node {} has data, but no cluster that it knows", heard.node);
    std::vector<NodeId> theirs;
    for (const auto& [id, address] : heard.status->controllers) theirs.push_back(id);
    std::ranges::sort(theirs);
    if (theirs != listed)
      return fmt::format("node {} was given other controllers ({}) than this one ({})", heard.node,
                         fmt::join(theirs, ","), fmt::join(listed, ","));
  }
  return {};
}

}  // namespace

Co<FoundQuorum> findQuorum(Shard& shard, Peers& peers, raft::Replica self, std::vector<config::Voter> controllers) {
  const std::vector<NodeId> listed = idsOf(controllers);
  const bool isListed = std::ranges::find(listed, self.id) != listed.end();
  Instant tellAt = shard.now() + kTellEvery;
  while (true) {
    std::vector<kj::Promise<Heard>> asked;
    for (NodeId node : listed)
      if (node != self.id) asked.push_back(askOne(peers, node));
    std::vector<Heard> all;
    for (auto& answer : asked) all.push_back(co_await answer);
    for (const Heard& heard : all)
      if (heard.status && heard.status->members.voterCount() > 0) co_return FoundQuorum{};
    std::string why = isListed ? obstacle(all, listed) : "none of the listed controllers knows a cluster yet";
    if (why.empty()) {
      FoundQuorum found{.isNew = true, .members = {}};
      for (const Heard& heard : all) found.members.members.push_back({heard.status->replica, true});
      found.members.members.push_back({self, true});
      std::ranges::sort(found.members.members, {}, [](const raft::Member& member) { return member.replica.id; });
      co_return found;
    }
    if (shard.now() >= tellAt) {
      shard.log().warning("quorum-awaited", "node {} waits for its cluster: {}", self.id, why);
      tellAt = shard.now() + kTellEvery;
    }
    co_await shard.after(kAskEvery);
  }
}

}  // namespace mq::controller
