// AlterPartitionReassignments (KIP-455, KIP-860): begins, changes and cancels moves of replicas.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/partition_results.h"
#include "kafka/server.h"
#include "wire/alter_partition_reassignments_request.h"
#include "wire/alter_partition_reassignments_response.h"

namespace mq::kafka {

Co<wire::AlterPartitionReassignmentsResponse> alterPartitionReassignments(
    Request& request, wire::AlterPartitionReassignmentsRequest asked) {
  controller::AlterReassignmentsRequest wish{.partitions = {}, .mayChangeFactor = asked.allowReplicationFactorChange};
  std::vector<TopicPartition> partitions;
  for (const auto& topic : asked.topics) {
    for (const auto& partition : topic.partitions) {
      auto& into = wish.partitions.emplace_back();
      into.partition = partitions.emplace_back(topic.name, partition.partitionIndex);
      if (!partition.replicas) continue;
      into.replicas.emplace();
      for (int32_t node : *partition.replicas) into.replicas->push_back(NodeId(node));
    }
  }
  auto answered = co_await request.server.controller().ask(std::move(wish));
  wire::AlterPartitionReassignmentsResponse response;
  response.allowReplicationFactorChange = asked.allowReplicationFactorChange;
  response.errorCode = answered.errorCode();
  response.errorMessage = messageOf(answered);
  auto results = resultsOf<controller::AlterReassignmentsResponse>(std::move(answered), std::move(partitions));
  forEachTopic(results, [&](const std::string& topic, auto of) {
    auto& into = response.responses.emplace_back();
    into.name = topic;
    for (const auto& one : of) {
      into.partitions.push_back({.partitionIndex = one.partition.partition,
                                 .errorCode = one.result.errorCode(),
                                 .errorMessage = messageOf(one.result)});
    }
  });
  co_return response;
}

}  // namespace mq::kafka
