// Several nodes' replicas of one partition in one simulated process: each node has a directory, its metadata and a
// Partitions of its own; they reach each other by calls that take a millisecond and can be cut off, and a controller
// that takes proposals, refuses them, keeps them waiting or loses its answers.
#pragma once
#include <kj/debug.h>

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../storage/log_fixture.h"
#include "controller/metadata_feed.h"
#include "metadata/record.h"
#include "replica/partitions.h"
#include "sim_world.h"

namespace mq::replica {

inline const TopicId kTopic = Uuid::fromHalves(0, 7);
inline const TopicIdPartition kPartition{kTopic, 0};
inline constexpr Duration kLink = 1ms;

inline kj::Exception lostLink() {
  return kj::Exception(kj::Exception::Type::DISCONNECTED, __FILE__, __LINE__, kj::str("the link is cut"));
}

class ReplicaWorld;

// One node's way to a leader.
class TestSession final : public LeaderSession {
 public:
  TestSession(ReplicaWorld& world, int from, int to, std::shared_ptr<kj::Own<FollowerSession>> served)
      : world_(world), from_(from), to_(to), served_(std::move(served)) {}
  kj::Promise<FollowResponse> follow(FollowRequest request) override;
  void report(std::vector<DurableReport> reports) override;

 private:
  ReplicaWorld& world_;
  int from_, to_;
  std::shared_ptr<kj::Own<FollowerSession>> served_;
};

class ReplicaWorld {
 public:
  struct Node final : LeaderSessions {
    ReplicaWorld* world = nullptr;
    int id = 0;
    Uuid incarnation;
    int64_t epoch = 0;
    bool hearsImages = true;
    std::unique_ptr<storage::LogDirectory> directory;
    std::unique_ptr<storage::LogShard> logs;
    std::unique_ptr<controller::MetadataFeed> feed;
    std::unique_ptr<metrics::Registry> metrics;
    std::unique_ptr<Partitions> partitions;

    kj::Promise<uint32_t> shardsOf(NodeId node) override {
      if (world->isCut(id, node.value())) return lostLink();
      return world->shard.after(kLink).then([] { return 1u; });
    }
    kj::Promise<kj::Own<LeaderSession>> open(NodeId node, uint32_t) override {
      return world->shard.after(kLink).then([this, node]() -> kj::Own<LeaderSession> {
        if (world->isCut(id, node.value()) || !world->node(node.value()).partitions) throw lostLink();
        auto served = std::make_shared<kj::Own<FollowerSession>>(
            world->node(node.value()).partitions->serveFollower({NodeId(id), incarnation}));
        return kj::heap<TestSession>(*world, id, node.value(), std::move(served));
      });
    }
  };

  // Two seconds without holding the leader's end put a follower out.
  ReplicaWorld(Shard& shard, int nodes, config::TopicSettings defaults = {}) : shard(shard) {
    defaults.compression = config::CompressionType::producer;
    defaults.timestampAfterMaxMs = config::TopicSettings::kUnlimited;
    topic_ = defaults;
    for (int i = 1; i <= nodes; ++i) {
      auto node = std::make_unique<Node>();
      node->world = this;
      node->id = i;
      nodes_.push_back(std::move(node));
      start(i);
    }
  }
  ~ReplicaWorld() noexcept(false) {
    for (auto& node : nodes_) node->partitions = nullptr;
  }

  Node& node(int id) { return *nodes_.at(static_cast<size_t>(id - 1)); }
  Partition& partition(int id) {
    Partition* found = node(id).partitions->find(kPartition);
    KJ_REQUIRE(found != nullptr, id);
    return *found;
  }
  storage::Log& log(int id) { return *node(id).logs->find({"t", 0}); }

  // --- processes

  void start(int id) {
    Node& it = node(id);
    ++incarnations_;
    it.incarnation = Uuid::fromHalves(1, incarnations_);
    it.epoch = static_cast<int64_t>(incarnations_);
    storage::Options options;
    options.path = fmt::format("/n{}", id);
    options.tuning.freeBytesMin = 0;
    options.reserveBytes = 0;
    options.tuning.scrubBytesPerSecond = 0;
    it.directory = std::make_unique<storage::LogDirectory>(
        shard, options, storage::DirectoryOwner{.clusterId = Uuid::fromHalves(3, 3), .node = NodeId(id)});
    it.logs = std::make_unique<storage::LogShard>(shard, *it.directory);
    it.feed = std::make_unique<controller::MetadataFeed>();
    it.metrics = std::make_unique<metrics::Registry>();
    config::StartInput input;
    auto set = [&](std::string name, std::string value) {
      input.flags.push_back({std::move(name), std::move(value), "t"});
    };
    set("min.insync.replicas", std::to_string(topic_.minInSyncReplicas));
    set("compression.type", "producer");
    set("durability", topic_.durability == config::Durability::fsync ? "fsync" : "page-cache");
    set("replica.lag.time.max.ms", "2000");
    set("replica.fetch.backoff.ms", "200");
    set("replica.fetch.wait.max.ms", "500");
    auto config = config::BrokerConfig::load(input);
    KJ_REQUIRE(config.has_value());
    it.partitions = std::make_unique<Partitions>(shard, NodeId(id), *config, *it.logs, *it.feed, *it.metrics);
    it.partitions->connect(
        {.leaders = &it, .propose = [this](controller::AlterPartitionsRequest request) { return propose(request); }});
    registerBroker(id);
  }
  Co<void> stop(int id) {
    Node& it = node(id);
    it.partitions->close();
    co_await it.logs->close();
    co_await it.directory->close();
    it.partitions = nullptr;
    it.logs = nullptr;
    it.directory = nullptr;
    it.feed = nullptr;
  }

