// How a node with an empty metadata log finds its quorum: over a fake of the other nodes, since what matters is what
// they say.
#include "controller/discovery.h"

#include <doctest/doctest.h>

#include "controller/controller.h"
#include "sim_world.h"

using namespace mq;
using namespace mq::controller;

namespace {

Uuid directoryOf(int32_t node) { return Uuid::fromHalves(7, static_cast<uint64_t>(node)); }
raft::Replica replicaOf(int32_t node) { return {NodeId(node), directoryOf(node)}; }

class FakePeers final : public Peers {
 public:
  void setPeers(const std::map<NodeId, Address>& peers) override { addresses = peers; }
  void send(const raft::Message& message) override { sent.push_back(message); }
  kj::Promise<NodeStatus> status(NodeId node, Duration) override {
    auto found = nodes.find(node);
    if (found == nodes.end())
      return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str("nobody is there"));
    return found->second;
  }
  kj::Promise<NodeStatus> join(NodeId node, JoinRequest request, Duration limit) override {
    joins.push_back(request);
    return status(node, limit);
  }
  kj::Promise<Result<Answered>> ask(NodeId, const Request&, Duration) override {
    return Result<Answered>(Error::notController);
  }
  std::optional<Uuid> directoryOf(NodeId) const override { return std::nullopt; }
  std::optional<Instant> refusedAt(NodeId) const override { return std::nullopt; }

  std::map<NodeId, NodeStatus> nodes;  // that answer
  std::map<NodeId, Address> addresses;
  std::vector<raft::Message> sent;
  std::vector<JoinRequest> joins;
};

std::vector<config::Voter> threeControllers() { return {{1, {"a", 9093}}, {2, {"b", 9093}}, {3, {"c", 9093}}}; }

NodeStatus emptyNode(int32_t node) {
  NodeStatus status;
  status.replica = replicaOf(node);
  status.isEmpty = true;
  for (auto& voter : threeControllers()) status.controllers.emplace_back(NodeId(voter.id), voter.address);
  return status;
}

raft::Membership votersUpTo(int32_t count) {
  raft::Membership members;
  for (int32_t node = 1; node <= count; ++node) members.members.push_back({replicaOf(node), true});
  return members;
}

// What node `self` finds within a few seconds; nothing: it still waits.
std::optional<FoundQuorum> find(FakePeers& peers, int32_t self = 1) {
  sim::SimWorld world({.seed = 1});
  sim::SimNode& node = world.addNode();
  std::optional<FoundQuorum> found;
  node.start(1, [&](Shard& shard) -> kj::Promise<void> {
    return findQuorum(shard, peers, replicaOf(self), threeControllers())
        .then([&](FoundQuorum&& quorum) { found = std::move(quorum); })
        .exclusiveJoin(shard.after(7s));
  });
  world.run([&] { return node.ended(); });
  return found;
}

}  // namespace

TEST_CASE("A new cluster begins only when every listed node is there and empty, and lists the same nodes") {
  FakePeers peers;
  CHECK_FALSE(find(peers).has_value());
  peers.nodes[NodeId(2)] = emptyNode(2);
  CHECK_FALSE(find(peers).has_value());
  peers.nodes[NodeId(3)] = emptyNode(3);
  auto found = find(peers);
  REQUIRE(found.has_value());
  CHECK(found->isNew);
  CHECK(found->members == votersUpTo(3));
  CHECK_FALSE(find(peers, 4).has_value());  // not listed: somebody else has to begin

  peers.nodes[NodeId(3)].isEmpty = false;
  CHECK_FALSE(find(peers).has_value());
  peers.nodes[NodeId(3)] = emptyNode(3);
  peers.nodes[NodeId(3)].controllers.pop_back();
  CHECK_FALSE(find(peers).has_value());
}

TEST_CASE("One node that knows the cluster is enough to belong to it") {
  FakePeers peers;
  NodeStatus status = emptyNode(3);
  status.isEmpty = false;
  status.members = votersUpTo(3);
  peers.nodes[NodeId(3)] = status;
  for (int32_t self : {1, 4}) {
    auto found = find(peers, self);
    REQUIRE(found.has_value());
    CHECK_FALSE(found->isNew);
  }
}

// Of three voters one has written the first entry. The others must not elect one of themselves, whose first entry would
// be another one.
TEST_CASE("A voter with an empty log does not campaign, whatever it has heard of its membership") {
  FakePeers peers;
  NodeStatus status = emptyNode(3);
  status.isEmpty = false;
  status.members = votersUpTo(3);
  sim::SimWorld world({.seed = 1});
  sim::SimNode& node = world.addNode();
  node.start(1, [&](Shard& shard) -> kj::Promise<void> {
    auto run = [](Shard& shard, FakePeers& peers, NodeStatus status) -> Co<void> {
      config::StartInput input;
      for (auto [name, value] :
           std::map<std::string, std::string>{{"node.id", "1"}, {"controllers", "1@a:9093,2@b:9093,3@c:9093"}})
        input.flags.push_back({name, value, "test"});
      ControllerOptions options;
      options.node = NodeId(1);
      options.directory = "/data/metadata";
      options.config = *config::BrokerConfig::load(input);
      options.address = {"a", 9093};
      MetadataFeed feed;
      Controller controller(shard, options, {&feed}, &peers);
      for (raft::Member& member : status.members.members)
        if (member.replica.id == NodeId(1)) member.replica.directory = controller.directoryId();
      peers.nodes[NodeId(3)] = status;
      co_await controller.start().exclusiveJoin(shard.after(10s));
      CHECK(controller.status().term == 0);
      CHECK(controller.leader() == kNoNode);
      CHECK(peers.sent.empty());
      CHECK_FALSE(peers.joins.empty());
    };
    return run(shard, peers, std::move(status));
  });
  world.run([&] { return node.ended(); });
}
