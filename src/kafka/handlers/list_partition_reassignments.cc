// ListPartitionReassignments (KIP-455): the moves of replicas that are under way. Of partitions that move nothing, or
// are not there, nothing is said, as Kafka does.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/partition_results.h"
#include "kafka/server.h"
#include "wire/list_partition_reassignments_request.h"
#include "wire/list_partition_reassignments_response.h"

namespace mq::kafka {

namespace {

std::vector<int32_t> numbers(const std::vector<NodeId>& nodes) {
  std::vector<int32_t> list;
  for (NodeId node : nodes) list.push_back(node.value());
  return list;
}

class Listing {
 public:
  explicit Listing(wire::ListPartitionReassignmentsResponse& response) : response_(response) {}

  void add(const metadata::Topic& topic, int32_t index) {
    const metadata::Partition* partition = topic.partition(index);
    if (partition == nullptr || (partition->adding.empty() && partition->removing.empty())) return;
    if (response_.topics.empty() || response_.topics.back().name != topic.name)
      response_.topics.emplace_back().name = topic.name;
    response_.topics.back().partitions.push_back({.partitionIndex = index,
                                                  .replicas = numbers(partition->replicas),
                                                  .addingReplicas = numbers(partition->adding),
                                                  .removingReplicas = numbers(partition->removing)});
  }

 private:
  wire::ListPartitionReassignmentsResponse& response_;
};

}  // namespace

Co<wire::ListPartitionReassignmentsResponse> listPartitionReassignments(Request& request,
                                                                        wire::ListPartitionReassignmentsRequest asked) {
  Server& server = request.server;
  wire::ListPartitionReassignmentsResponse response;
  response.errorMessage.reset();
  // A read of the quorum: what was answered to anybody before, here or at another node, is in our image afterwards.
  auto current = co_await server.controller().ask(controller::DescribeQuorumRequest());
  if (!current) {
    response.errorCode = current.failure().error;
    response.errorMessage = messageOf(current);
    co_return response;
  }
  Listing listing(response);
  if (!asked.topics) {
    for (const auto& [name, topic] : server.image().topics())
      for (int32_t index = 0; index < topic->partitionCount(); ++index) listing.add(*topic, index);
    co_return response;
  }
  for (const auto& wanted : *asked.topics) {
    metadata::TopicRef topic = server.image().topic(wanted.name);
    if (topic == nullptr) continue;
    for (int32_t index : wanted.partitionIndexes) listing.add(*topic, index);
  }
  co_return response;
}

}  // namespace mq::kafka
