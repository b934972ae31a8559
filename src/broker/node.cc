#include "broker/node.h"

#include <kj/debug.h>

#include <algorithm>

#include "broker/neighbours.h"
#include "broker/options.h"
#include "broker/registration.h"
#include "controller/controller.h"
#include "controller/dynamic_config.h"
#include "controller/metadata_feed.h"
#include "coordinator/group_coordinator.h"
#include "coordinator/transaction_coordinator.h"
#include "coordinator/transaction_gate.h"
#include "http/server.h"
#include "kafka/server.h"
#include "metrics/registry.h"
#include "replica/partitions.h"
#include "runtime/coro.h"
#include "runtime/tasks.h"
#include "storage/log_directory.h"

namespace mq::broker {
namespace {

// What one shard holds, in the order of its construction. Built in two steps, since the controller, which lies between,
// publishes to every shard's feed.
struct ShardParts {
  ShardParts(Shard& shard, storage::LogDirectory& directory, NodeId node, const NodeOptions& options)
      : links(shard, {}, {}),
        logs(shard, directory),
        partitions(shard, node, options.config, logs, feed, metrics),
        groups(shard, partitions, feed, coordinatorOptions(options.config.settings())),
        transactions(shard, partitions, feed, transactionOptions(options.config.settings())),
        gate(shard, partitions, feed),
        gauges(shard, metrics, directory, logs, partitions, groups, transactions, options.process),
        replication(shard, [this](replica::Follower who) { return partitions.serveFollower(who); }, {}) {}

  metrics::Registry metrics;
  controller::MetadataFeed feed;
  peer::ReplicationLinks links;
  storage::LogShard logs;
  replica::Partitions partitions;
  coordinator::GroupCoordinator groups;
  coordinator::TransactionCoordinator transactions;
  coordinator::TransactionGate gate;
  ShardGauges gauges;
  peer::ReplicationServer replication;
  kj::Own<void> tuned;  // shard 0: the subscription to changes of settings
  std::unique_ptr<kafka::Server> server;
};

}  // namespace

class Node::Impl {
 public:
  Impl(Shard& first, NodeOptions options)
      : first_(first),
        options_(std::move(options)),
        settings_(options_.config.settings()),
        node_(settings_.nodeId),
        incarnation_(first.random().uuid()),
        listeners_(listenersOf(settings_)),
        sockets_(kafka::reserveListeners(first, listeners_)),
        peerSocket_(isClustered() ? first.network().reserve(settings_.peerListen.front().address)
                                  : kj::Own<Listener>()),
        http_(startHttp()),
        directory_(first, storageOptions(settings_, options_.dataDirectory, first.count()),
                   {std::nullopt, node_, isClustered()}) {}

