// ElectLeaders (KIP-460): the preferred replica of partitions, or, where nobody in sync is left, any that is alive.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/partition_results.h"
#include "kafka/server.h"
#include "wire/elect_leaders_request.h"
#include "wire/elect_leaders_response.h"

namespace mq::kafka {

namespace {
enum class ElectionType : int8_t { preferred = 0, unclean = 1 };
constexpr int16_t kErrorFrom = 1;  // of the request as a whole
}  // namespace

Co<wire::ElectLeadersResponse> electLeaders(Request& request, wire::ElectLeadersRequest asked) {
  wire::ElectLeadersResponse response;
  const auto type = static_cast<ElectionType>(asked.electionType);
  if (type != ElectionType::preferred && type != ElectionType::unclean) {
    response.errorCode = Error::invalidRequest;
    co_return response;
  }
  controller::ElectLeadersRequest wish{
      .partitions = {}, .all = !asked.topicPartitions, .unclean = type == ElectionType::unclean};
  if (asked.topicPartitions) {
    for (const auto& topic : *asked.topicPartitions)
      for (int32_t partition : topic.partitions) wish.partitions.push_back({topic.topic, partition});
  }
  std::vector<TopicPartition> partitions = wish.partitions;
  auto answered = co_await request.server.controller().ask(std::move(wish));
  if (!answered && request.version >= kErrorFrom) response.errorCode = answered.failure().error;
  auto results = resultsOf<controller::ElectLeadersResponse>(std::move(answered), std::move(partitions));
  forEachTopic(results, [&](const std::string& topic, auto of) {
    auto& into = response.replicaElectionResults.emplace_back();
    into.topic = topic;
    for (const auto& one : of) {
      into.partitionResult.push_back({.partitionId = one.partition.partition,
                                      .errorCode = one.result.errorCode(),
                                      .errorMessage = messageOf(one.result)});
    }
  });
  co_return response;
}

}  // namespace mq::kafka
