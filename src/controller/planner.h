// Planner: the decisions of the controller, without clock, disk or promise. Each takes a request and the image that all
// earlier decisions lead to, and answers with the response and the records that make it true. Changes nothing itself.
//
//   Plan<CreateTopicsResponse> plan = planner.createTopics(now, request);
//   // plan.records become one log entry: all of them apply or none; plan.response leaves once they are committed.
//
// Items of a request are decided one after the other, each seeing those before it; a refused one does not hold up the
// others. Error codes and their order are Kafka's; texts are ours, except where tools look for Kafka's.
#pragma once
#include <vector>

#include "base/random.h"
#include "config/broker_settings.h"
#include "controller/raft_log.h"
#include "controller/requests.h"
#include "metadata/image.h"
#include "metadata/record.h"

namespace mq::controller {

template <class Response>
struct Plan {
  Response response;
  std::vector<metadata::Record> records;
};

struct PlannerOptions {
  NodeId node{0};
  config::BrokerConfig config;  // as this node was started; the dynamic values of the image go on top
  int32_t producerIdBlock = 1000;
};

// What a decision may look at.
struct Now {
  const metadata::Image& image;
  Prng& random;                        // for ids
  Space space = Space::plenty;         // low: nothing that grows the cluster; none: nothing at all
  int64_t index = image.offset() + 1;  // of the entry that the records will be in
};

class Planner {
 public:
  explicit Planner(PlannerOptions options) : options_(std::move(options)) {}

  Plan<CreateTopicsResponse> createTopics(Now now, const CreateTopicsRequest& request) const;
  Plan<DeleteTopicsResponse> deleteTopics(Now now, const DeleteTopicsRequest& request) const;
  Plan<CreatePartitionsResponse> createPartitions(Now now, const CreatePartitionsRequest& request) const;
  Plan<AlterConfigsResponse> alterConfigs(Now now, const AlterConfigsRequest& request) const;
  Plan<Result<void>> updateFeatures(Now now, const UpdateFeaturesRequest& request) const;
  Plan<EnsureTopicsResponse> ensureTopics(Now now, const EnsureTopicsRequest& request) const;
  Plan<Result<ProducerIdBlock>> allocateProducerIds(Now now) const;

  // planner_brokers.cc: brokers come, stay, stop and go, and with them the leaders of partitions.
  Plan<Result<RegisteredBroker>> registerBroker(Now now, const BrokerRegistration& registration) const;
  Plan<Result<BrokerState>> heartbeat(Now now, const BrokerHeartbeat& beat) const;
  Plan<std::monostate> fence(Now now, const std::vector<NodeId>& brokers) const;
  Plan<Result<void>> unregisterBroker(Now now, const UnregisterBrokerRequest& request) const;
  Plan<Result<void>> drainBroker(Now now, const DrainBrokerRequest& request) const;
  // Leaders back to their preferred replicas, some at a time.
  Plan<std::monostate> balance(Now now) const;

  // planner_partitions.cc
  Plan<AlterPartitionsResponse> alterPartitions(Now now, const AlterPartitionsRequest& request) const;
  Plan<ElectLeadersResponse> electLeaders(Now now, const ElectLeadersRequest& request) const;
  Plan<AlterReassignmentsResponse> alterReassignments(Now now, const AlterReassignmentsRequest& request) const;

  // The first records of a new cluster whose image holds its members.
  std::vector<metadata::Record> bootstrap(const Uuid& clusterId, const metadata::Image& image) const;

  // The settings in force: those of the start and the committed dynamic ones.
  config::BrokerConfig effective(const metadata::Image& image) const;

 private:
  PlannerOptions options_;
};

Failure noSpace();

// Kafka's rules; the message says which one is broken.
Result<void> checkTopicName(std::string_view name);

// Not the nil id, nor one that begins with a dash and so looks like an option on a command line.
Uuid newId(Prng& random);

}  // namespace mq::controller
