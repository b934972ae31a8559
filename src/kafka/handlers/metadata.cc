// Metadata: brokers, topics and leaders, as of the shard's present image. May create topics on first use.
#include <algorithm>
#include <set>

#include "controller/planner.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"

namespace mq::kafka {

namespace {

using Topic = wire::MetadataResponse::MetadataResponseTopic;
using Asked = wire::MetadataRequest::MetadataRequestTopic;

constexpr int16_t kLookUpByIdFrom = 12;  // ids are in the messages of 10 and 11, but for answers alone

std::vector<int32_t> numbers(const std::vector<NodeId>& nodes) {
  std::vector<int32_t> list;
  list.reserve(nodes.size());
  for (NodeId node : nodes) list.push_back(node.value());
  return list;
}

bool isLive(const metadata::Image& image, NodeId node) {
  const metadata::Broker* broker = image.broker(node);
  return broker != nullptr && !broker->fenced;
}

void describe(const metadata::Image& image, const metadata::Topic& topic, bool operations, Topic& into) {
  into.name = topic.name;
  into.topicId = topic.id;
  into.isInternal = isInternal(topic.name);
  if (operations) into.topicAuthorizedOperations = kTopicOperations;
  into.partitions.reserve(topic.partitions.size());
  for (int32_t index = 0; index < topic.partitionCount(); ++index) {
    const metadata::Partition& partition = *topic.partition(index);
    auto& described = into.partitions.emplace_back();
    described.partitionIndex = index;
    described.leaderId = partition.leader.value();
    described.leaderEpoch = partition.leaderEpoch.value();
    described.replicaNodes = numbers(partition.replicas);
    described.isrNodes = numbers(partition.isr);
    for (NodeId node : partition.replicas) {
      if (!isLive(image, node)) described.offlineReplicas.push_back(node.value());
    }
    if (partition.leader == kNoNode) described.errorCode = Error::leaderNotAvailable;
  }
}

Topic describe(const metadata::Image& image, const Asked& asked, int16_t version, bool operations) {
  Topic topic;
  topic.topicId = asked.topicId;
  if (version < kLookUpByIdFrom && (!asked.name || !asked.topicId.isZero())) {
    topic.name = asked.name.value_or("");
    topic.errorCode = Error::invalidRequest;
    return topic;
  }
  if (!asked.topicId.isZero()) {  // the id wins over a name
    topic.name.reset();
    if (auto known = image.topic(asked.topicId)) {
      describe(image, *known, operations, topic);
    } else {
      topic.errorCode = Error::unknownTopicId;
    }
    return topic;
  }
  if (!asked.name) {
    topic.errorCode = Error::invalidRequest;
    return topic;
  }
  topic.name = asked.name;
  if (auto known = image.topic(*asked.name)) {
    describe(image, *known, operations, topic);
  } else {
    topic.errorCode =
        controller::checkTopicName(*asked.name) ? Error::unknownTopicOrPartition : Error::invalidTopicException;
  }
  return topic;
}

// Names that are not there and may be made. The answer then finds them in the image, or says what went wrong.
std::vector<std::string> missing(const metadata::Image& image, const std::vector<Asked>& topics) {
  std::set<std::string> names;
  for (const Asked& asked : topics) {
    if (asked.topicId.isZero() && asked.name && image.topic(*asked.name) == nullptr && !isInternal(*asked.name) &&
        controller::checkTopicName(*asked.name)) {
      names.insert(*asked.name);
    }
  }
  return {names.begin(), names.end()};
}

}  // namespace

Co<wire::MetadataResponse> metadata(Request& request, wire::MetadataRequest asked) {
  Server& server = request.server;
  bool all = !asked.topics || (request.version == 0 && asked.topics->empty());

  std::map<std::string, Failure> refused;
  if (!all && server.settings().autoCreateTopics && asked.allowAutoTopicCreation) {
    if (auto names = missing(server.image(), *asked.topics); !names.empty()) {
      auto created = co_await server.controller().ensureTopics({.names = std::move(names)});
      co_await server.whenOpened();
      for (const auto& topic : created.topics) {
        if (!topic.result) refused.emplace(topic.name, topic.result.failure());
      }
    }
  }

  const metadata::Image& image = server.image();
  wire::MetadataResponse response;
  for (auto& endpoint : server.endpoints(request.session)) {
    response.brokers.push_back(
        {.nodeId = endpoint.node.value(), .host = endpoint.host, .port = endpoint.port, .rack = endpoint.rack});
  }
  response.clusterId = image.clusterId().toString();
  response.controllerId = response.brokers.empty() ? -1 : response.brokers.front().nodeId;
  if (asked.includeClusterAuthorizedOperations) response.clusterAuthorizedOperations = kClusterOperations;
  bool operations = asked.includeTopicAuthorizedOperations;
  if (all) {
    response.topics.reserve(image.topics().size());
    for (const auto& [name, topic] : image.topics())
      describe(image, *topic, operations, response.topics.emplace_back());
  } else {
    response.topics.reserve(asked.topics->size());
    for (const Asked& topic : *asked.topics) {
      response.topics.push_back(describe(image, topic, request.version, operations));
      Topic& described = response.topics.back();
      if (described.errorCode != Error::unknownTopicOrPartition) continue;
      if (auto why = refused.find(*topic.name); why != refused.end()) described.errorCode = why->second.error;
    }
  }
  co_return response;
}

}  // namespace mq::kafka