  // What was written stays.
  void kill(int id) {
    Node& it = node(id);
    it.partitions = nullptr;
    it.logs = nullptr;
    it.directory = nullptr;
    it.feed = nullptr;
  }

  // --- links: both ways
  void cut(int a, int b) { cuts_.insert(std::minmax(a, b)); }
  void isolate(int id) {
    for (size_t other = 1; other <= nodes_.size(); ++other) cut(id, static_cast<int>(other));
  }
  void heal() { cuts_.clear(); }
  bool isCut(int a, int b) const { return cuts_.contains(std::minmax(a, b)); }
  bool reportsAreLost = false;

  // --- metadata: what the controller has committed

  metadata::Partition state;
  void registerBroker(int id) {
    metadata::Broker broker;
    broker.id = NodeId(id);
    broker.incarnation = node(id).incarnation;
    broker.epoch = node(id).epoch;
    commit({metadata::recordOf(broker)});
  }
  void fence(int id, bool fenced) {
    metadata::Broker broker = *image_->broker(NodeId(id));
    broker.fenced = fenced;
    commit({metadata::recordOf(broker)});
  }
  // A new leader, with the next leader epoch.
  void lead(int leader, std::vector<int> isr, std::vector<int> replicas = {}) {
    state.leader = NodeId(leader);
    state.leaderEpoch = LeaderEpoch(state.leaderEpoch.value() + 1);
    if (!replicas.empty()) state.replicas = ids(replicas);
    setIsr(std::move(isr));
  }
  void setIsr(std::vector<int> isr) {
    state.isr = ids(isr);
    ++state.partitionEpoch;
    std::vector<metadata::Record> records;
    if (!image_->topic(kTopic)) records.push_back(metadata::TopicRecord{kTopic, "t", {}});
    records.push_back(metadata::PartitionsRecord{kTopic, 0, {metadata::recordOf(state)}, {}});
    commit(records);
  }
  void commit(std::vector<metadata::Record> records) {
    image_ = metadata::apply(image_, records, ++offset_, 1).image;
    publish();
  }
  void publish() {
    for (auto& node : nodes_) {
      if (!node->hearsImages || !node->feed) continue;
      metadata::ImageRef before = node->feed->image();
      if (before->offset() != image_->offset()) node->feed->publish(image_, metadata::difference(*before, *image_));
    }
  }

  // --- the controller
  enum class Answers { take, refuse, wait, lose, takeAndLose };
  Answers answers = Answers::take;
  std::vector<std::string> proposals;  // "epoch 1: 1/4 2/5": partition epoch, node/broker epoch
  controller::AlterPartitionsRequest lastProposal;

  kj::Promise<Result<controller::AlterPartitionsResponse>> propose(controller::AlterPartitionsRequest request) {
    return shard.after(kLink).then(
        [this, request = std::move(request)]() mutable -> kj::Promise<Result<controller::AlterPartitionsResponse>> {
          KJ_REQUIRE(request.partitions.size() == 1);
          const auto& asked = request.partitions[0];
          std::string text = fmt::format("epoch {}:", asked.partitionEpoch);
          for (const auto& member : asked.isr) text += fmt::format(" {}/{}", member.node, member.brokerEpoch);
          proposals.push_back(text);
          lastProposal = request;
          if (answers == Answers::wait) {
            auto paf = kj::newPromiseAndFulfiller<Result<controller::AlterPartitionsResponse>>();
            waiting_ = kj::mv(paf.fulfiller);
            return kj::mv(paf.promise);
          }
          if (answers == Answers::lose) return lostLink();
          auto response = decide(answers == Answers::refuse);
          if (answers == Answers::takeAndLose) return lostLink();
          return Result<controller::AlterPartitionsResponse>(response);
        });
  }
  controller::AlterPartitionsResponse decide(bool refuse) {
    const auto& asked = lastProposal.partitions[0];
    Result<void> result;
    if (refuse || asked.partitionEpoch != state.partitionEpoch || asked.leaderEpoch != state.leaderEpoch) {
      result = Result<void>(Error::ineligibleReplica);
    } else {
      std::vector<int> isr;
      for (const auto& member : asked.isr) isr.push_back(member.node.value());
      setIsr(isr);
    }
    controller::AlterPartitionsResponse response;
    response.partitions.push_back({asked.id, result});
    return response;
  }
  // To the one that waits.
  void answer(bool refuse) { waiting_->fulfill(Result<controller::AlterPartitionsResponse>(decide(refuse))); }

  // --- clients

