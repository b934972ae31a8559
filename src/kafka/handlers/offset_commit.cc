// OffsetCommit: partitions that do not exist are refused here, by the shard's image; the coordinator decides about the
// rest, as one batch.
#include "kafka/handlers/group.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/offset_split.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kTopicIdsFrom = 10;

using Committed = wire::OffsetCommitResponse;

}  // namespace

Co<Committed> offsetCommit(Request& request, wire::OffsetCommitRequest asked) {
  OffsetSplit<wire::OffsetCommitRequest, Committed> parts(request.server.image(), std::move(asked),
                                                          request.version >= kTopicIdsFrom);
  if (parts.places.empty() && !parts.response.topics.empty()) co_return std::move(parts.response);
  std::string group = parts.asked.groupId;
  auto committed =
      co_await atCoordinator<Committed>(request.server, group,
                                        [asked = std::move(parts.asked), version = request.version](
                                            auto& groups, const auto& now, auto answer, auto& effects) mutable {
                                          groups.commit(std::move(asked), version, now, std::move(answer), effects);
                                        });
  if (committed)
    parts.take(*committed);
  else
    parts.refuse(committed.failure().error);
  co_return std::move(parts.response);
}

}  // namespace mq::kafka