  Co<Serving> start(std::function<void(RecoveryProgress)> progress) {
    Serving serving;
    serving.node = node_;
    serving.clusterId = directory_.clusterId();
    serving.wasClean = directory_.wasClean();
    serving.newDirectory = directory_.isNew();

    for (uint32_t i = 0; i < first_.count(); ++i) {
      ShardParts* built = co_await first_.call(i, [this](Shard& shard) {
        auto parts = std::make_unique<ShardParts>(shard, directory_, node_, options_);
        ShardParts* pointer = parts.get();
        shard.atEnd([parts = std::move(parts)] {});  // destroyed on its own thread
        return pointer;
      });
      parts_.push_back(built);
    }
    std::vector<controller::MetadataFeed*> feeds;
    std::vector<Neighbours::OnShard> neighbours;
    for (ShardParts* parts : parts_) {
      feeds.push_back(&parts->feed);
      neighbours.push_back({&parts->links, &parts->replication});
    }
    if (isClustered()) neighbours_ = std::make_unique<Neighbours>(first_, identity(), std::move(neighbours));
    for (uint32_t i = 0; i < first_.count(); ++i) {
      co_await first_.call(i, [parts = parts_[i],
                               node = coordinator::CoordinatorNode{node_, coordinatorsOfShards(), neighbours_.get()}] {
        parts->transactions.connect(node);
        parts->gate.connect(node);
      });
    }
    parts_[0]->tuned = feeds[0]->subscribe([this](const metadata::ImageRef& image, const metadata::Delta& delta) {
      if (!controller::changesConfigOf(node_, delta)) return;
      config::BrokerConfig config = controller::configOf(node_, options_.config, *image);
      directory_.tune(storageTuning(config.settings(), first_.count()));
    });
    // Partitions without the metadata that names them: restored halfway. Not decided by the directory's age, since the
    // first start of all may have been killed before it came to the metadata log.
    bool hasPartitions = !directory_.partitions().empty();
    controller_ = kj::heap<controller::Controller>(
        first_, controllerOptions(options_.config, options_.dataDirectory, directory_.clusterId(), hasPartitions),
        std::move(feeds), neighbours_.get());
    if (neighbours_) neighbours_->serve(kj::mv(peerSocket_), *controller_, coordinatorsOfShards());
    phase_ = Phase::joining;
    co_await controller_->start();
    registration_ = std::make_unique<Registration>(first_, *controller_, brokerRegistration(), heartbeatEvery());
    co_await registration_->begin();
    const Uuid cluster = controller_->image()->clusterId();
    directory_.adopt(cluster);
    serving.clusterId = cluster;
    if (neighbours_) {
      neighbours_->setCluster(cluster);
      co_await connectReplication();
    }
    co_await controller_->publish();
    phase_ = Phase::recovering;
    co_await recover(progress);
    // What no topic of the committed metadata claimed: only a delete record deletes, else it is moved aside.
    co_await directory_.settleUnknown(
        [image = controller_->image()](const TopicId& topic) { return image->wasDeleted(topic); });

    co_await startServers();
    acceptor_->start();
    co_await registration_->serve();
    phase_ = Phase::serving;

    serving.topics = controller_->image()->topics().size();
    for (uint32_t i = 0; i < first_.count(); ++i) {
      auto counts = co_await first_.call(i, [parts = parts_[i]] { return parts->partitions.counts(); });
      serving.bytes += counts.bytes;
      serving.offlinePartitions += counts.offline;
    }
    for (const kafka::ListenerOptions& listener : listeners_) {
      serving.listening.push_back(describe(listener.name, listener.listen));
      serving.advertised.push_back(advertisedOf(listener.name));
    }
    if (http_) serving.http = http_->local().toString();
    co_return serving;
  }

  Co<bool> stop() {
    const bool recovered = phase_ == Phase::serving || directory_.wasClean();
    if (phase_ == Phase::serving) co_await registration_->leave(stopWithin() / 3);
    phase_ = Phase::stopping;
    sockets_.clear();
    if (acceptor_) acceptor_->stop();
    co_await onAllShards([](ShardParts& parts) -> kj::Promise<void> {
      parts.partitions.stopWaiting();
      parts.gate.stop();
      parts.transactions.stop();
      parts.groups.stop();
      if (!parts.server) return kj::READY_NOW;
      return parts.server->drain();
    });
    if (registration_) registration_->stop();
    if (controller_.get() != nullptr) co_await controller_->stop();
    if (neighbours_) neighbours_->stop();
    co_await onAllShards([](ShardParts& parts) {
      parts.partitions.close();
      return parts.logs.close();
    });
    co_await directory_.close();
    http_ = nullptr;
    co_return recovered && !directory_.offlineReason();
  }

  kj::Promise<std::string> failed() {
    return controller_->failed().then(
        [](kj::Exception&& exception) { return std::string(exception.getDescription().cStr()); });
  }

  Duration stopWithin() const { return std::chrono::milliseconds(settings_.shutdownTimeoutMs); }
  Shard& shard() { return first_; }

 private:
  enum class Phase : uint8_t { starting, joining, recovering, serving, stopping };

  // Alone, it has no need of a port for others.
  bool isClustered() const { return !settings_.controllers.empty(); }

  peer::Identity identity() {
    peer::Identity self{.node = node_, .incarnation = incarnation_, .version = options_.version};
    if (!directory_.clusterId().isZero()) self.cluster = directory_.clusterId();
    return self;
  }

  std::optional<Duration> heartbeatEvery() const {
    if (!isClustered()) return std::nullopt;
    return std::chrono::milliseconds(settings_.brokerHeartbeatMs);
  }