  struct Sent {
    std::shared_ptr<std::optional<Result<Produced>>> outcome = std::make_shared<std::optional<Result<Produced>>>();
    bool isDone() const { return outcome->has_value(); }
    Error error() const { return isDone() ? (*outcome)->errorCode() : Error::requestTimedOut; }
  };
  Sent produce(int id, int records, Acks acks = Acks::all, size_t valueBytes = 20) {
    Sent sent;
    auto bytes = std::make_shared<Buffer>(storage::makeBatch({.records = records, .valueBytes = valueBytes}));
    shard.spawn(partition(id)
                    .append(*bytes, acks)
                    .then([outcome = sent.outcome](Result<Produced>&& result) { outcome->emplace(std::move(result)); })
                    .attach(std::shared_ptr(bytes)));
    return sent;
  }
  Co<void> sleep(Duration duration) { co_await shard.after(duration); }
  template <class Condition>
  Co<bool> within(Duration limit, Condition condition) {
    Instant end = shard.now() + limit;
    while (!condition() && shard.now() < end) co_await shard.after(1ms);
    co_return condition();
  }
  // All replicas of it that are here are open.
  Co<void> opened() {
    for (auto& node : nodes_) {
      if (node->partitions) co_await node->partitions->whenOpened();
    }
  }

  // "0-4@1 5-7@2": batches with their epochs, from the log start to the log end.
  std::string content(int id) {
    storage::Log& log = this->log(id);
    std::string text = log.start() == Offset(0) ? "" : fmt::format("[{}, ", log.start());
    Offset next = log.start();
    while (next < log.end()) {
      auto slice = log.read(next, 1 << 20, log.end(), true);
      if (!slice || !slice->file) return text + "unreadable";
      Buffer bytes(slice->length);
      bytes.resize(slice->file->read(slice->position, bytes));
      Bytes left = bytes;
      while (left.size() >= record::Layout::kHeaderBytes) {
        record::BatchView batch(left);
        if (batch.sizeBytes() > left.size()) break;
        text += fmt::format("{}{}-{}@{}", text.empty() || text.back() == ' ' ? "" : " ", batch.baseOffset(),
                            batch.nextOffset().value() - 1, batch.leaderEpoch());
        next = batch.nextOffset();
        left = left.subspan(batch.sizeBytes());
      }
    }
    return text;
  }
  std::string isr() const {
    std::string text;
    for (NodeId node : state.isr) text += fmt::format("{}{}", text.empty() ? "" : " ", node);
    return text;
  }

  Shard& shard;

 private:
  static std::vector<NodeId> ids(const std::vector<int>& numbers) {
    std::vector<NodeId> list;
    for (int number : numbers) list.emplace_back(number);
    return list;
  }

  config::TopicSettings topic_;
  std::vector<std::unique_ptr<Node>> nodes_;
  uint64_t incarnations_ = 0;
  std::set<std::pair<int, int>> cuts_;
  metadata::ImageRef image_ = metadata::emptyImage();
  int64_t offset_ = 0;
  kj::Own<kj::PromiseFulfiller<Result<controller::AlterPartitionsResponse>>> waiting_;
};

inline kj::Promise<FollowResponse> TestSession::follow(FollowRequest request) {
  if (world_.isCut(from_, to_)) return lostLink();
  return world_.shard.after(kLink)
      .then([this, request = std::move(request)]() mutable { return (*served_)->follow(std::move(request)); })
      .then([this](FollowResponse&& response) -> kj::Promise<FollowResponse> {
        if (world_.isCut(from_, to_)) return lostLink();
        auto buffer = std::make_shared<std::deque<Buffer>>();
        for (Followed& news : response.partitions) {
          if (!news.file) continue;
          Buffer& bytes = buffer->emplace_back(news.length);
          bytes.resize(news.file->read(news.position, bytes));
          news.file = nullptr;
          news.bytes = bytes;
        }
        response.buffer = buffer;
        return world_.shard.after(kLink).then(
            [response = std::move(response)]() mutable { return std::move(response); });
      });
}

inline void TestSession::report(std::vector<DurableReport> reports) {
  if (world_.isCut(from_, to_) || world_.reportsAreLost) return;
  world_.shard.spawn(world_.shard.after(kLink).then([served = std::weak_ptr(served_), reports = std::move(reports)] {
    if (auto session = served.lock()) (*session)->report(reports);
  }));
}

// Runs the test with so many nodes, all of which hold the partition, led by the first in epoch 1, all in sync.
template <class Body>
void withReplicas(int nodes, Body body, config::TopicSettings settings = {}, bool lead = true) {
  sim::SimWorld world({.seed = 1});
  sim::SimNode& node = world.addNode();
  bool done = false;
  world.run([&]() -> Co<void> {
    node.start(1, [&](Shard& shard) -> Co<void> {
      ReplicaWorld replicas(shard, nodes, settings);
      if (lead) {
        std::vector<int> all;
        for (int i = 1; i <= nodes; ++i) all.push_back(i);
        replicas.lead(1, all, all);
        co_await replicas.opened();
      }
      co_await body(replicas);
      done = true;
    });
    co_await node.ended();
  });
  CHECK(done);
}

}  // namespace mq::replica
