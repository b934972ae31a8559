// OffsetFetch: one group up to version 7, any number from 8 on; topics by id from 10 on.
#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kGroupErrorFrom = 2;
constexpr int16_t kManyGroupsFrom = 8;
constexpr int16_t kTopicIdsFrom = 10;
constexpr int64_t kNoOffset = -1;

using Asked = wire::OffsetFetchRequest;
using Answered = wire::OffsetFetchResponse;
using Group = Asked::OffsetFetchRequestGroup;
using Fetched = Answered::OffsetFetchResponseGroup;

void refuse(Fetched& into, const Asked::OffsetFetchRequestTopics& topic, Error error) {
  auto& told = into.topics.emplace_back();
  told.name = topic.name;
  told.topicId = topic.topicId;
  for (int32_t partition : topic.partitionIndexes) {
    told.partitions.push_back(
        {.partitionIndex = partition, .committedOffset = kNoOffset, .metadata = "", .errorCode = error});
  }
}

Co<Fetched> fetchGroup(Request& request, Group asked, bool stable) {
  Fetched unknown;  // topics that are not there
  std::string group = asked.groupId;
  bool isById = request.version >= kTopicIdsFrom;
  if (isById && asked.topics) {
    std::vector<Asked::OffsetFetchRequestTopics> known;
    for (auto& topic : *asked.topics) {
      if (auto found = request.server.image().topic(topic.topicId)) {
        topic.name = found->name;
        known.push_back(std::move(topic));
      } else {
        refuse(unknown, topic, Error::unknownTopicId);
      }
    }
    asked.topics = std::move(known);
  }
  auto fetched = co_await atCoordinator<Fetched>(
      request.server, group, [asked, stable](auto& groups, const auto& now, auto answer, auto& effects) {
        groups.fetch(asked, stable, now, std::move(answer), effects);
      });
  Fetched response;
  response.groupId = group;
  if (!fetched) {
    response.errorCode = fetched.failure().error;
    co_return response;
  }
  response.errorCode = fetched->errorCode;
  response.topics = std::move(fetched->topics);
  if (isById) {  // of all topics: what has no id cannot be told
    std::erase_if(response.topics, [](const auto& topic) { return topic.topicId.isZero(); });
  }
  for (auto& topic : unknown.topics) response.topics.push_back(std::move(topic));
  co_return response;
}

// The form of versions 1 to 7.
Answered single(const Request& request, const Asked& asked, Fetched&& fetched) {
  Answered response;
  if (fetched.errorCode != Error::none) {
    if (request.version >= kGroupErrorFrom) {
      response.errorCode = fetched.errorCode;
      return response;
    }
    for (const auto& topic : *asked.topics) {
      auto& told = response.topics.emplace_back();
      told.name = topic.name;
      for (int32_t partition : topic.partitionIndexes) {
        told.partitions.push_back({.partitionIndex = partition,
                                   .committedOffset = kNoOffset,
                                   .metadata = "",
                                   .errorCode = fetched.errorCode});
      }
    }
    return response;
  }
  for (auto& topic : fetched.topics) {
    auto& told = response.topics.emplace_back();
    told.name = std::move(topic.name);
    for (auto& partition : topic.partitions) {
      told.partitions.push_back({.partitionIndex = partition.partitionIndex,
                                 .committedOffset = partition.committedOffset,
                                 .committedLeaderEpoch = partition.committedLeaderEpoch,
                                 .metadata = std::move(partition.metadata),
                                 .errorCode = partition.errorCode});
    }
  }
  return response;
}

}  // namespace

Co<Answered> offsetFetch(Request& request, Asked asked) {
  if (request.version < kManyGroupsFrom) {
    Group group;
    group.groupId = asked.groupId;
    if (asked.topics) {
      group.topics.emplace();
      for (const auto& topic : *asked.topics)
        group.topics->push_back({.name = topic.name, .partitionIndexes = topic.partitionIndexes});
    } else {
      group.topics.reset();
    }
    auto fetched = co_await fetchGroup(request, std::move(group), asked.requireStable);
    co_return single(request, asked, std::move(fetched));
  }
  std::vector<Co<Fetched>> fetches;
  for (auto& group : asked.groups) fetches.push_back(fetchGroup(request, std::move(group), asked.requireStable));
  Answered response;
  for (auto& fetch : fetches) response.groups.push_back(co_await fetch);
  co_return response;
}

}  // namespace mq::kafka