  Co<void> connectReplication() {
    for (uint32_t i = 0; i < first_.count(); ++i) {
      co_await first_.call(i, [this, parts = parts_[i]](Shard& shard) {
        parts->partitions.connect({.leaders = &parts->links,
                                   .propose = [client = controller::ControllerClient(shard, *controller_)](
                                                  controller::AlterPartitionsRequest request) mutable {
                                     return client.alterPartitions(std::move(request));
                                   }});
      });
    }
  }

  std::vector<coordinator::CoordinatorShard> coordinatorsOfShards() {
    std::vector<coordinator::CoordinatorShard> shards;
    for (ShardParts* parts : parts_)
      shards.push_back({&parts->partitions, &parts->groups, &parts->transactions, &parts->gate});
    return shards;
  }

  // At the same time; one that fails is heard of when all have ended.
  Co<void> onAllShards(kj::Promise<void> (*work)(ShardParts&)) {
    std::vector<kj::Promise<void>> working;
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      working.push_back(first_.call(i, [parts = parts_[i], work] { return work(*parts); }));
    }
    co_await kj::joinPromises(toArray(working));
  }

  static std::vector<kafka::ListenerOptions> listenersOf(const config::BrokerSettings& settings) {
    std::vector<kafka::ListenerOptions> listeners;
    for (const config::Endpoint& endpoint : settings.listeners) {
      listeners.push_back({.name = endpoint.listenerName(), .listen = endpoint.address});
    }
    return listeners;
  }

  std::unique_ptr<http::Server> startHttp() {
    if (settings_.httpListen.empty()) return nullptr;
    http::Options options{.listen = settings_.httpListen.front().address,
                          .version = options_.version,
                          .seriesMax = static_cast<size_t>(settings_.metricsSeriesMax)};
    http::Providers providers;
    providers.readiness = [this] { return readiness(); };
    providers.registries = [this] {
      std::vector<metrics::Registry*> registries;
      for (ShardParts* parts : parts_) registries.push_back(&parts->metrics);
      return registries;
    };
    return std::make_unique<http::Server>(first_, std::move(options), std::move(providers));
  }

  std::vector<http::Check> readiness() const {
    std::string reason;
    switch (phase_) {
      case Phase::starting: reason = "opening the metadata"; break;
      case Phase::joining: reason = "waiting for a controller of the cluster"; break;
      case Phase::recovering:
        reason = fmt::format("recovering: {} of {} partitions are open", recovered_.opened, recovered_.total);
        break;
      case Phase::serving: break;
      case Phase::stopping: reason = "stopping"; break;
    }
    const std::optional<std::string>& offline = directory_.offlineReason();
    return {{.name = "serving", .ready = phase_ == Phase::serving, .reason = std::move(reason)},
            {.name = "log directory", .ready = !offline, .reason = offline.value_or("")}};
  }

  static std::string describe(const std::string& name, const Address& address) {
    return name == config::kDefaultListenerName ? address.toString() : fmt::format("{}={}", name, address.toString());
  }

  std::string advertisedOf(const std::string& listener) const {
    for (const config::Endpoint& endpoint : settings_.advertised) {
      if (endpoint.listenerName() == listener) return endpoint.address.toString();
    }
    return "";
  }

  Co<void> recover(std::function<void(RecoveryProgress)>& progress) {
    std::vector<kj::Promise<void>> opening;
    for (uint32_t i = 0; i < first_.count(); ++i) {
      opening.push_back(first_.call(i, [parts = parts_[i]] { return parts->partitions.whenOpened(); }));
    }
    bool done = false;
    auto all = kj::joinPromises(toArray(opening)).then([&done] { done = true; }).fork();
    while (!done) {
      RecoveryProgress sum;  // of all shards
      for (uint32_t i = 0; i < first_.count(); ++i) {
        auto part = co_await first_.call(i, [parts = parts_[i]] { return parts->partitions.progress(); });
        sum.opened += part.opened;
        sum.total += part.total;
      }
      recovered_ = sum;
      co_await all.addBranch().exclusiveJoin(first_.after(500ms));
      if (!done) progress(sum);
    }
  }

