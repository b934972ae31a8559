#include "run.h"

#include <kj/debug.h>

#include <cerrno>
#include <cstdlib>

#include "broker/node.h"
#include "group_members.h"
#include "runtime/tasks.h"
#include "sim_world.h"
#include "transactions.h"
#include "workload.h"

namespace mq::sim {
namespace {

constexpr Duration kReadyWithin = 120s;  // a node whose world is healed
constexpr Duration kDrainWithin = 120s;  // requests under way, after the last fault

// The lines of all processes, in the trace; and what is counted of them.
class Cluster {
 public:
  explicit Cluster(const RunOptions& options)
      : random_(options.seed ^ 0x9E3779B97F4A7C15u),
        world_({.seed = options.seed}),
        broker_(world_.addNode()),
        clients_(world_.addNode()) {
    if (options.trace) world_.trace().setSink(options.trace);
    powerCuts_ = random_.chance(4, 5);
    shards_ = static_cast<uint32_t>(random_.between(1, 3));
    world_.network().options().delayMax = std::chrono::microseconds(random_.between(100, 3000));
    world_.network().options().resetOneIn = random_.chance(1, 3) ? random_.between(300, 3000) : 0;
    config::StartInput input;
    auto set = [&](std::string name, std::string value) {
      world_.tell("setting {}={}", name, value);
      input.flags.push_back({std::move(name), std::move(value), "sim"});
    };
    set("listeners", broker_.host() + ":9092");
    // Records that are only in the page cache survive a killed process, and no power cut.
    set("durability", powerCuts_ && !options.lyingDisk ? "fsync" : "page-cache");
    set("shards", std::to_string(shards_));
    set("disk.free.min.bytes", "0");
    set("disk.free.min.percent", "0");
    set("disk.reserve.bytes", std::to_string(random_.chance(1, 2) ? 0 : random_.between(0, 1'000'000)));
    set("log.flush.offset.checkpoint.interval.ms", std::to_string(random_.between(200, 60'000)));
    set("log.open.files.max", std::to_string(random_.between(16, 200)));
    set("metadata.log.max.record.bytes.between.snapshots", std::to_string(random_.between(1000, 100'000)));
    set("offsets.topic.num.partitions", std::to_string(random_.between(1, 4)));
    set("group.min.session.timeout.ms", "1000");
    set("group.consumer.min.session.timeout.ms", "1000");
    set("group.consumer.session.timeout.ms", "4000");
    set("group.consumer.min.heartbeat.interval.ms", "100");
    set("group.consumer.heartbeat.interval.ms", "1000");
    set("group.initial.rebalance.delay.ms", std::to_string(random_.chance(1, 2) ? 0 : random_.between(1, 2000)));
    set("transaction.state.log.num.partitions", std::to_string(random_.between(1, 3)));
    set("transaction.abort.timed.out.transaction.cleanup.interval.ms", "500");
    set("log.scrub.bytes.per.second", std::to_string(random_.between(0, 1'000'000)));
    auto config = config::BrokerConfig::load(input);
    if (!config) kj::throwFatalException(KJ_EXCEPTION(FAILED, config.error().front().toString().c_str()));
    config_.emplace(std::move(*config));
  }

  kj::Promise<void> run(std::optional<Duration> until) {
    if (!until) return live();
    return live().exclusiveJoin(world_.sleep(*until));
  }

  SimWorld& world() { return world_; }
  const History& history() const { return history_; }
  std::map<std::string, uint64_t> marks;

 private:
  // --- the broker

  void startBroker() {
    ready_ = false;
    stop_ = nullptr;
    auto paf = kj::newPromiseAndFulfiller<void>();
    stop_ = kj::mv(paf.fulfiller);
    ++starts_;
    broker_.start(shards_, [this, stopped = kj::mv(paf.promise)](Shard& first) mutable -> kj::Promise<void> {
      return process(first, kj::mv(stopped), starts_);
    });
  }

  Co<void> process(Shard& first, kj::Promise<void> stopped, uint64_t start) {
    broker::Node node(first, {.config = *config_, .dataDirectory = "/data"});
    auto serving = co_await node.start([](broker::RecoveryProgress) {});
    if (start == starts_) ready_ = true;
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

  // Its process has ended somehow: takes down, if it has not, and starts anew until it serves.
  Co<void> ensureServing() {
    Instant limit = world_.now() + kReadyWithin;
    while (!ready_ || !broker_.running()) {
      KJ_REQUIRE(world_.now() < limit, "ready: the node does not come up although nothing keeps it from it");
      if (!broker_.running()) startBroker();
      co_await world_.sleep(50ms);
    }
  }

  Co<void> stopBroker() {
    if (!broker_.running() || !ready_) co_return;
    auto ended = broker_.ended();
    stop_->fulfill();
    bool clean = true;
    co_await ended.catch_([&clean](kj::Exception&&) { clean = false; });
    ++marks[clean ? "clean-stop" : "unclean-stop"];
  }

  // --- the faults

  Co<void> down(bool power) {
    if (broker_.running()) power ? broker_.crash() : broker_.kill();
    ++marks[power ? "power-cut" : "kill"];
    co_await world_.sleep(Duration(std::chrono::milliseconds(random_.between(0, 1500))));
    startBroker();
    // Perhaps again before it is up.
    if (random_.chance(1, 4)) {
      co_await world_.sleep(Duration(std::chrono::microseconds(random_.between(0, 100'000))));
      if (broker_.running()) power ? broker_.crash() : broker_.kill();
      ++marks["down-while-starting"];
    }
  }

  Co<void> strike() {
    auto hold = Duration(std::chrono::milliseconds(random_.between(10, 4000)));
    switch (random_.below(9)) {
      case 0:
      case 1:
      case 2: co_await down(powerCuts_); break;
      case 3: co_await down(false); break;
      case 4:
        co_await stopBroker();
        startBroker();
        break;
      case 5: {
        ++marks["cut"];
        world_.network().cut(broker_.id(), clients_.id());
        co_await world_.sleep(hold);
        world_.network().heal();
        break;
      }
      case 6: {
        ++marks["slow-disk"];
        Latency usual = broker_.options().sync;
        broker_.options().sync = {50ms, 800ms};
        co_await world_.sleep(hold);
        broker_.options().sync = usual;
        break;
      }
      case 7: {
        ++marks["full-disk"];
        broker_.disk().setCapacity(broker_.disk().used() + random_.between(0, 100'000));
        co_await world_.sleep(hold);
        if (random_.chance(1, 2)) co_await down(powerCuts_);
        broker_.disk().setCapacity(UINT64_MAX);
        break;
      }
      case 8: {
        ++marks["io-error"];
        uint64_t left = random_.between(1, 30);
        bool sync = random_.chance(1, 2);
        broker_.disk().setFault([this, left, sync](DiskOperation operation, const std::string&) mutable {
          if (operation != (sync ? DiskOperation::sync : DiskOperation::write) || left == 0 || --left > 0) return 0;
          ++marks[sync ? "sync-failed" : "write-failed"];
          return EIO;
        });
        co_await world_.sleep(hold);
        broker_.disk().setFault(nullptr);
        // What a disk may have lost is known only after a new start.
        co_await down(powerCuts_);
        break;
      }
    }
    if (random_.chance(1, 5)) {
      ++marks["clock-jump"];
      // Less than what message.timestamp.after.max.ms allows the clients to be ahead.
      Duration offset = std::chrono::seconds(random_.between(0, 6000)) - 3000s;
      broker_.jumpWallClock(offset - clockOffset_);
      clockOffset_ = offset;
    }
  }

  // --- the whole

  Co<void> live() {
    startBroker();
    co_await ensureServing();

    auto paf = kj::newPromiseAndFulfiller<void>();
    clients_.start(1, [this, done = kj::mv(paf.fulfiller)](Shard& shard) mutable -> kj::Promise<void> {
      return clients(shard, kj::mv(done));
    });
    auto clientsEnded = clients_.ended().fork();
    auto ready = paf.promise.fork();
    co_await ready.addBranch().exclusiveJoin(clientsEnded.addBranch());

    auto faults = [&]() -> Co<void> {
      for (uint64_t count = random_.between(1, 8); count > 0; --count) {
        co_await world_.sleep(Duration(std::chrono::milliseconds(random_.between(100, 4000))));
        co_await strike();
      }
      co_await world_.sleep(Duration(std::chrono::milliseconds(random_.between(0, 2000))));
    };
    // A violation that a client meets ends the run at once.
    co_await faults().exclusiveJoin(clientsEnded.addBranch());

    world_.network().heal();
    world_.network().options().resetOneIn = 0;
    broker_.disk().setFault(nullptr);
    broker_.disk().setCapacity(UINT64_MAX);
    workload_->stopping = true;
    co_await ensureServing();
    co_await clientsEnded.addBranch().exclusiveJoin(watch());
    KJ_REQUIRE(broker_.disk().changesAfterCrash() == 0, "a process changed the disk after it had died",
               broker_.disk().changesAfterCrash());
    if (workload_.get() != nullptr) {
      marks["retries"] += workload_->retries;
      marks["topics-deleted"] += workload_->deletedTopics;
      marks["trims"] += workload_->trims;
    }
  }

  // Until all is answered: the node has to stay, and the clients have to end.
  Co<void> watch() {
    Instant limit = world_.now() + kDrainWithin;
    for (;;) {
      co_await world_.sleep(200ms);
      KJ_REQUIRE(world_.now() < limit, "drain: clients still wait for answers although all is healed");
      if (!broker_.running()) co_await ensureServing();
    }
  }

  Co<void> clients(Shard& shard, kj::Own<kj::PromiseFulfiller<void>> started) {
    workload_ = kj::heap<Workload>(
        Workload{.shard = shard, .broker = {broker_.host(), 9092}, .history = history_, .random = random_.fork()});
    Workload& w = *workload_;
    w.partitions = static_cast<int>(random_.between(1, 4));
    {
      KafkaClient admin(shard, w.broker);
      co_await createTopic(w, admin, "first");
    }
    started->fulfill();
    std::vector<kj::Promise<void>> actors;
    for (uint64_t count = random_.between(1, 3); count > 0; --count) actors.push_back(produceUntilStopped(w, true));
    for (uint64_t count = random_.between(0, 2); count > 0; --count) actors.push_back(produceUntilStopped(w, false));
    for (uint64_t count = random_.between(1, 2); count > 0; --count) actors.push_back(readUntilStopped(w));
    actors.push_back(administerUntilStopped(w, 6));
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
    world_.tell("the clients are done; reading everything");
    history_.check(co_await readAll(w));
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
  SimNode& broker_;
  SimNode& clients_;
  History history_;
  GroupHistory groups_;
  TransactionHistory transactions_;
  std::vector<std::string> groupNames_;
  std::optional<config::BrokerConfig> config_;
  bool powerCuts_ = true;
  Duration clockOffset_{0};
  uint32_t shards_ = 1;
  uint64_t starts_ = 0;
  bool ready_ = false;
  kj::Own<kj::PromiseFulfiller<void>> stop_;
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
