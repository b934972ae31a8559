// OffsetCommit: partitions that do not exist are refused here, by the shard's image; the coordinator decides about the
// rest, as one batch.
#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kTopicIdsFrom = 10;

using Committed = wire::OffsetCommitResponse;

// What the coordinator is asked, and where in the response its answers belong.
struct Split {
  wire::OffsetCommitRequest asked;
  std::vector<std::pair<size_t, size_t>> places;  // topic, partition in the response
  Committed response;
};

Split split(const Request& request, wire::OffsetCommitRequest&& all) {
  const metadata::Image& image = request.server.image();
  Split split;
  auto topics = std::move(all.topics);
  split.asked = std::move(all);
  for (size_t t = 0; t < topics.size(); ++t) {
    auto& topic = topics[t];
    auto& told = split.response.topics.emplace_back();
    told.name = topic.name;
    told.topicId = topic.topicId;
    bool isById = request.version >= kTopicIdsFrom;
    metadata::TopicRef known = isById ? image.topic(topic.topicId) : image.topic(topic.name);
    wire::OffsetCommitRequest::OffsetCommitRequestTopic sent;
    if (known) {
      sent.name = known->name;
      sent.topicId = known->id;
    }
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      auto& partition = topic.partitions[p];
      auto& outcome = told.partitions.emplace_back();
      outcome.partitionIndex = partition.partitionIndex;
      if (known == nullptr) {
        outcome.errorCode = isById ? Error::unknownTopicId : Error::unknownTopicOrPartition;
      } else if (known->partition(partition.partitionIndex) == nullptr) {
        outcome.errorCode = Error::unknownTopicOrPartition;
      } else {
        split.places.emplace_back(t, p);
        sent.partitions.push_back(std::move(partition));
      }
    }
    if (!sent.partitions.empty()) split.asked.topics.push_back(std::move(sent));
  }
  return split;
}

}  // namespace

Co<Committed> offsetCommit(Request& request, wire::OffsetCommitRequest asked) {
  Split parts = split(request, std::move(asked));
  auto outcomeAt = [&](size_t place) -> Error& {
    auto [topic, partition] = parts.places[place];
    return parts.response.topics[topic].partitions[partition].errorCode;
  };
  if (parts.places.empty() && !parts.response.topics.empty()) co_return std::move(parts.response);
  std::string group = parts.asked.groupId;
  auto committed =
      co_await atCoordinator<Committed>(request.server, group,
                                        [asked = std::move(parts.asked), version = request.version](
                                            auto& groups, const auto& now, auto answer, auto& effects) mutable {
                                          groups.commit(std::move(asked), version, now, std::move(answer), effects);
                                        });
  size_t place = 0;
  if (committed) {
    for (const auto& topic : committed->topics) {
      for (const auto& partition : topic.partitions) outcomeAt(place++) = partition.errorCode;
    }
  } else {
    for (; place < parts.places.size(); ++place) outcomeAt(place) = committed.failure().error;
  }
  co_return std::move(parts.response);
}

}  // namespace mq::kafka
