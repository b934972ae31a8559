#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "wire/offset_delete_request.h"
#include "wire/offset_delete_response.h"

namespace mq::kafka {

namespace {
using Deleted = wire::OffsetDeleteResponse;
}

Co<Deleted> offsetDelete(Request& request, wire::OffsetDeleteRequest asked) {
  const metadata::Image& image = request.server.image();
  Deleted response;
  wire::OffsetDeleteRequest known{.groupId = asked.groupId};
  for (auto& topic : asked.topics) {
    if (image.topic(topic.name) != nullptr) {
      known.topics.push_back(std::move(topic));
      continue;
    }
    auto& told = response.topics.emplace_back();
    told.name = topic.name;
    for (const auto& partition : topic.partitions) {
      told.partitions.push_back(
          {.partitionIndex = partition.partitionIndex, .errorCode = Error::unknownTopicOrPartition});
    }
  }
  auto deleted = co_await atCoordinator<Deleted>(
      request.server, asked.groupId,
      [known = std::move(known)](auto& groups, const auto& now, auto answer, auto& effects) {
        groups.deleteOffsets(known, now, std::move(answer), effects);
      });
  if (!deleted) {
    response.topics.clear();
    response.errorCode = deleted.failure().error;
    co_return response;
  }
  for (auto& topic : deleted->topics) response.topics.push_back(std::move(topic));
  co_return response;
}

}  // namespace mq::kafka
