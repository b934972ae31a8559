// DescribeTopicPartitions (KIP-966): topics in order of name, page by page. The cursor names the first partition of the
// next page.
#include <algorithm>

#include "controller/planner.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/describe_topic_partitions_request.h"
#include "wire/describe_topic_partitions_response.h"

namespace mq::kafka {

namespace {

using Topic = wire::DescribeTopicPartitionsResponse::DescribeTopicPartitionsResponseTopic;
using Partition = wire::DescribeTopicPartitionsResponse::DescribeTopicPartitionsResponsePartition;

std::vector<int32_t> numbers(const std::vector<NodeId>& nodes) {
  std::vector<int32_t> list;
  for (NodeId node : nodes) list.push_back(node.value());
  return list;
}

Partition describe(const metadata::Image& image, int32_t index, const metadata::Partition& partition) {
  Partition described;
  described.partitionIndex = index;
  described.leaderId = partition.leader.value();
  described.leaderEpoch = partition.leaderEpoch.value();
  described.replicaNodes = numbers(partition.replicas);
  described.isrNodes = numbers(partition.isr);
  described.eligibleLeaderReplicas = numbers(partition.eligibleLeaders);
  described.lastKnownElr = numbers(partition.lastKnownEligible);
  for (NodeId node : partition.replicas) {
    const metadata::Broker* broker = image.broker(node);
    if (broker == nullptr || broker->fenced) described.offlineReplicas.push_back(node.value());
  }
  if (partition.leader == kNoNode) described.errorCode = Error::leaderNotAvailable;
  return described;
}

}  // namespace

wire::DescribeTopicPartitionsResponse describeTopicPartitions(Request& request,
                                                              wire::DescribeTopicPartitionsRequest asked) {
  Server& server = request.server;
  const metadata::Image& image = server.image();
  wire::DescribeTopicPartitionsResponse response;

  std::vector<std::string> names;
  if (asked.topics.empty()) {
    for (const auto& [name, topic] : image.topics()) names.push_back(name);
  } else {
    for (auto& topic : asked.topics) names.push_back(std::move(topic.name));
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
  }
  std::string from = asked.cursor ? asked.cursor->topicName : "";
  int32_t fromPartition = asked.cursor ? std::max(asked.cursor->partitionIndex, 0) : 0;
  int32_t left = std::min(asked.responsePartitionLimit, server.settings().describePartitionsMax);
  if (left < 1) left = server.settings().describePartitionsMax;

  for (auto name = std::ranges::lower_bound(names, from); name != names.end(); ++name) {
    auto known = image.topic(*name);
    Topic topic;
    topic.name = *name;
    if (known == nullptr) {
      topic.errorCode =
          controller::checkTopicName(*name) ? Error::unknownTopicOrPartition : Error::invalidTopicException;
      response.topics.push_back(std::move(topic));
      continue;
    }
    int32_t index = *name == from ? fromPartition : 0;
    if (left == 0 && index < known->partitionCount()) {
      response.nextCursor = {.topicName = *name, .partitionIndex = index};
      break;
    }
    topic.topicId = known->id;
    topic.isInternal = isInternal(*name);
    topic.topicAuthorizedOperations = kTopicOperations;
    for (; index < known->partitionCount() && left > 0; ++index, --left) {
      topic.partitions.push_back(describe(image, index, *known->partition(index)));
    }
    response.topics.push_back(std::move(topic));
    if (index < known->partitionCount()) {
      response.nextCursor = {.topicName = *name, .partitionIndex = index};
      break;
    }
  }
  return response;
}

}  // namespace mq::kafka
