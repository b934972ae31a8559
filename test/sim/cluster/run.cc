#include "run.h"

#include <kj/debug.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "broker/node.h"
#include "group_members.h"
#include "replicas.h"
#include "runtime/tasks.h"
#include "sim_world.h"
#include "transactions.h"
#include "workload.h"

namespace mq::sim {
namespace {

constexpr Duration kReadyWithin = 120s;  // a node whose world is healed
constexpr Duration kDrainWithin = 120s;  // requests under way, after the last fault
constexpr Duration kInSyncWithin = 120s;

// One broker of the cluster, and its process if it has one.
struct Broker {
  SimNode& node;
  std::optional<config::BrokerConfig> config;
  Duration clockOffset{0};
  uint64_t starts = 0;
  bool ready = false;
  kj::Own<kj::PromiseFulfiller<void>> stop;

  bool isServing() const { return ready && node.running(); }
};

class Cluster {
 public:
  explicit Cluster(const RunOptions& options)
      : random_(options.seed ^ 0x9E3779B97F4A7C15u), world_({.seed = options.seed}) {
    Prng shape(options.seed ^ 0xD1B54A32D192ED03u);  // of its own: a forced number of nodes changes nothing else
    uint64_t size = shape.below(8);
    uint32_t count = options.nodes.value_or(size < 3 ? 1 : size < 7 ? 3 : 5);
    for (uint32_t i = 0; i < count; ++i) brokers_.push_back(std::make_unique<Broker>(Broker{.node = world_.addNode()}));
    clients_ = &world_.addNode();
    if (options.trace) world_.trace().setSink(options.trace);
    world_.watchLog([this](uint32_t, std::string_view event, std::string_view text) { logged(event, text); });
    powerCuts_ = random_.chance(4, 5);
    shards_ = static_cast<uint32_t>(random_.between(1, 3));
    world_.network().options().delayMax = std::chrono::microseconds(random_.between(100, 3000));
    world_.network().options().resetOneIn = random_.chance(1, 3) ? random_.between(300, 3000) : 0;
    config::StartInput input;
    auto set = [&](std::string name, std::string value) {
      world_.tell("setting {}={}", name, value);
      input.flags.push_back({std::move(name), std::move(value), "sim"});
    };
    auto draw = [&](std::string name, uint64_t low, uint64_t high) {
      set(std::move(name), std::to_string(random_.between(low, high)));
    };
    // Records that are only in the page cache survive a killed process, and no power cut.
    set("durability", powerCuts_ && !options.lyingDisk ? "fsync" : "page-cache");
    set("shards", std::to_string(shards_));
    set("disk.free.min.bytes", "0");
    set("disk.free.min.percent", "0");
    set("disk.reserve.bytes", std::to_string(random_.chance(1, 2) ? 0 : random_.between(0, 1'000'000)));
    draw("log.flush.offset.checkpoint.interval.ms", 200, 60'000);
    draw("log.open.files.max", 16, 200);
    draw("metadata.log.max.record.bytes.between.snapshots", 1000, isAlone() ? 100'000 : 4000);
    draw("offsets.topic.num.partitions", 1, 4);
    set("group.min.session.timeout.ms", "1000");
    set("group.consumer.min.session.timeout.ms", "1000");
    set("group.consumer.session.timeout.ms", "4000");
    set("group.consumer.min.heartbeat.interval.ms", "100");
    set("group.consumer.heartbeat.interval.ms", "1000");
    set("group.initial.rebalance.delay.ms", std::to_string(random_.chance(1, 2) ? 0 : random_.between(1, 2000)));
    draw("transaction.state.log.num.partitions", 1, 3);
    set("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500");
    draw("log.scrub.bytes.per.second", 0, 1'000'000);
    if (!isAlone()) {
      set("offsets.topic.replication.factor", std::to_string(replicas()));
      set("transaction.state.log.replication.factor", std::to_string(replicas()));
      draw("controller.quorum.election.timeout.ms", 200, 1000);
      draw("broker.session.timeout.ms", 1000, 4000);
      draw("broker.heartbeat.interval.ms", 100, 500);
      draw("replica.lag.time.max.ms", 1000, 5000);
      draw("replica.fetch.wait.max.ms", 10, 1000);
      draw("replica.fetch.backoff.ms", 10, 1000);
      if (random_.chance(1, 2)) draw("replica.fetch.response.max.bytes", 1024, 100'000);
      draw("leader.imbalance.check.interval.seconds", 1, 60);
      draw("shutdown.timeout.ms", 3000, 30'000);
      isWiping_ = random_.chance(1, 2);
    }
    std::string controllers;
    for (uint32_t i = 0; i < count; ++i)
      controllers += fmt::format("{}{}@{}:9093", i == 0 ? "" : ",", i + 1, brokers_[i]->node.host());
    for (uint32_t i = 0; i < count; ++i) {
      config::StartInput own = input;
      auto setOwn = [&](std::string name, std::string value) {
        own.flags.push_back({std::move(name), std::move(value), "sim"});
      };
      setOwn("listeners", brokers_[i]->node.host() + ":9092");
      if (!isAlone()) setOwn("advertised.listeners", brokers_[i]->node.host() + ":9092");
      if (!isAlone()) {
        setOwn("node.id", std::to_string(i + 1));
        setOwn("controllers", controllers);
        setOwn("peer.listen", brokers_[i]->node.host() + ":9093");
      }
      auto config = config::BrokerConfig::load(own);
      if (!config) kj::throwFatalException(KJ_EXCEPTION(FAILED, config.error().front().toString().c_str()));
      brokers_[i]->config.emplace(std::move(*config));
    }
  }

  kj::Promise<void> run(std::optional<Duration> until) {
    if (!until) return live();
    return live().exclusiveJoin(world_.sleep(*until));
  }

  SimWorld& world() { return world_; }
  const History& history() const { return history_; }
  std::map<std::string, uint64_t> marks;

 private:
  bool isAlone() const { return brokers_.size() == 1; }
  size_t replicas() const { return std::min<size_t>(brokers_.size(), 3); }
  Broker& anyBroker() { return *brokers_[random_.below(brokers_.size())]; }

  // What only the nodes themselves can tell of.
  void logged(std::string_view event, std::string_view text) {
    if (event == "truncated") ++marks["truncated"];
    if (event == "controller-leads" && ++leaderships_ > 1) ++marks["controller-change"];
    if (event == "broker-fenced") ++marks["broker-fenced"];
    if (event == "raft-snapshot") ++marks["snapshot-installed"];
    if (event == "log-begins-anew") ++marks["log-begins-anew"];
    if (event == "committed-records-lost" && lost_.empty()) lost_ = text;
  }

  // --- the brokers

  void startBroker(Broker& broker) {
    if (broker.node.running()) return;
    broker.ready = false;
    broker.stop = nullptr;
    auto paf = kj::newPromiseAndFulfiller<void>();
    broker.stop = kj::mv(paf.fulfiller);
    ++broker.starts;
    broker.node.start(shards_, [this, &broker, stopped = kj::mv(paf.promise)](Shard& first) mutable {
      return process(broker, first, kj::mv(stopped), broker.starts);
    });
  }

  void startAll() {
    for (auto& broker : brokers_) startBroker(*broker);
  }

  Co<void> process(Broker& broker, Shard& first, kj::Promise<void> stopped, uint64_t start) {
    broker::Node node(first, {.config = *broker.config, .dataDirectory = "/data"});
    auto serving = co_await node.start([](broker::RecoveryProgress) {});
    if (start == broker.starts) broker.ready = true;
    if (!serving.wasClean && !serving.newDirectory) ++marks["recovery"];
    if (serving.wasClean && !serving.newDirectory) ++marks["clean-start"];
    if (serving.offlinePartitions > 0) ++marks["offline-partition"];
    auto failed = node.failed().then([this](std::string&& why) {
      world_.tell("the node gives up: {}", why);
      ++marks["node-gave-up"];
    });
    co_await stopped.exclusiveJoin(kj::mv(failed));
    co_await node.stop();
  }

  // Their processes have ended somehow: takes down, if it has not, and starts anew until all serve.
  Co<void> ensureServing() {
    Instant limit = world_.now() + kReadyWithin;
    for (auto& broker : brokers_) {
      while (!broker->isServing()) {
        KJ_REQUIRE(world_.now() < limit, "ready: a node does not come up although nothing keeps it from it",
                   broker->node.id());
        startAll();
        co_await world_.sleep(50ms);
      }
    }
  }

  Co<void> stopBroker(Broker& broker) {
    if (!broker.isServing()) co_return;
    auto ended = broker.node.ended();
    broker.stop->fulfill();
    bool clean = true;
    co_await ended.catch_([&clean](kj::Exception&&) { clean = false; });
    ++marks[clean ? "clean-stop" : "unclean-stop"];
  }

  // --- the faults

  void takeDown(Broker& broker, bool power) {
    if (broker.node.running()) power ? broker.node.crash() : broker.node.kill();
    ++marks[power ? "power-cut" : "kill"];
  }

  // Now and then so long that the others have to do without it.
  Duration downTime() {
    uint64_t longest = !isAlone() && random_.chance(1, 3) ? 10'000 : 1500;
    return Duration(std::chrono::milliseconds(random_.between(0, longest)));
  }

  // Of records that were only in the page cache a node cannot know whether they survived, and what no replica is sure
  // of nobody leads: then one has to be left.
  Co<bool> mayTakeDown() {
    if (isAlone() || powerCuts_) co_return true;
    InSyncState state = co_await lookAtReplicas(*workload_);
    co_return state.problem.empty();
  }

  Co<void> down(Broker& broker, bool power) {
    if (!co_await mayTakeDown()) co_return;
    takeDown(broker, power);
    co_await world_.sleep(downTime());
    startBroker(broker);
    // Perhaps again before it is up.
    if (random_.chance(1, 4)) {
      co_await world_.sleep(Duration(std::chrono::microseconds(random_.between(0, 100'000))));
      if (broker.node.running()) power ? broker.node.crash() : broker.node.kill();
      ++marks["down-while-starting"];
    }
  }

  Co<void> strike(Broker& broker) {
    auto hold = Duration(std::chrono::milliseconds(random_.between(10, 4000)));
    switch (random_.below(9)) {
      case 0:
      case 1:
      case 2: co_await down(broker, powerCuts_); break;
      case 3: co_await down(broker, false); break;
      case 4:
        co_await stopBroker(broker);
        startBroker(broker);
        break;
      case 5: {
        ++marks["cut"];
        world_.network().cut(broker.node.id(), clients_->id());
        co_await world_.sleep(hold);
        world_.network().heal();
        break;
      }
      case 6: {
        ++marks["slow-disk"];
        Latency usual = broker.node.options().sync;
        broker.node.options().sync = {50ms, 800ms};
        co_await world_.sleep(hold);
        broker.node.options().sync = usual;
        break;
      }
      case 7: {
        ++marks["full-disk"];
        broker.node.disk().setCapacity(broker.node.disk().used() + random_.between(0, 100'000));
        co_await world_.sleep(hold);
        if (random_.chance(1, 2)) co_await down(broker, powerCuts_);
        broker.node.disk().setCapacity(UINT64_MAX);
        break;
      }
      case 8: {
        if (!isAlone() && !powerCuts_) break;  // it would have to be taken down, whoever is in sync
        ++marks["io-error"];
        uint64_t left = random_.between(1, 30);
        bool sync = random_.chance(1, 2);
        broker.node.disk().setFault([this, left, sync](DiskOperation operation, const std::string&) mutable {
          if (operation != (sync ? DiskOperation::sync : DiskOperation::write) || left == 0 || --left > 0) return 0;
          ++marks[sync ? "sync-failed" : "write-failed"];
          return EIO;
        });
        co_await world_.sleep(hold);
        broker.node.disk().setFault(nullptr);
        // What a disk may have lost is known only after a new start.
        co_await down(broker, powerCuts_);
        break;
      }
    }
    if (random_.chance(1, 5)) {
      ++marks["clock-jump"];
      // Less than what message.timestamp.after.max.ms allows the clients to be ahead.
      Duration offset = std::chrono::seconds(random_.between(0, 6000)) - 3000s;
      broker.node.jumpWallClock(offset - broker.clockOffset);
      broker.clockOffset = offset;
    }
  }

  // What only several nodes can suffer.
  Co<void> strikeCluster() {
    Broker& broker = anyBroker();
    Broker* other = &anyBroker();
    while (other == &broker) other = &anyBroker();
    SimNetwork& network = world_.network();
    const auto a = broker.node.id(), b = other->node.id();
    switch (random_.below(8)) {
      case 0:
        if (powerCuts_) co_await downTogether();
        co_return;
      case 1:
      case 7: co_await wipe(broker); co_return;
      case 2:
        ++marks["peer-cut"];
        network.cut(a, b);
        break;
      case 3:
        ++marks["one-way-cut"];
        network.cutOneWay(a, b);
        break;
      case 4:  // clients still reach it
        ++marks["isolated"];
        for (auto& peer : brokers_)
          if (peer.get() != &broker) network.cut(a, peer->node.id());
        break;
      case 5:
        ++marks["slow-link"];
        network.slow(a, b, std::chrono::milliseconds(random_.between(5, 400)));
        break;
      case 6:
        ++marks["reset"];
        network.reset(a, b);
        co_return;
    }
    co_await world_.sleep(Duration(std::chrono::milliseconds(random_.between(10, 8000))));
    network.slow(a, b, 0ms);
    if (random_.chance(2, 3)) network.heal();  // else it lasts into what comes next
  }

  // Several at once, or all.
  Co<void> downTogether() {
    ++marks["down-together"];
    const bool all = random_.chance(1, 2), power = powerCuts_ && random_.chance(3, 4);
    std::vector<Broker*> struck;
    for (auto& broker : brokers_)
      if (all || random_.chance(1, 2)) struck.push_back(broker.get());
    for (Broker* broker : struck) takeDown(*broker, power);
    for (Broker* broker : struck) {
      co_await world_.sleep(downTime());
      startBroker(*broker);
    }
  }

  // Once in a run: a wiped voter has no vote any more, and of the others as many as before have to agree. Only while
  // all others have all, and nothing else happens until it has all again.
  Co<void> wipe(Broker& broker) {
    // Somebody may wait for all replicas here, so nothing else may keep them away.
    const uint64_t resets = std::exchange(world_.network().options().resetOneIn, 0);
    KJ_DEFER(world_.network().options().resetOneIn = resets);
    if (!isWiping_) co_return;
    world_.network().heal();
    co_await ensureServing();
    const Instant limit = world_.now() + 30s;
    InSyncState state = co_await lookAtReplicas(*workload_);
    while (!state.problem.empty() && world_.now() < limit) {
      co_await world_.sleep(200ms);
      state = co_await lookAtReplicas(*workload_);
    }
    if (!state.problem.empty() || state.replicasMin < 2) co_return;
    isWiping_ = false;
    ++marks["wiped"];
    takeDown(broker, false);
    broker.node.disk().wipe();
    co_await world_.sleep(downTime());
    co_await ensureServing();
    co_await awaitInSync(*workload_, kInSyncWithin);
    ++marks["wiped-refilled"];
  }

  // --- the whole

  Co<void> live() {
    startAll();
    co_await ensureServing();

    auto paf = kj::newPromiseAndFulfiller<void>();
    clients_->start(1, [this, done = kj::mv(paf.fulfiller)](Shard& shard) mutable -> kj::Promise<void> {
      return clients(shard, kj::mv(done));
    });
    auto clientsEnded = clients_->ended().fork();
    auto ready = paf.promise.fork();
    co_await ready.addBranch().exclusiveJoin(clientsEnded.addBranch());

    auto faults = [&]() -> Co<void> {
      for (uint64_t count = random_.between(1, 8); count > 0; --count) {
        co_await world_.sleep(Duration(std::chrono::milliseconds(random_.between(100, 4000))));
        if (!isAlone()) {
          // Who was struck while it started, or gave up.
          for (auto& broker : brokers_)
            if (random_.chance(3, 4)) startBroker(*broker);
          if (random_.chance(1, 2)) {
            co_await strikeCluster();
            continue;
          }
        }
        co_await strike(anyBroker());
      }
      co_await world_.sleep(Duration(std::chrono::milliseconds(random_.between(0, 2000))));
    };
    // A violation that a client meets ends the run at once.
    co_await faults().exclusiveJoin(clientsEnded.addBranch());

    world_.tell("all is healed");
    world_.network().heal();
    world_.network().options().resetOneIn = 0;
    for (auto& broker : brokers_) {
      broker->node.disk().setFault(nullptr);
      broker->node.disk().setCapacity(UINT64_MAX);
    }
    workload_->stopping = true;
    co_await ensureServing();
    co_await clientsEnded.addBranch().exclusiveJoin(watch());
    for (auto& broker : brokers_) {
      KJ_REQUIRE(broker->node.disk().changesAfterCrash() == 0, "a process changed the disk after it had died",
                 broker->node.disk().changesAfterCrash());
    }
    KJ_REQUIRE(lost_.empty(), "committed-kept: a node threw away what it knew to be committed", lost_.c_str());
    if (workload_.get() != nullptr) {
      marks["retries"] += workload_->retries;
      marks["topics-deleted"] += workload_->deletedTopics;
      marks["trims"] += workload_->trims;
      marks["below-min-in-sync"] += workload_->belowMinInSync;
    }
  }

  // Until all is answered: the nodes have to stay, and the clients have to end.
  Co<void> watch() {
    Instant limit = world_.now() + kDrainWithin + (isAlone() ? 0s : kInSyncWithin);
    for (;;) {
      co_await world_.sleep(200ms);
      co_await ensureServing();
      if (world_.now() < limit) continue;
      InSyncState state = co_await lookAtReplicas(*workload_);
      KJ_FAIL_REQUIRE("drain: clients still wait for answers although all is healed", state.problem.c_str());
    }
  }

  Co<void> clients(Shard& shard, kj::Own<kj::PromiseFulfiller<void>> started) {
    std::vector<Address> addresses;
    for (auto& broker : brokers_) addresses.push_back({broker->node.host(), 9092});
    workload_ = kj::heap<Workload>(
        Workload{.shard = shard, .brokers = std::move(addresses), .history = history_, .random = random_.fork()});
    Workload& w = *workload_;
    w.partitions = static_cast<int>(random_.between(1, 4));
    w.replicas = static_cast<int16_t>(replicas());
    w.singles = !isAlone() && !isWiping_;  // a wiped node is no reason to lose a record
    {
      ClusterClient admin(shard, w.brokers);
      co_await createTopic(w, admin, "first");
    }
    started->fulfill();
    std::vector<kj::Promise<void>> actors;
    for (uint64_t count = random_.between(1, 3); count > 0; --count) actors.push_back(produceUntilStopped(w, true));
    for (uint64_t count = random_.between(0, 2); count > 0; --count) actors.push_back(produceUntilStopped(w, false));
    for (uint64_t count = random_.between(1, 2); count > 0; --count) actors.push_back(readUntilStopped(w));
    actors.push_back(administerUntilStopped(w, 6));
    if (!isAlone()) actors.push_back(watchReplicasUntilStopped(w, marks));
    groups_.mayBeDeposed(!isAlone());
    co_await startGroups(w, actors);
    if (uint64_t count = random_.between(0, 2); count > 0) {
      co_await prepareTransactions(w);
      for (; count > 0; --count)
        actors.push_back(transactUntilStopped(w, transactions_, fmt::format("transactional{}", count)));
      actors.push_back(readCommittedUntilStopped(w, transactions_));
    }
    auto builder = kj::heapArrayBuilder<kj::Promise<void>>(actors.size());
    for (auto& actor : actors) builder.add(actor.eagerlyEvaluate(nullptr));
    co_await kj::joinPromises(builder.finish());
    if (!isAlone()) {
      world_.tell("the clients are done; waiting until all is in sync");
      co_await awaitInSync(w, kInSyncWithin);
    }
    world_.tell("the clients are done; reading everything");
    auto partitions = co_await readAll(w);
    history_.check(partitions);
    if (!isAlone()) co_await compareReplicas(w, std::move(partitions));
    groups_.mayBeDeposed(false);
    co_await checkCommits(w, groups_, groupNames_);
    if (!transactions_.producers().empty()) co_await checkTransactions(w, transactions_);
    using Outcome = TransactionHistory::Outcome;
    marks["txn-committed"] += transactions_.count(Outcome::committed);
    marks["txn-aborted"] += transactions_.count(Outcome::aborted);
    marks["txn-unknown"] += transactions_.count(Outcome::unknown);
    marks["commits"] += groups_.commits();
    marks["assignments"] += groups_.assignments();
  }

  Co<void> startGroups(Workload& w, std::vector<kj::Promise<void>>& actors) {
    co_await prepareGroups(w);
    for (uint64_t group = random_.between(0, 2); group > 0; --group) {
      groupNames_.push_back(fmt::format("group{}", group));
      for (uint64_t member = random_.between(1, 4); member > 0; --member) {
        std::optional<std::string> instance;
        if (random_.chance(1, 4)) instance = fmt::format("instance{}", member);
        actors.push_back(memberUntilStopped(w, groups_, groupNames_.back(), std::move(instance)));
      }
    }
    for (uint64_t group = random_.between(0, 1); group > 0; --group) {
      groupNames_.push_back(fmt::format("consumers{}", group));
      for (uint64_t member = random_.between(1, 4); member > 0; --member) {
        std::optional<std::string> instance;
        if (random_.chance(1, 4)) instance = fmt::format("instance{}", member);
        actors.push_back(consumerUntilStopped(w, groups_, groupNames_.back(), std::move(instance)));
      }
    }
    for (uint64_t group = random_.between(0, 1); group > 0; --group) {  // it changes its protocol as they come and go
      groupNames_.push_back(fmt::format("mixed{}", group));
      for (uint64_t member = random_.between(2, 4); member > 0; --member) {
        std::optional<std::string> instance;
        if (random_.chance(1, 4)) instance = fmt::format("instance{}", member);
        const std::string& name = groupNames_.back();
        if (member % 2 == 0)
          actors.push_back(memberUntilStopped(w, groups_, name, std::move(instance), true));
        else
          actors.push_back(consumerUntilStopped(w, groups_, name, std::move(instance)));
      }
    }
    for (uint64_t simple = random_.between(0, 2); simple > 0; --simple) {
      groupNames_.push_back(fmt::format("simple{}", simple));
      actors.push_back(commitUntilStopped(w, groups_, groupNames_.back()));
    }
  }

  Prng random_;
  SimWorld world_;
  std::vector<std::unique_ptr<Broker>> brokers_;
  SimNode* clients_ = nullptr;
  History history_;
  GroupHistory groups_;
  TransactionHistory transactions_;
  std::vector<std::string> groupNames_;
  bool powerCuts_ = true;
  bool isWiping_ = false;  // a disk will be wiped, and was not yet
  uint32_t shards_ = 1;
  uint64_t leaderships_ = 0;  // of the quorum
  std::string lost_;          // what a node said that it lost
  kj::Own<Workload> workload_;
};

}  // namespace

RunResult runCluster(const RunOptions& options) {
  Cluster cluster(options);
  RunResult result;
  try {
    cluster.world().run([&] { return cluster.run(options.until); });
  } catch (...) {
    result.violation = describe(caughtException());
  }
  result.traceHash = cluster.world().traceHash();
  result.acknowledged = cluster.history().ackedRecords();
  result.marks = std::move(cluster.marks);
  result.marks["seen"] = cluster.history().seenRecords();
  return result;
}

}  // namespace mq::sim
