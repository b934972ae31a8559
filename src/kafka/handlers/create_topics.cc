#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"

namespace mq::kafka {

namespace {

controller::NewTopic wanted(wire::CreateTopicsRequest::CreatableTopic&& asked) {
  controller::NewTopic topic{
      .name = std::move(asked.name), .partitions = asked.numPartitions, .replicationFactor = asked.replicationFactor};
  for (const auto& assignment : asked.assignments) {
    auto& into = topic.assignments.emplace_back();
    into.partition = assignment.partitionIndex;
    for (int32_t broker : assignment.brokerIds) into.replicas.push_back(NodeId(broker));
  }
  for (auto& config : asked.configs) topic.configs.push_back({std::move(config.name), std::move(config.value)});
  return topic;
}

void describe(Server& server, const controller::CreatedTopic& created,
              wire::CreateTopicsResponse::CreatableTopicResult& into) {
  into.topicId = created.id;
  into.errorMessage.reset();
  into.numPartitions = created.partitions;
  into.replicationFactor = created.replicationFactor;
  for (auto& entry : config::describeTopic(server.config(), created.configs)) {
    into.configs->push_back({.name = std::move(entry.name),
                             .value = std::move(entry.value),
                             .readOnly = entry.readOnly,
                             .configSource = static_cast<int8_t>(entry.source),
                             .isSensitive = entry.secret});
  }
}

}  // namespace

Co<wire::CreateTopicsResponse> createTopics(Request& request, wire::CreateTopicsRequest asked) {
  controller::CreateTopicsRequest wish{.validateOnly = asked.validateOnly};
  for (auto& topic : asked.topics) wish.topics.push_back(wanted(std::move(topic)));
  auto created = co_await request.server.controller().createTopics(std::move(wish));
  if (!asked.validateOnly) co_await request.server.whenOpened();

  wire::CreateTopicsResponse response;
  for (const auto& topic : created.topics) {
    auto& into = response.topics.emplace_back();
    into.name = topic.name;
    if (topic.result) {
      describe(request.server, *topic.result, into);
    } else {
      into.errorCode = topic.result.failure().error;
      into.errorMessage = topic.result.failure().message;
    }
  }
  co_return response;
}

}  // namespace mq::kafka
