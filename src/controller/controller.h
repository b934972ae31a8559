// Controller: this node's replica of the metadata, and, while it leads the quorum, the one place where it changes. On
// shard 0.
//
//   request -> leader: decide (pure: planner.h, on an image that holds every earlier decision) -> records
//           -> RaftDriver (one frame for all of a turn; committed by a majority) -> apply -> publish to every shard ->
//           answer
//   entry from another leader -> apply -> publish
//
// Every node has one, voter or not: the metadata log is how brokers learn. ask() takes a request wherever it is made,
// here or at the node that leads; its answer leaves when every shard of this node has the image that shows it.
//
// Decisions are taken in the order of the calls, each one on the image that all earlier ones lead to, whether or not
// these are committed yet. When leadership is lost what was decided and not committed is forgotten, and those who wait
// hear that the outcome is open.
//
// Any failure of the log is final (`failed` resolves). Exception: no space. Space for the next entries is set aside
// beforehand, so a full disk refuses what would grow the metadata (KAFKA_STORAGE_ERROR that says so) and still takes
// deletions, registrations and producer ids.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kj/async.h>

#include "config/broker_settings.h"
#include "controller/metadata_feed.h"
#include "controller/peers.h"
#include "controller/requests.h"
#include "metadata/image.h"
#include "runtime/shard.h"

namespace mq::controller {

struct ControllerOptions {
  NodeId node{0};
  std::string directory;   // of the metadata log: <data>/metadata
  Uuid clusterId;          // zero: the existing one, or a random one at the first start
  bool mustExist = false;  // the data directory holds partitions: a missing log is not made anew without a cluster
  // What a new topic gets where a request leaves it open, and what configs are checked against: the settings this node
  // was started with. The committed dynamic ones are put on top of them here.
  config::BrokerConfig config;
  int32_t producerIdBlock = 1000;  // ids per block
  Address address;                 // where this node listens for peers
};

class Controller {
 public:
  // Opens and recovers the log: blocks, so construct it before the loops serve anybody. Throws kj::Exception with one
  // line that names file, position and remedy when the log is damaged or another node's. `feeds`: one per shard, by
  // index. `peers`: null: this node alone is the cluster.
  Controller(Shard& shard, ControllerOptions options, std::vector<MetadataFeed*> feeds, Peers* peers = nullptr);
  ~Controller() noexcept(false);  // writes nothing
  KJ_DISALLOW_COPY(Controller);

  // Finds or begins the cluster, and resolves when all that was committed before is applied here. Waits for a quorum as
  // long as it takes. From then on it answers.
  kj::Promise<void> start();
  // Resolves when every shard has the image, as it is now; from then on they get each new one. Before, nothing was
  // published: a broker must not take up what it led in an earlier life, so it registers first.
  kj::Promise<void> publish();
  // Hands leadership over, answers what was asked before, takes nothing more, marks the log as cleanly closed.
  kj::Promise<void> stop();
  // Resolves with the reason when the log has failed. The node cannot go on then.
  kj::Promise<kj::Exception> failed();

  // Answered by whoever leads. Refused: requestTimedOut when none did within the limit, or when the outcome is open.
  kj::Promise<Result<Answered>> ask(Request request, Duration limit = 15s);

  // --- for peers
  kj::Promise<Result<Answered>> askHere(Request request);  // notController: this node does not lead
  NodeStatus status() const;
  NodeStatus join(const JoinRequest& request);
  void receive(raft::Message message);
  void peersChanged();  // one came, went, or is dead

  NodeId leader() const;                    // kNoNode: not known
  const metadata::ImageRef& image() const;  // the committed one; for shard 0 the same as its feed's
  const Uuid& directoryId() const;          // of this node's metadata log

 private:
  class Impl;
  kj::Own<Impl> impl_;
};

// The controller as any shard reaches it: handlers hold one of these and need not know where the controller is. Cheap;
// one per shard, on that shard. Requests wait in the order of the calls. When a request is refused as a whole each of
// its items says so.
class ControllerClient {
 public:
  ControllerClient(Shard& shard, Controller& controller) : shard_(shard), controller_(controller) {}

  kj::Promise<Result<Answered>> ask(Request request, Duration limit = 15s);

  kj::Promise<CreateTopicsResponse> createTopics(CreateTopicsRequest request);
  kj::Promise<DeleteTopicsResponse> deleteTopics(DeleteTopicsRequest request);
  kj::Promise<CreatePartitionsResponse> createPartitions(CreatePartitionsRequest request);
  kj::Promise<AlterConfigsResponse> alterConfigs(AlterConfigsRequest request);
  kj::Promise<Result<void>> updateFeatures(UpdateFeaturesRequest request);
  kj::Promise<EnsureTopicsResponse> ensureTopics(EnsureTopicsRequest request);
  kj::Promise<Result<ProducerIdBlock>> allocateProducerIds();
  kj::Promise<Result<RegisteredBroker>> registerBroker(BrokerRegistration registration);
  kj::Promise<Result<AlterPartitionsResponse>> alterPartitions(AlterPartitionsRequest request);
  kj::Promise<ElectLeadersResponse> electLeaders(ElectLeadersRequest request);
  kj::Promise<AlterReassignmentsResponse> alterReassignments(AlterReassignmentsRequest request);

 private:
  Shard& shard_;
  Controller& controller_;
};

}  // namespace mq::controller
