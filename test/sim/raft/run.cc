#include "run.h"

#include "base/check.h"
#include "world.h"

namespace mq::raft::sim {
namespace {

Settings draw(Prng& chance) {
  auto between = [&](Duration low, Duration high) {
    return Duration(chance.between(static_cast<uint64_t>(low.count()), static_cast<uint64_t>(high.count())));
  };
  // Mostly mild, sometimes wild.
  auto perMille = [&](uint64_t most) {
    return chance.chance(1, 3) ? 0 : chance.below(chance.chance(1, 4) ? most : most / 5 + 1);
  };
  Settings settings;
  Options& raft = settings.raft;
  raft.electionTimeout = between(100ms, 500ms);
  raft.heartbeat = raft.electionTimeout / 5;
  raft.entryBytesMax = 400;
  raft.batchBytesMax = chance.between(100, 2'000);
  raft.windowBytesMax = chance.between(100, 5'000);
  raft.windowMessagesMax = chance.between(1, 8);
  raft.uncommittedBytesMax = chance.between(1'000, 20'000);
  raft.tailBytesMax = chance.chance(1, 3) ? 0 : chance.below(5'000);
  raft.unsyncedBytesMax = chance.between(2'000, 30'000);
  raft.writeBytesMax = chance.between(100, 5'000);
  raft.applyBytesMax = chance.between(100, 5'000);
  raft.snapshotChunkBytes = chance.between(100, 2'000);
  raft.snapshotBytesMax = 1 << 20;
  raft.readsMax = 20;
  raft.promotionLagMax = static_cast<int64_t>(chance.below(50));
  settings.delayMin = between(10us, 1ms);
  settings.delayMax =
      settings.delayMin + (chance.chance(1, 4) ? between(1ms, raft.electionTimeout / 3) : between(0ms, 5ms));
  settings.lossPerMille = perMille(300);
  settings.repeatPerMille = perMille(200);
  settings.syncMin = between(1us, 2ms);
  settings.syncMax = settings.syncMin + (chance.chance(1, 4) ? between(0ms, 80ms) : between(0ms, 4ms));
  settings.stallPerMille = perMille(100);
  settings.snapshotEvery = static_cast<int64_t>(chance.chance(1, 4) ? 1'000'000 : chance.between(5, 200));
  settings.snapshotBytesMax = chance.between(1, 4'000);
  settings.keepMax = static_cast<int64_t>(chance.below(100));
  return settings;
}

class Run {
 public:
  explicit Run(const RunOptions& options) : chance_(options.seed), world_(options, draw(chance_), chance_.fork()) {
    world_.onApplied = [this](Node& node, const Entry& entry) { applied(node, entry); };
    world_.onRead = [this](Node& node, ReadId id, bool isReady) { answered(node, id, isReady); };
  }

  RunResult run() {
    build();
    // How often each thing happens, on average; some never.
    auto pace = [&](Duration low, Duration high) {
      return chance_.chance(1, 4) ? Duration::max() : world_.between(low, high);
    };
    Duration span = world_.between(2s, 8s);
    every(world_.between(2ms, 40ms), [this] { propose(); });
    every(pace(5ms, 200ms), [this] { read(); });
    every(pace(200ms, 3s), [this] { cut(); });
    every(pace(200ms, 3s), [this] { crashOne(); });
    every(pace(100ms, 2s), [this] { changeMembers(); });
    every(pace(300ms, 3s), [this] { transfer(); });
    every(pace(1s, 5s), [this] { fill(); });
    every(pace(1s, 5s), [this] { wipeOne(); });
    if (chance_.chance(1, 5)) every(pace(1s, 4s), [this] { crashAll(); });
    world_.runUntil(Instant(span));
    heal();
    if (world_.checks.violation().empty()) settle();
    return {world_.checks.violation(), world_.traceHash(), world_.marks};
  }

 private:
  Prng& chance() { return chance_; }

  // --- the cluster
  void build() {
    auto count = static_cast<int32_t>(chance_.between(1, 7));
    auto voters = static_cast<int32_t>(chance_.between(1, static_cast<uint64_t>(std::min(count, 5))));
    bool isWild =
        chance_.chance(1, 4);  // clocks so far apart that a leader may stay long after the next one is elected
    for (int32_t id = 1; id <= count; ++id) {
      Node& node = world_.nodes[NodeId(id)];
      node.replica.id = NodeId(id);
      node.replica.directory = Uuid::fromHalves(1, ++directories_);
      if (chance_.chance(1, 2)) node.clockRate = isWild ? 0.6 + chance_.unit() : 0.8 + 0.4 * chance_.unit();
      if (id <= voters) first_.members.push_back({node.replica, true});
    }
    bool isBootstrapped = chance_.chance(1, 2);
    for (auto& [id, node] : world_.nodes) {
      if (isBootstrapped && first_.has(node.replica)) {
        node.disk.log = {bootstrapEntry(first_)};
        node.disk.hardState.term = 1;
      }
      startNode(node, isBootstrapped);
    }
    isBootstrapped_ = isBootstrapped;
    world_.trace("members {}, bootstrapped {}", show(first_), isBootstrapped);
  }

  void startNode(Node& node, bool isBootstrapped) {
    bool isFirst = !isBootstrapped && first_.has(node.replica);
    world_.start(node, isFirst ? first_ : Membership());
  }

  // --- time
  void every(Duration pace, const std::function<void()>& what) {
    if (pace == Duration::max()) return;
    world_.after(world_.between(0ms, 2 * pace), [this, pace, what] {
      if (isHealed_) return;
      what();
      every(pace, what);
    });
  }

  Node& anyNode() {
    auto at = world_.nodes.begin();
    std::advance(at, static_cast<ptrdiff_t>(chance_.below(world_.nodes.size())));
    return at->second;
  }
  // One that believes to lead, if there is one; several may.
  Node* anyLeader() {
    std::vector<Node*> leaders;
    for (auto& [id, node] : world_.nodes)
      if (node.core && node.core->state() == State::leader) leaders.push_back(&node);
    return leaders.empty() ? nullptr : leaders[chance_.below(leaders.size())];
  }

  // --- clients
  void propose() {
    Node* leader = anyLeader();
    if (!leader) return;
    uint64_t count = chance_.chance(1, 5) ? chance_.between(2, 30) : 1;
    world_.with(*leader, [&](Core& core) {
      for (; count > 0; --count) {
        Buffer data(chance_.below(chance_.chance(1, 10) ? 400 : 60) + 8);
        storeBigEndian(data.data(), ++proposals_);
        auto position = core.propose(std::move(data));
        if (position)
          waiting_[leader->replica.id][position->index] = position->term;
        else
          world_.mark(std::string("refused-") + std::string(kafkaName(position.failure().error)));
        if (core.uncommittedBytes() > world_.settings.raft.uncommittedBytesMax + 2'000)
          world_.checks.broken("node {} has {} uncommitted bytes", leader->replica.id, core.uncommittedBytes());
      }
    });
  }

  // Acknowledged when the node that took it applies it.
  void applied(Node& node, const Entry& entry) {
    auto& waiting = waiting_[node.replica.id];
    auto at = waiting.find(entry.index);
    if (at == waiting.end()) return;
    if (at->second == entry.term) {
      world_.checks.acknowledged(entry.index);
      world_.mark("acknowledged");
    } else {
      world_.mark("proposal-lost");
    }
    waiting.erase(at);
  }

  void read() {
    Node* leader = anyLeader();
    if (!leader) return;
    ReadId id = ++reads_;
    floors_[id] = world_.checks.readFloor();
    world_.with(*leader, [&](Core& core) {
      if (!core.read(id)) floors_.erase(id);
    });
  }

  void answered(Node& node, ReadId id, bool isReady) {
    auto floor = floors_.find(id);
    MQ_CHECK(floor != floors_.end(), id);
    if (isReady) world_.checks.readAnswered(node.replica.id, floor->second, node.machineIndex);
    world_.mark(isReady ? "read" : "read-failed");
    floors_.erase(floor);
  }

  // --- faults
  void cut() {
    world_.cuts.clear();
    std::vector<NodeId> ids;
    for (auto& [id, node] : world_.nodes) ids.push_back(id);
    uint64_t kind = chance_.below(5);
    Node* leader = anyLeader();
    for (NodeId a : ids) {
      for (NodeId b : ids) {
        if (a == b) continue;
        bool isCut = false;
        if (kind == 1) isCut = (a.value() + b.value()) % 2 == 1;                              // two halves
        if (kind == 2 && leader) isCut = a == leader->replica.id || b == leader->replica.id;  // the leader
        if (kind == 3 && leader) isCut = b == leader->replica.id;                             // it hears nobody
        if (kind == 4) isCut = chance_.chance(1, 3);                                          // any, each way by itself
        if (isCut) world_.cuts.insert({a, b});
      }
    }
    world_.trace("cuts of kind {}: {}", kind, world_.cuts.size());
    world_.mark("cut");
  }

  void crashNode(Node& node) {
    if (!node.core) return;
    world_.crash(node);
    waiting_.erase(node.replica.id);
    if (!isHealed_)
      world_.after(world_.between(1ms, 3 * world_.settings.raft.electionTimeout), [this, &node] {
        if (!node.core) startNode(node, isBootstrapped_);
      });
  }
  void crashOne() {
    Node* leader = anyLeader();
    crashNode(leader && chance_.chance(1, 2) ? *leader : anyNode());
  }
  void crashAll() {
    for (auto& [id, node] : world_.nodes) crashNode(node);
    world_.mark("crash-of-all");
  }

  void fill() {
    Node& node = anyNode();
    node.isFull = true;
    world_.after(world_.between(1ms, 2s), [&node] { node.isFull = false; });
  }

  // A directory is lost. Only when the voters can spare one, and nothing is under way that could make them fewer.
  void wipeOne() {
    Node* best = nullptr;
    for (auto& [id, node] : world_.nodes) {
      if (!node.core || node.core->membershipIndex() > node.core->commitIndex()) return;
      if (!best || node.core->membershipIndex() > best->core->membershipIndex()) best = &node;
    }
    const Membership& members = best->core->membership();
    Node& node = anyNode();
    if (wiped_ || (members.has(node.replica) && members.isVoter(node.replica) && members.voterCount() < 3)) return;
    world_.trace("{} is wiped", node.replica.id);
    world_.mark("wiped");
    if (members.isVoter(node.replica)) wiped_ = node.replica.id;
    crashNode(node);
    node.disk = Disk();
    node.replica.directory = Uuid::fromHalves(1, ++directories_);
  }

  // --- operators
  void changeMembers() {
    Node* leader = anyLeader();
    if (!leader) return;
    if (wiped_) return replaceWiped(*leader);
    Node& node = anyNode();
    bool isGoing = chance_.chance(1, 3);
    world_.with(*leader, [&](Core& core) {
      const Member* member = core.membership().find(node.replica.id);
      Result<Position> result;
      if (!member || member->replica != node.replica)
        result = core.setMember({node.replica, false});
      else if (!member->isVoter && !isGoing)
        result = core.setMember({node.replica, true});
      else if (chance_.chance(1, 3))
        result = core.setMember({node.replica, false});
      else
        result = core.removeMember(node.replica.id);
      if (result)
        world_.trace("{} changes the members to {} at {}", leader->replica.id, show(core.membership()), show(*result));
      world_.mark(result ? "change" : "change-refused");
    });
  }

  void replaceWiped(Node& leader) {
    Node& node = world_.nodes.at(*wiped_);
    world_.with(leader, [&](Core& core) {
      const Member* member = core.membership().find(node.replica.id);
      if (member && member->replica == node.replica) {
        if (core.membershipIndex() <= core.commitIndex()) wiped_.reset();
      } else if (core.setMember({node.replica, false})) {
        world_.mark("wiped-replaced");
      }
    });
  }

  void transfer() {
    Node* leader = anyLeader();
    if (!leader) return;
    Node& target = anyNode();
    world_.with(*leader, [&](Core& core) {
      if (core.transfer(target.replica.id)) world_.mark("transfer");
    });
  }

  // --- the end
  void heal() {
    world_.trace("all faults end");
    isHealed_ = true;
    world_.cuts.clear();
    Settings& settings = world_.settings;
    settings.lossPerMille = settings.repeatPerMille = settings.stallPerMille = 0;
    settings.delayMin = settings.syncMin = 10us;
    settings.delayMax = settings.syncMax = 500us;
    for (auto& [id, node] : world_.nodes) {
      node.isFull = false;
      if (!node.core) startNode(node, isBootstrapped_);
    }
  }

  // Liveness: from now on one leader, whose entries all members get; and who is no member knows it.
  void settle() {
    keepProposing();
    Instant end = world_.now() + 40 * world_.settings.raft.electionTimeout + 3s;
    waited_ = 0;
    bool isFine = world_.runUntil(end, [this] { return (++waited_ & 15) == 0 && isSettled(); });
    if (!isFine) world_.checks.broken("no progress after all faults have ended: {}", whatIsLeft_);
    // Long enough for whoever would disturb to do so.
    if (!isFine) return;
    int64_t term = anyLeader()->core->term();
    uint64_t seen = world_.marks["elected"];
    world_.runUntil(world_.now() + 4 * world_.settings.raft.electionTimeout);
    if (world_.marks["elected"] != seen)
      world_.checks.broken("leadership of term {} does not last, though all is well", term);
  }

  void keepProposing() {
    world_.after(world_.settings.raft.electionTimeout / 4, [this] {
      if (Node* leader = anyLeader()) {
        if (wiped_) replaceWiped(*leader);
        propose();
      }
      keepProposing();
    });
  }

  // Whom it asks may all be gone; then nobody can tell it.
  static bool asksAnyOf(const Membership& members, const Node& node) {
    for (const Member& member : node.core->membership().members)
      if (members.has(member.replica)) return true;
    return false;
  }

  bool isSettled() {
    whatIsLeft_ = "no leader";
    Node* leader = nullptr;
    for (auto& [id, node] : world_.nodes) {
      if (node.core->state() != State::leader) continue;
      if (leader) return false;
      leader = &node;
    }
    if (!leader) return false;
    whatIsLeft_ = "a change of members is not committed";
    const Core& core = *leader->core;
    if (core.membershipIndex() > core.commitIndex() || wiped_) return false;
    if (settledFrom_ == 0) settledFrom_ = core.log().lastIndex() + 1;
    whatIsLeft_ = "the leader does not commit";
    if (world_.checks.acknowledgedIndex() < settledFrom_) return false;
    for (auto& [id, node] : world_.nodes) {
      if (core.membership().has(node.replica)) {
        if (node.machineIndex < settledFrom_) {
          whatIsLeft_ = fmt::format("node {} has applied only {} of {} entries", id, node.machineIndex, settledFrom_);
          return false;
        }
      } else if (node.core->mayCampaign() && asksAnyOf(core.membership(), node)) {
        whatIsLeft_ = fmt::format("node {} is no member and does not know it", id);
        return false;
      }
    }
    return true;
  }

  Prng chance_;
  World world_;
  Membership first_;
  bool isBootstrapped_ = false;
  bool isHealed_ = false;
  uint64_t directories_ = 0;
  uint64_t proposals_ = 0;
  ReadId reads_ = 0;
  std::map<NodeId, std::map<int64_t, int64_t>> waiting_;  // index -> term of proposals, by the node that took them
  std::map<ReadId, int64_t> floors_;
  std::optional<NodeId> wiped_;  // a voter that is to be replaced
  uint64_t waited_ = 0;
  int64_t settledFrom_ = 0;
  std::string whatIsLeft_;
};

}  // namespace

RunResult runRaft(const RunOptions& options) { return Run(options).run(); }

}  // namespace mq::raft::sim
