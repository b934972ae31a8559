#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/delete_topics_request.h"
#include "wire/delete_topics_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kTopicIdsFrom = 6;
constexpr int16_t kDeletionDisabledFrom = 3;  // the error that says so is known from there on

wire::DeleteTopicsResponse refuse(const Request& request, const wire::DeleteTopicsRequest& asked) {
  Error error = request.version < kDeletionDisabledFrom ? Error::invalidRequest : Error::topicDeletionDisabled;
  std::string message = "topics cannot be deleted: delete.topic.enable is false";
  wire::DeleteTopicsResponse response;
  for (const auto& topic : asked.topics) {
    response.responses.push_back(
        {.name = topic.name, .topicId = topic.topicId, .errorCode = error, .errorMessage = message});
  }
  for (const auto& name : asked.topicNames) {
    response.responses.push_back({.name = name, .errorCode = error, .errorMessage = message});
  }
  return response;
}

}  // namespace

Co<wire::DeleteTopicsResponse> deleteTopics(Request& request, wire::DeleteTopicsRequest asked) {
  if (!request.server.settings().deleteTopics) co_return refuse(request, asked);

  wire::DeleteTopicsResponse response;
  controller::DeleteTopicsRequest wish;
  for (auto& name : asked.topicNames) wish.topics.push_back({.name = std::move(name)});
  for (auto& topic : asked.topics) {
    if (topic.name && !topic.topicId.isZero()) {
      response.responses.push_back({.name = topic.name,
                                    .topicId = topic.topicId,
                                    .errorCode = Error::invalidRequest,
                                    .errorMessage = "a topic is named either by name or by id, not by both"});
      continue;
    }
    wish.topics.push_back({.name = topic.name.value_or(""), .id = topic.topicId});
  }
  auto deleted = co_await request.server.controller().deleteTopics(std::move(wish));
  for (const auto& topic : deleted.topics) {
    auto& into = response.responses.emplace_back();
    into.name = topic.name;
    if (!into.name && request.version < kTopicIdsFrom) into.name = "";
    into.topicId = topic.id;
    into.errorCode = topic.result.errorCode();
    if (!topic.result && !topic.result.failure().message.empty()) into.errorMessage = topic.result.failure().message;
  }
  co_return response;
}

}  // namespace mq::kafka
