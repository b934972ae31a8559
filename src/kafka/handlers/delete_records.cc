// DeleteRecords: moves log starts forward, within the request's time-out.
#include <algorithm>

#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/delete_records_request.h"
#include "wire/delete_records_response.h"

namespace mq::kafka {

namespace {

using Part = wire::DeleteRecordsResponse::DeleteRecordsPartitionResult;
constexpr int64_t kNoLowWatermark = -1;

Co<void> cut(Server& server, TopicIdPartition id, Offset before, Duration timeout, Part& into) {
  auto outcome = atOwner(server, id, [id, before](replica::Partitions& partitions) -> kj::Promise<Result<Offset>> {
    if (auto* partition = partitions.find(id)) return partition->deleteRecords(before);
    return Result<Offset>(partitions.whyMissing(id));
  });
  auto late = server.shard().after(timeout).then([]() -> Result<Offset> { return Error::requestTimedOut; });
  auto start = co_await outcome.exclusiveJoin(kj::mv(late));
  if (start) {
    into.lowWatermark = start->value();
  } else {
    into.errorCode = start.failure().error;
    into.lowWatermark = kNoLowWatermark;
  }
}

}  // namespace

Co<wire::DeleteRecordsResponse> deleteRecords(Request& request, wire::DeleteRecordsRequest asked) {
  Server& server = request.server;
  Duration timeout = std::chrono::milliseconds(std::max(asked.timeoutMs, 0));
  wire::DeleteRecordsResponse response;
  response.topics.resize(asked.topics.size());
  std::vector<kj::Promise<void>> cuts;
  for (size_t t = 0; t < asked.topics.size(); ++t) {
    const auto& topic = asked.topics[t];
    auto known = server.image().topic(topic.name);
    response.topics[t].name = topic.name;
    response.topics[t].partitions.resize(topic.partitions.size());
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      const auto& part = topic.partitions[p];
      Part& into = response.topics[t].partitions[p];
      into.partitionIndex = part.partitionIndex;
      into.lowWatermark = kNoLowWatermark;
      auto located = locate(known.get(), part.partitionIndex, Error::unknownTopicOrPartition);
      if (isInternal(topic.name)) {
        into.errorCode = Error::invalidTopicException;
      } else if (located.error != Error::none) {
        into.errorCode = located.error;
      } else {
        cuts.push_back(cut(server, located.id, Offset(part.offset), timeout, into));
      }
    }
  }
  for (auto& one : cuts) co_await kj::mv(one);
  co_return response;
}

}  // namespace mq::kafka
