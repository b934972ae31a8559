// Node: one mq process, whole. Builds the modules its roles need in the order of their dependencies, and so ends them
// in reverse; there is no registry of globals, and no decision of theirs is taken here.
//
//   addresses reserved, http → log directory → metadata feeds, logs and partitions of each shard → controller →
//   recovery → registration
//     → Kafka servers → (serving) → sockets closed, long polls answered → controller → logs flushed and sealed → http
//
// Lives on shard 0; what belongs to another shard is built, used and destroyed there.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/gauges.h"
#include "config/broker_settings.h"
#include "kafka/listener.h"
#include "runtime/shard.h"

namespace mq::broker {

struct NodeOptions {
  config::BrokerConfig config;
  std::string dataDirectory;  // absolute
  std::string version;        // shown in the metrics
  ProcessProbe process;       // for the metrics
};

// What a person wants to know once it serves.
struct Serving {
  Uuid clusterId;
  NodeId node;
  bool newDirectory = false;
  bool wasClean = true;
  size_t topics = 0;
  uint64_t bytes = 0;                   // of their logs
  std::vector<std::string> listening;   // "NAME=HOST:PORT", with real ports
  std::vector<std::string> advertised;  // "" where it is the address that the client connects to
  std::string http;                     // empty: off
  size_t offlinePartitions = 0;
};

struct RecoveryProgress {
  size_t opened = 0;
  size_t total = 0;
};

class Node {
 public:
  // Takes its addresses, then locks and claims the data directory: blocks. Throws kj::Exception with one line of
  // reason; a port in use is found before the directory is touched.
  Node(Shard& first, NodeOptions options);
  KJ_DISALLOW_COPY(Node);

  // Resolves when clients are served. `progress` is called while logs are being recovered.
  kj::Promise<Serving> start(std::function<void(RecoveryProgress)> progress);
  // Clients get their answers, data is flushed and sealed; what is not done within shutdown.timeout.ms is left to the
  // next start's recovery, and then this rejects. Also after a start that failed half-way. False: the next start has
  // something to recover, because the log directory failed or was not recovered yet.
  kj::Promise<bool> stop();
  // Resolves with the reason when the node cannot go on (its metadata log failed).
  kj::Promise<std::string> failed();

 private:
  class Impl;
  Impl* impl_;  // owned by shard 0, until the node has ended
};

}  // namespace mq::broker
