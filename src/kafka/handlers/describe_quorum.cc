// DescribeQuorum (KIP-595, KIP-836, KIP-853): who votes on the metadata and how far everybody has come. The metadata
// log goes by the name that it has in Kafka. Offsets are indexes of its entries.
#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/describe_quorum_request.h"
#include "wire/describe_quorum_response.h"

namespace mq::kafka {

namespace {

constexpr std::string_view kMetadataTopic = "__cluster_metadata";
constexpr int16_t kDirectoriesFrom = 2;  // and addresses

using Asked = wire::DescribeQuorumRequest;
using Answered = wire::DescribeQuorumResponse;

bool isMetadataAlone(const Asked& asked) {
  return asked.topics.size() == 1 && asked.topics[0].topicName == kMetadataTopic &&
         asked.topics[0].partitions.size() == 1 && asked.topics[0].partitions[0].partitionIndex == 0;
}

Answered refused(const Asked& asked, const Failure& why) {
  Answered response;
  response.errorMessage.reset();
  for (const auto& topic : asked.topics) {
    auto& into = response.topics.emplace_back();
    into.topicName = topic.topicName;
    for (const auto& partition : topic.partitions) {
      auto& of = into.partitions.emplace_back();
      of.partitionIndex = partition.partitionIndex;
      of.errorCode = why.error;
      of.errorMessage = why.message;
      of.leaderId = -1;
    }
  }
  return response;
}

std::vector<Answered::ReplicaState> statesOf(const std::vector<controller::QuorumState::Replica>& replicas,
                                             int16_t version) {
  std::vector<Answered::ReplicaState> states;
  for (const auto& replica : replicas) {
    states.push_back({.replicaId = replica.id.value(),
                      .replicaDirectoryId = version >= kDirectoriesFrom ? replica.directory : Uuid(),
                      .logEndOffset = replica.logEnd,
                      .lastFetchTimestamp = replica.lastFetch.value(),
                      .lastCaughtUpTimestamp = replica.lastCaughtUp.value()});
  }
  return states;
}

}  // namespace

Co<Answered> describeQuorum(Request& request, Asked asked) {
  Server& server = request.server;
  if (!isMetadataAlone(asked))
    co_return refused(asked, failure(Error::unknownTopicOrPartition, "Only {}-0 has a quorum.", kMetadataTopic));
  auto answered = co_await server.controller().ask(controller::DescribeQuorumRequest());
  if (!answered) {
    Answered response;
    response.errorCode = answered.failure().error;
    response.errorMessage = answered.failure().message;
    co_return response;
  }
  const auto& state = std::get<controller::QuorumState>(answered->response);
  Answered response;
  response.errorMessage.reset();
  auto& topic = response.topics.emplace_back();
  topic.topicName = kMetadataTopic;
  auto& partition = topic.partitions.emplace_back();
  partition.errorMessage.reset();
  partition.leaderId = state.leader.value();
  partition.leaderEpoch = static_cast<int32_t>(state.term);
  partition.highWatermark = state.highWatermark;
  partition.currentVoters = statesOf(state.voters, request.version);
  partition.observers = statesOf(state.observers, request.version);
  if (request.version < kDirectoriesFrom) co_return response;
  for (const auto& voter : state.voters) {
    auto& node = response.nodes.emplace_back();
    node.nodeId = voter.id.value();
    const metadata::Broker* broker = server.image().broker(voter.id);
    if (broker != nullptr && !broker->peer.host.empty())
      node.listeners.push_back({.name = "PEER", .host = broker->peer.host, .port = broker->peer.port});
  }
  co_return response;
}

}  // namespace mq::kafka
