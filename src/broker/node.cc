#include "broker/node.h"

#include <kj/debug.h>

#include <algorithm>

#include "broker/options.h"
#include "controller/controller.h"
#include "controller/metadata_feed.h"
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
  ShardParts(Shard& shard, storage::LogDirectory& directory, NodeId node, const config::BrokerConfig& config)
      : logs(shard, directory), partitions(shard, node, config, logs, feed) {}

  metrics::Registry metrics;
  controller::MetadataFeed feed;
  storage::LogShard logs;
  replica::Partitions partitions;
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
        directory_(first, storageOptions(settings_, options_.dataDirectory), {std::nullopt, node_}) {}

  Co<Serving> start(std::function<void(RecoveryProgress)> progress) {
    Serving serving;
    serving.node = node_;
    serving.clusterId = directory_.clusterId();
    serving.wasClean = directory_.wasClean();
    serving.newDirectory = directory_.isNew();

    for (uint32_t i = 0; i < first_.count(); ++i) {
      ShardParts* built = co_await first_.call(i, [this](Shard& shard) {
        auto parts = std::make_unique<ShardParts>(shard, directory_, node_, options_.config);
        ShardParts* pointer = parts.get();
        shard.atEnd([parts = std::move(parts)] {});  // destroyed on its own thread
        return pointer;
      });
      parts_.push_back(built);
    }
    std::vector<controller::MetadataFeed*> feeds;
    for (ShardParts* parts : parts_) feeds.push_back(&parts->feed);
    // Partitions without the metadata that names them: restored halfway. Not decided by the directory's age, since the
    // first start of all may have been killed before it came to the metadata log.
    bool hasPartitions = !directory_.partitions().empty();
    controller_ = kj::heap<controller::Controller>(
        first_, controllerOptions(options_.config, options_.dataDirectory, directory_.clusterId(), hasPartitions),
        std::move(feeds));
    co_await controller_->start();
    co_await recover(progress);
    // What no topic of the committed metadata claimed: only a delete record deletes, so it is moved aside.
    co_await directory_.quarantineUnknown();

    co_await startServers();
    bindListeners();
    co_await registerBroker();
    acceptor_->start();

    serving.topics = controller_->image()->topics().size();
    for (uint32_t i = 0; i < first_.count(); ++i) {
      auto [bytes, offline] = co_await first_.call(i, [parts = parts_[i]] {
        uint64_t bytes = 0;
        size_t offline = 0;
        for (const auto& row : parts->partitions.usage()) {
          bytes += row.bytes;
          offline += row.offline;
        }
        return std::pair(bytes, offline);
      });
      serving.bytes += bytes;
      serving.offlinePartitions += offline;
    }
    for (const kafka::ListenerOptions& listener : listeners_) {
      serving.listening.push_back(describe(listener.name, listener.listen));
      serving.advertised.push_back(advertisedOf(listener.name));
    }
    co_return serving;
  }

  Co<void> stop() {
    if (acceptor_) acceptor_->stop();
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      co_await first_.call(i, [parts = parts_[i]]() -> kj::Promise<void> {
        parts->partitions.stopWaiting();
        if (!parts->server) return kj::READY_NOW;
        return parts->server->drain();
      });
    }
    if (controller_.get() != nullptr) co_await controller_->stop();
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      co_await first_.call(i, [parts = parts_[i]] { return parts->logs.close(); });
    }
    co_await directory_.close();
  }

  kj::Promise<std::string> failed() {
    return controller_->failed().then(
        [](kj::Exception&& exception) { return std::string(exception.getDescription().cStr()); });
  }

  Duration stopWithin() const { return std::chrono::milliseconds(settings_.shutdownTimeoutMs); }
  Shard& shard() { return first_; }

 private:
  static std::string describe(const std::string& name, const Address& address) {
    return name == kDefaultListenerName ? address.toString() : fmt::format("{}={}", name, address.toString());
  }

  std::string advertisedOf(const std::string& listener) const {
    for (const config::Endpoint& endpoint : settings_.advertised) {
      if (listenerName(endpoint) == listener) return Address{endpoint.host, endpoint.port}.toString();
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
      co_await all.addBranch().exclusiveJoin(first_.after(500ms));
      if (done) break;
      RecoveryProgress sum;
      for (uint32_t i = 0; i < first_.count(); ++i) {
        auto part = co_await first_.call(i, [parts = parts_[i]] { return parts->partitions.progress(); });
        sum.opened += part.opened;
        sum.total += part.total;
      }
      progress(sum);
    }
  }

  static kj::Array<kj::Promise<void>> toArray(std::vector<kj::Promise<void>>& promises) {
    auto builder = kj::heapArrayBuilder<kj::Promise<void>>(promises.size());
    for (auto& promise : promises) builder.add(kj::mv(promise));
    return builder.finish();
  }

  void bindListeners() {
    kafka::Acceptor::Options options;
    options.connectionsMax = static_cast<size_t>(settings_.connectionsMax);
    options.connectionsPerAddressMax = static_cast<size_t>(settings_.connectionsPerAddressMax);
    acceptor_ = std::make_unique<kafka::Acceptor>(first_, options, listeners_, servers_);
  }

  Co<void> registerBroker() {
    controller::BrokerRegistration registration;
    registration.id = node_;
    registration.clusterId = directory_.clusterId();
    registration.incarnation = first_.random().uuid();
    if (!settings_.rack.empty()) registration.rack = settings_.rack;
    registration.directories = {directory_.directoryId()};
    for (const kafka::ListenerOptions& listener : listeners_) {
      metadata::Listener row;
      row.name = listener.name;
      row.port = listener.listen.port;
      for (const config::Endpoint& endpoint : settings_.advertised) {
        if (listenerName(endpoint) != listener.name) continue;
        row.host = endpoint.host;
        row.port = endpoint.port != 0 ? endpoint.port : listener.listen.port;
      }
      registration.listeners.push_back(std::move(row));
    }
    auto registered = co_await controller_->registerBroker(std::move(registration));
    if (!registered)
      kj::throwFatalException(
          KJ_EXCEPTION(FAILED, "broker registration refused", registered.failure().message.c_str()));
  }

  Co<void> startServers() {
    for (const config::Endpoint& endpoint : settings_.listeners) {
      listeners_.push_back({.name = listenerName(endpoint), .listen = {endpoint.host, endpoint.port}});
    }
    std::vector<replica::Partitions*> partitions;
    for (ShardParts* parts : parts_) partitions.push_back(&parts->partitions);
    for (uint32_t i = 0; i < first_.count(); ++i) {
      kafka::ServerOptions options{node_, options_.config, listeners_, options_.dataDirectory,
                                   directory_.directoryId()};
      servers_.push_back(
          co_await first_.call(i, [this, i, options = std::move(options), partitions](Shard& shard) mutable {
            ShardParts& parts = *parts_[i];
            parts.server = std::make_unique<kafka::Server>(shard, std::move(options), parts.feed,
                                                           controller::ControllerClient(shard, *controller_),
                                                           std::move(partitions), parts.metrics);
            return parts.server.get();
          }));
    }
  }

  Shard& first_;
  NodeOptions options_;
  const config::BrokerSettings& settings_;
  const NodeId node_;
  storage::LogDirectory directory_;
  std::vector<ShardParts*> parts_;  // by shard; each is owned by its shard
  kj::Own<controller::Controller> controller_;
  std::vector<kafka::ListenerOptions> listeners_;
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
kj::Promise<void> Node::stop() { return impl_->shard().within(impl_->stopWithin(), kj::Promise<void>(impl_->stop())); }
kj::Promise<std::string> Node::failed() { return impl_->failed(); }

}  // namespace mq::broker
