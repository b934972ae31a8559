// Server: the Kafka side of one shard. Owns the connections of the shard and what its handlers share: request memory,
// fetch sessions, producer ids, the effective configuration.
//
// One per shard, built on it; ends in drain(), which answers what is pending, and destruction, which drops the rest.
// Handlers reach partitions of other shards through partitionsOf(), whose objects are touched only by tasks posted
// there.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "config/broker_settings.h"
#include "controller/controller.h"
#include "controller/metadata_feed.h"
#include "coordinator/coordinator_shard.h"
#include "kafka/buffer_pool.h"
#include "kafka/connection.h"
#include "kafka/fetch_sessions.h"
#include "kafka/request.h"
#include "metrics/registry.h"
#include "replica/partitions.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::kafka {

struct ServerOptions {
  NodeId node{1};
  config::BrokerConfig config;  // as started; dynamic values are put on top of it here
  std::string logDirectory;     // where the partitions lie, for DescribeLogDirs
};

class Server {
 public:
  Server(Shard& shard, ServerOptions options, controller::MetadataFeed& feed, controller::ControllerClient controller,
         std::vector<coordinator::CoordinatorShard> shards,  // all of the node, by index
         metrics::Registry& metrics);
  ~Server() noexcept(false);
  KJ_DISALLOW_COPY(Server);

  // Serves a client until it goes. `ticket` is dropped when the connection has ended.
  void serve(kj::Own<Stream> stream, const ListenerOptions& listener, kj::Own<void> ticket);

  // Answers what is pending, long polls at once, and resolves when no connection is left. Serves nobody from then on.
  kj::Promise<void> drain();
  size_t connectionCount() const { return connections_.size(); }

  // What handlers work with.
  Shard& shard() { return shard_; }
  NodeId node() const { return options_.node; }
  const ServerOptions& options() const { return options_; }
  const metadata::Image& image() const { return *feed_.image(); }
  controller::MetadataFeed& feed() { return feed_; }
  controller::ControllerClient& controller() { return controller_; }
  const config::BrokerConfig& config() const { return config_; }  // with the dynamic values of the present image
  const config::BrokerSettings& settings() const { return config_.settings(); }
  replica::Partitions& partitions() { return partitionsOf(shard_.index()); }
  replica::Partitions& partitionsOf(uint32_t shard) { return *shards_[shard].partitions; }  // for tasks on that shard
  coordinator::GroupCoordinator& coordinatorOf(uint32_t shard) { return *shards_[shard].groups; }  // likewise
  coordinator::TransactionCoordinator& transactionsOf(uint32_t shard) { return *shards_[shard].transactions; }
  coordinator::TransactionGate& gateOf(uint32_t shard) { return *shards_[shard].gate; }
  const std::vector<coordinator::CoordinatorShard>& coordinators() const { return shards_; }  // by shard
  uint32_t shardOf(const TopicIdPartition& id) const { return replica::shardOf(id, shard_.count()); }
  BufferPool& pool() { return pool_; }
  FetchSessions& fetchSessions() { return fetchSessions_; }
  uint64_t nextWaitToken() { return (nextWait_++ << 10) | shard_.index(); }  // unique in the node
  metrics::ShardMetrics& metrics() { return metrics_; }
  metrics::ApiMetrics& metrics(const Api& api) { return apiMetrics_[indexOf(api)]; }
  void countFetched(const TopicIdPartition& id, uint64_t bytes);
  // Work that outlives the connection that asked for it, such as an append.
  Tasks& tasks() { return tasks_; }

  // An idempotent producer's id, out of the block this shard holds.
  Co<Result<ProducerId>> nextProducerId();

  // Whether group.version is at 1 or above: members may take up the consumer protocol (KIP-848).
  bool hasConsumerProtocol() const;
  // __consumer_offsets and __transaction_state, which the first call makes. COORDINATOR_NOT_AVAILABLE while too few
  // brokers are there for its replicas.
  Co<Result<metadata::TopicRef>> offsetsTopic();
  Co<Result<metadata::TopicRef>> transactionsTopic();

  // Resolves when the partitions of the present image can be used, all shards of this node included; after a moment in
  // any case. So that who was told of a new topic does not meet NOT_LEADER_OR_FOLLOWER at first.
  Co<void> whenOpened();

  // A broker's address for clients of one listener: as advertised, or the one that the client reached.
  struct Endpoint {
    NodeId node;
    std::string host;
    int32_t port;
    std::optional<std::string> rack;
  };
  std::optional<Endpoint> endpoint(const metadata::Broker& broker, const Session& session) const;
  std::vector<Endpoint> endpoints(const Session& session) const;  // of all live brokers, by id

 private:
  Co<void> sweep();
  Co<Result<metadata::TopicRef>> internalTopic(std::string_view name, int32_t partitions, int32_t replicationFactor,
                                               int32_t segmentBytes, std::string_view compression);
  // How many brokers the cluster has, also those that are away, or have not come yet because it has just begun: a topic
  // that keeps groups for years gets no fewer replicas for a bad moment.
  int32_t brokersToBe() const;
  void imageChanged(const metadata::ImageRef& image, const metadata::Delta& delta);

  Shard& shard_;
  ServerOptions options_;
  controller::MetadataFeed& feed_;
  controller::ControllerClient controller_;
  std::vector<coordinator::CoordinatorShard> shards_;
  config::BrokerConfig config_;
  metrics::Registry& registry_;
  metrics::ShardMetrics& metrics_;
  std::vector<metrics::ApiMetrics> apiMetrics_;  // by place in apis()
  std::vector<metrics::Registration> apiRegistrations_;
  // Of each partition that this shard has sent records of; the partition itself may live on another.
  struct Fetched {
    metrics::PartitionMetrics counters;
    metrics::Registration shown;
  };
  std::map<TopicIdPartition, Fetched> fetched_;
  BufferPool pool_;
  FetchSessions fetchSessions_;
  uint64_t nextWait_ = 1;
  int64_t nextProducerId_ = 0;
  int64_t producerIdEnd_ = 0;
  kj::Maybe<kj::ForkedPromise<void>> producerIdBlock_;  // being fetched

  std::map<uint64_t, Connection*> connections_;  // by order of arrival
  uint64_t nextConnection_ = 0;
  bool draining_ = false;
  kj::Own<kj::PromiseFulfiller<void>> drained_;
  kj::Own<void> subscription_;
  Tasks tasks_;  // last: what it runs uses the rest
};

}  // namespace mq::kafka