  static kj::Array<kj::Promise<void>> toArray(std::vector<kj::Promise<void>>& promises) {
    auto builder = kj::heapArrayBuilder<kj::Promise<void>>(promises.size());
    for (auto& promise : promises) builder.add(kj::mv(promise));
    return builder.finish();
  }

  controller::BrokerRegistration brokerRegistration() {
    controller::BrokerRegistration registration;
    registration.id = node_;
    registration.clusterId = directory_.clusterId();
    registration.incarnation = incarnation_;
    if (!settings_.rack.empty()) registration.rack = settings_.rack;
    registration.directories = {directory_.directoryId()};
    registration.mayLack = !directory_.isNew() && !directory_.wasClean();
    for (const kafka::ListenerOptions& listener : listeners_) {
      metadata::Listener row;
      row.name = listener.name;
      row.port = listener.listen.port;
      // Alone, it is where the client has found it; another node of a cluster can only tell what is registered.
      if (isClustered()) row.host = listener.listen.host;
      for (const config::Endpoint& endpoint : settings_.advertised) {
        if (endpoint.listenerName() != listener.name) continue;
        row.host = endpoint.address.host;
        row.port = endpoint.address.port;
      }
      registration.listeners.push_back(std::move(row));
    }
    registration.isAlone = !isClustered();
    if (isClustered()) registration.peer = settings_.peerListen.front().address;
    return registration;
  }

  Co<void> startServers() {
    const std::vector<coordinator::CoordinatorShard> shards = coordinatorsOfShards();
    for (uint32_t i = 0; i < first_.count(); ++i) {
      kafka::ServerOptions options{node_, options_.config, options_.dataDirectory};
      servers_.push_back(co_await first_.call(i, [this, i, options = std::move(options), shards](Shard& shard) mutable {
        ShardParts& parts = *parts_[i];
        parts.server = std::make_unique<kafka::Server>(shard, std::move(options), parts.feed,
                                                       controller::ControllerClient(shard, *controller_),
                                                       std::move(shards), parts.metrics);
        return parts.server.get();
      }));
    }
    kafka::Acceptor::Options options;
    options.connectionsMax = static_cast<size_t>(settings_.connectionsMax);
    options.connectionsPerAddressMax = static_cast<size_t>(settings_.connectionsPerAddressMax);
    acceptor_ = std::make_unique<kafka::Acceptor>(first_, options, std::exchange(sockets_, {}), listeners_, servers_);
  }

  Shard& first_;
  NodeOptions options_;
  const config::BrokerSettings& settings_;
  const NodeId node_;
  const Uuid incarnation_;
  Phase phase_ = Phase::starting;
  RecoveryProgress recovered_;
  std::vector<ShardParts*> parts_;  // by shard; each is owned by its shard
  std::vector<kafka::ListenerOptions> listeners_;
  std::vector<kj::Own<Listener>> sockets_;  // reserved, until the acceptor has them
  kj::Own<Listener> peerSocket_;            // likewise, until the neighbours have it
  std::unique_ptr<http::Server> http_;      // null: off. Asks nothing before the constructor has ended
  storage::LogDirectory directory_;
  std::unique_ptr<Neighbours> neighbours_;  // null: alone
  kj::Own<controller::Controller> controller_;
  std::unique_ptr<Registration> registration_;
  std::vector<kafka::Server*> servers_;
  std::unique_ptr<kafka::Acceptor> acceptor_;
};

// The parts of the other shards live until all loops have stopped, and use what is here: so it goes last.
Node::Node(Shard& first, NodeOptions options) {
  auto impl = std::make_unique<Impl>(first, std::move(options));
  impl_ = impl.get();
  first.atEnd([impl = std::move(impl)] {});
}

kj::Promise<Serving> Node::start(std::function<void(RecoveryProgress)> progress) {
  return impl_->start(std::move(progress));
}
kj::Promise<bool> Node::stop() { return impl_->shard().within(impl_->stopWithin(), kj::Promise<bool>(impl_->stop())); }
kj::Promise<std::string> Node::failed() { return impl_->failed(); }

}  // namespace mq::broker
