#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "kafka/server.h"
#include "wire/create_partitions_request.h"
#include "wire/create_partitions_response.h"

namespace mq::kafka {

Co<wire::CreatePartitionsResponse> createPartitions(Request& request, wire::CreatePartitionsRequest asked) {
  controller::CreatePartitionsRequest wish{.validateOnly = asked.validateOnly};
  wire::CreatePartitionsResponse response;
  for (auto& topic : asked.topics) {
    if (isInternal(topic.name)) {
      // Kafka does it, and every group whose partition is another one then has lost what it committed.
      auto& into = response.results.emplace_back();
      into.errorCode = Error::invalidRequest;
      into.errorMessage = fmt::format(
          "{} cannot get more partitions: which of them keeps a group or a transaction follows from their number",
          topic.name);
      into.name = std::move(topic.name);
      continue;
    }
    auto& into = wish.topics.emplace_back();
    into.topic = std::move(topic.name);
    into.count = topic.count;
    if (!topic.assignments) continue;
    auto& assignments = into.assignments.emplace();
    for (const auto& assignment : *topic.assignments) {
      auto& replicas = assignments.emplace_back();
      for (int32_t broker : assignment.brokerIds) replicas.push_back(NodeId(broker));
    }
  }
  auto created = co_await request.server.controller().createPartitions(std::move(wish));
  if (!asked.validateOnly) co_await request.server.whenOpened();

  for (const auto& topic : created.topics) {
    auto& into = response.results.emplace_back();
    into.name = topic.name;
    into.errorCode = topic.result.errorCode();
    if (!topic.result && !topic.result.failure().message.empty()) into.errorMessage = topic.result.failure().message;
  }
  co_return response;
}

}  // namespace mq::kafka
