// Controller: the one place where the cluster's metadata changes. Lives on shard 0.
//
//   request -> decide (pure: planner.h, on an image that holds every earlier decision) -> records
//           -> RaftLog (one durable frame for all that waited) -> publish the image to every shard -> answer
//
// Decisions are taken in the order of the calls, each one on the image that all earlier ones lead to, whether or not
// these are durable yet; an answer leaves only when its records are durable and every shard of this node has the image
// that holds them. A request without effect (validateOnly, refused) waits for the decisions before it, since they may
// be why it was refused.
//
// With one voter an entry is committed once our own sync has returned. Any failure of the log is final (`failed`
// resolves and every waiting and later request is rejected): what is on the disk is then unknown until the next start.
// Exception: no space. Space for the next entries is set aside beforehand, so a full disk refuses what would grow the
// metadata (KAFKA_STORAGE_ERROR that says so) and still takes deletions, registrations and producer ids.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kj/async.h>

#include "config/broker_settings.h"
#include "controller/metadata_feed.h"
#include "controller/requests.h"
#include "metadata/image.h"
#include "runtime/shard.h"

namespace mq::controller {

struct ControllerOptions {
  NodeId node{0};
  std::string directory;   // of the metadata log: <data>/metadata
  Uuid clusterId;          // zero: the existing one, or a random one at the first start
  bool mustExist = false;  // the data directory holds partitions: a missing log is refused, not made anew
  // What a new topic gets where a request leaves it open, and what configs are checked against: the settings this node
  // was started with. The committed dynamic ones are put on top of them here.
  config::BrokerConfig config;
  int32_t producerIdBlock = 1000;  // ids per block
};

class Controller {
 public:
  // Opens, recovers or bootstraps the log: blocks, so construct it before the loops serve anybody. Throws kj::Exception
  // with one line that names file, position and remedy when the log is damaged or another node's. `feeds`:
  // one per shard, by index; they get the recovered image from start().
  Controller(Shard& shard, ControllerOptions options, std::vector<MetadataFeed*> feeds);
  ~Controller() noexcept(false);  // writes nothing
  KJ_DISALLOW_COPY(Controller);

  // Resolves when every shard has the recovered image.
  kj::Promise<void> start();
  // Answers what was asked before, takes nothing more, marks the log as cleanly closed.
  kj::Promise<void> stop();
  // Resolves with the reason when the log has failed. The node cannot go on then.
  kj::Promise<kj::Exception> failed();

  kj::Promise<CreateTopicsResponse> createTopics(CreateTopicsRequest request);
  kj::Promise<DeleteTopicsResponse> deleteTopics(DeleteTopicsRequest request);
  kj::Promise<CreatePartitionsResponse> createPartitions(CreatePartitionsRequest request);
  kj::Promise<AlterConfigsResponse> alterConfigs(AlterConfigsRequest request);
  kj::Promise<Result<void>> updateFeatures(UpdateFeaturesRequest request);
  kj::Promise<EnsureTopicsResponse> ensureTopics(EnsureTopicsRequest request);
  kj::Promise<Result<ProducerIdBlock>> allocateProducerIds();
  kj::Promise<Result<RegisteredBroker>> registerBroker(BrokerRegistration registration);

  const metadata::ImageRef& image() const;  // the committed one; for shard 0 the same as its feed's
  const Uuid& directoryId() const;          // of this node's metadata log

 private:
  class Impl;
  kj::Own<Impl> impl_;
};

// The controller as any shard reaches it: handlers hold one of these and need not know where the controller is. Cheap;
// one per shard, on that shard. Requests wait in the order of the calls.
class ControllerClient {
 public:
  ControllerClient(Shard& shard, Controller& controller) : shard_(shard), controller_(controller) {}

  kj::Promise<CreateTopicsResponse> createTopics(CreateTopicsRequest request);
  kj::Promise<DeleteTopicsResponse> deleteTopics(DeleteTopicsRequest request);
  kj::Promise<CreatePartitionsResponse> createPartitions(CreatePartitionsRequest request);
  kj::Promise<AlterConfigsResponse> alterConfigs(AlterConfigsRequest request);
  kj::Promise<Result<void>> updateFeatures(UpdateFeaturesRequest request);
  kj::Promise<EnsureTopicsResponse> ensureTopics(EnsureTopicsRequest request);
  kj::Promise<Result<ProducerIdBlock>> allocateProducerIds();
  kj::Promise<Result<RegisteredBroker>> registerBroker(BrokerRegistration registration);

 private:
  Shard& shard_;
  Controller& controller_;
};

}  // namespace mq::controller
