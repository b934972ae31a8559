#include "kafka/server.h"

#include <algorithm>
#include <set>

#include "base/check.h"
#include "controller/dynamic_config.h"
#include "coordinator/group_coordinator.h"
#include "coordinator/transaction_coordinator.h"

namespace mq::kafka {

namespace {

constexpr Duration kSweepEvery = 1s;
constexpr Duration kOpenedWithin = 1s;
constexpr Duration kDrainAtMost = 2s;
constexpr size_t kReserveShare = 8;  // of the request memory, for small requests

BufferPool::Options poolOptions(const config::BrokerSettings& settings, uint32_t shards) {
  auto bytes = static_cast<size_t>(settings.requestMemoryBytes) / shards;
  return {
      .bytesMax = bytes, .reserveBytes = bytes / kReserveShare, .idleBytesMax = std::min<size_t>(bytes / 4, 16 << 20)};
}

}  // namespace

Server::Server(Shard& shard, ServerOptions options, controller::MetadataFeed& feed,
               controller::ControllerClient controller, std::vector<coordinator::CoordinatorShard> shards,
               metrics::Registry& metrics)
    : shard_(shard),
      options_(std::move(options)),
      feed_(feed),
      controller_(controller),
      shards_(std::move(shards)),
      config_(options_.config),
      registry_(metrics),
      metrics_(metrics.shard),
      apiMetrics_(apis().size()),
      pool_(poolOptions(settings(), shard.count())),
      fetchSessions_(shard.random(), shard.index(), shard.count(),
                     static_cast<size_t>(settings().fetchSessionsMax) / shard.count() + 1),
      tasks_(shard.log(), "kafka-task") {
  for (const Api& api : apis()) {
    apiRegistrations_.push_back(metrics.add(apiMetrics_[indexOf(api)], {.value = std::string(api.name)}));
  }
  metrics_.requestMemoryLimit.set(static_cast<int64_t>(poolOptions(settings(), shard.count()).bytesMax));
  subscription_ = feed_.subscribe(
      [this](const metadata::ImageRef& image, const metadata::Delta& delta) { imageChanged(image, delta); });
  tasks_.add(sweep());
}

Server::~Server() noexcept(false) {}

void Server::imageChanged(const metadata::ImageRef& image, const metadata::Delta& delta) {
  if (controller::changesConfigOf(options_.node, delta)) {
    config_ = controller::configOf(options_.node, options_.config, *image);
  }
  for (const metadata::TopicRef& topic : delta.deleted) {
    fetched_.erase(fetched_.lower_bound({topic->id, 0}), fetched_.upper_bound({topic->id, INT32_MAX}));
  }
}

void Server::countFetched(const TopicIdPartition& id, uint64_t bytes) {
  auto found = fetched_.find(id);
  if (found == fetched_.end()) {
    metadata::TopicRef topic = image().topic(id.topic);
    if (topic == nullptr) return;  // deleted meanwhile
    found = fetched_.try_emplace(id).first;
    found->second.shown = registry_.add(found->second.counters, {.value = topic->name, .partition = id.partition});
  }
  found->second.counters.fetchedBytes.add(bytes);
}

void Server::serve(kj::Own<Stream> stream, const ListenerOptions& listener, kj::Own<void> ticket) {
  if (draining_) return;
  auto connection = kj::heap<Connection>(*this, kj::mv(stream), listener);
  uint64_t id = nextConnection_++;
  connections_.emplace(id, connection.get());
  metrics_.connectionsAccepted.add();
  metrics_.connectionsOpen.add();
  auto run = connection->run();
  tasks_.add(run.attach(kj::mv(connection), kj::defer([this, id] {
                          connections_.erase(id);
                          metrics_.connectionsOpen.subtract();
                          if (connections_.empty() && drained_) drained_->fulfill();
                        }),
                        kj::mv(ticket)));
}

kj::Promise<void> Server::drain() {
  draining_ = true;
  std::vector<Connection*> all;
  for (const auto& [id, connection] : connections_) all.push_back(connection);
  for (Connection* connection : all) connection->leave();
  if (connections_.empty()) return kj::READY_NOW;
  auto paf = kj::newPromiseAndFulfiller<void>();
  drained_ = kj::mv(paf.fulfiller);
  // Logs are still to be flushed and sealed: a client that does not take its answers must not use up the time for that.
  Duration atMost = std::min<Duration>(kDrainAtMost, std::chrono::milliseconds(settings().shutdownTimeoutMs) / 2);
  tasks_.add(shard_.after(atMost).then([this] {
    std::vector<Connection*> left;
    for (const auto& [id, connection] : connections_) left.push_back(connection);
    for (Connection* connection : left) connection->abort("it does not take its answers, and the broker is stopping");
  }));
  return kj::mv(paf.promise);
}

Co<void> Server::sweep() {
  for (;;) {
    co_await shard_.after(kSweepEvery);
    pool_.trim();
    Instant now = shard_.now();
    for (const auto& [id, connection] : connections_) {
      switch (connection->overdue(now)) {
        case Connection::Overdue::no: break;
        case Connection::Overdue::stalled:
          metrics_.connectionsStalled.add();
          connection->abort("the rest of a request did not arrive in time");
          break;
        case Connection::Overdue::notReading:
          metrics_.connectionsStalled.add();
          connection->abort("it does not read its answers");
          break;
        case Connection::Overdue::idle:
          metrics_.connectionsIdleClosed.add();
          connection->abort("idle for longer than connections.max.idle.ms");
          break;
      }
    }
    metrics_.requestMemory.set(static_cast<int64_t>(pool_.used()));
    metrics_.fetchSessions.set(static_cast<int64_t>(fetchSessions_.size()));
  }
}

Co<Result<ProducerId>> Server::nextProducerId() {
  while (nextProducerId_ == producerIdEnd_) {
    KJ_IF_MAYBE (fetching, producerIdBlock_) {
      co_await fetching->addBranch();
      continue;
    }
    auto paf = kj::newPromiseAndFulfiller<void>();
    producerIdBlock_ = paf.promise.fork();
    KJ_DEFER({
      producerIdBlock_ = nullptr;
      paf.fulfiller->fulfill();
    });
    auto block = co_await controller_.allocateProducerIds();
    // Clients know that one here, and try again; on others, of the controller, older ones give up.
    if (!block && isRetriable(block.failure().error))
      co_return Failure(Error::coordinatorLoadInProgress, block.failure().message);
    if (!block) co_return block.failure();
    nextProducerId_ = block->first;
    producerIdEnd_ = block->first + block->count;
  }
  co_return ProducerId(nextProducerId_++);
}

bool Server::hasConsumerProtocol() const {
  auto level = image().features().find("group.version");
  return level != image().features().end() && level->second >= 1;
}

Co<Result<metadata::TopicRef>> Server::offsetsTopic() {
  const config::BrokerSettings& wanted = settings();
  return internalTopic(coordinator::kOffsetsTopic, wanted.offsetsTopicPartitions, wanted.offsetsTopicReplicationFactor,
                       wanted.offsetsTopicSegmentBytes, "producer");
}

Co<Result<metadata::TopicRef>> Server::transactionsTopic() {
  const config::BrokerSettings& wanted = settings();
  return internalTopic(coordinator::kTransactionsTopic, wanted.transactionTopicPartitions,
                       wanted.transactionTopicReplicationFactor, wanted.transactionTopicSegmentBytes, "uncompressed");
}

Co<Result<metadata::TopicRef>> Server::internalTopic(std::string_view name, int32_t partitions,
                                                     int32_t replicationFactor, int32_t segmentBytes,
                                                     std::string_view compression) {
  if (metadata::TopicRef topic = image().topic(name)) co_return topic;
  controller::NewTopic topic{.name = std::string(name), .partitions = partitions};
  topic.replicationFactor = static_cast<int16_t>(std::clamp(replicationFactor, 1, brokersToBe()));
  topic.configs = {{"cleanup.policy", "compact"},
                   {"compression.type", std::string(compression)},
                   {"segment.bytes", std::to_string(segmentBytes)}};
  auto created = co_await controller_.createTopics({.topics = {std::move(topic)}});
  co_await whenOpened();
  if (metadata::TopicRef made = image().topic(name)) co_return made;  // by us or by another
  Result<controller::CreatedTopic>& outcome = created.topics.front().result;
  co_return failure(Error::coordinatorNotAvailable, "{} cannot be created: {}", name,
                    outcome ? "it was deleted at once" : outcome.failure().message);
}

int32_t Server::brokersToBe() const {
  std::set<NodeId> brokers;
  for (const auto& [id, broker] : image().brokers()) brokers.insert(id);
  const std::vector<config::Voter>& listed = settings().controllers;
  // As this node is, so are the others.
  if (std::ranges::any_of(listed, [&](const config::Voter& voter) { return NodeId(voter.id) == options_.node; }))
    for (const config::Voter& voter : listed) brokers.insert(NodeId(voter.id));
  return std::clamp(static_cast<int32_t>(brokers.size()), 1, int32_t{INT16_MAX});
}

Co<void> Server::whenOpened() {
  std::vector<kj::Promise<void>> shards;
  for (uint32_t shard = 0; shard < shard_.count(); ++shard) {
    shards.push_back(shard_.call(shard, [&partitions = partitionsOf(shard)] { return partitions.whenOpened(); }));
  }
  kj::Promise<void> late = shard_.after(kOpenedWithin);
  auto deadline = late.fork();
  for (auto& opened : shards) co_await opened.exclusiveJoin(deadline.addBranch());
}

std::optional<Server::Endpoint> Server::endpoint(const metadata::Broker& broker, const Session& session) const {
  const metadata::Listener* listener = broker.listener(session.listener.name);
  if (listener == nullptr) return std::nullopt;
  Endpoint endpoint{.node = broker.id, .host = listener->host, .port = listener->port, .rack = broker.rack};
  if (endpoint.host.empty()) endpoint.host = session.local.host;
  if (endpoint.port == 0) endpoint.port = session.local.port;
  return endpoint;
}

std::vector<Server::Endpoint> Server::endpoints(const Session& session) const {
  std::vector<Endpoint> all;
  for (const auto& [id, broker] : image().brokers()) {
    if (broker->fenced) continue;
    if (auto found = endpoint(*broker, session)) all.push_back(std::move(*found));
  }
  return all;
}

}  // namespace mq::kafka
