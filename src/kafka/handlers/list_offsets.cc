// ListOffsets: an offset by time, or by one of the special positions, each of which came with a version.
#include <set>

#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/list_offsets_request.h"
#include "wire/list_offsets_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kLeaderEpochFrom = 4;

using Part = wire::ListOffsetsResponse::ListOffsetsPartitionResponse;

// The version from which on a negative timestamp means something; INT16_MAX: never.
int16_t servedFrom(int64_t timestamp) {
  switch (static_cast<replica::Position>(timestamp)) {
    case replica::Position::latest:
    case replica::Position::earliest: return 1;
    case replica::Position::maxTimestamp: return 7;            // KIP-734
    case replica::Position::earliestLocal: return 8;           // KIP-405
    case replica::Position::latestTiered: return 9;            // KIP-1005
    case replica::Position::earliestPendingUpload: return 11;  // KIP-1023
  }
  return timestamp >= 0 ? int16_t{1} : INT16_MAX;
}

Co<void> look(Server& server, int16_t version, TopicIdPartition id, int64_t timestamp, replica::Isolation isolation,
              LeaderEpoch epoch, Part& into) {
  auto found = co_await atOwner(
      server, id,
      [id, timestamp, isolation, epoch](replica::Partitions& partitions) -> kj::Promise<Result<replica::FoundOffset>> {
        if (auto* partition = partitions.find(id)) return partition->findOffset(timestamp, isolation, epoch);
        return Result<replica::FoundOffset>(partitions.whyMissing(id));
      });
  if (!found) {
    into.errorCode = found.failure().error;
    co_return;
  }
  into.offset = found->offset.value();
  into.timestamp = found->timestamp.value();
  if (version >= kLeaderEpochFrom) into.leaderEpoch = found->epoch.value();
}

}  // namespace

Co<wire::ListOffsetsResponse> listOffsets(Request& request, wire::ListOffsetsRequest asked) {
  Server& server = request.server;
  bool isolationValid = asked.isolationLevel == 0 || asked.isolationLevel == 1;
  auto isolation = static_cast<replica::Isolation>(asked.isolationLevel);
  wire::ListOffsetsResponse response;
  response.topics.resize(asked.topics.size());
  std::vector<kj::Promise<void>> lookups;
  std::set<std::pair<std::string_view, int32_t>> seen;
  for (size_t t = 0; t < asked.topics.size(); ++t) {
    const auto& topic = asked.topics[t];
    auto known = server.image().topic(topic.name);
    response.topics[t].name = topic.name;
    response.topics[t].partitions.resize(topic.partitions.size());
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      const auto& part = topic.partitions[p];
      Part& into = response.topics[t].partitions[p];
      into.partitionIndex = part.partitionIndex;
      auto located = locate(known.get(), part.partitionIndex, Error::unknownTopicOrPartition);
      if (!isolationValid || !seen.emplace(topic.name, part.partitionIndex).second) {
        into.errorCode = Error::invalidRequest;
      } else if (request.version < servedFrom(part.timestamp)) {
        into.errorCode = Error::unsupportedVersion;
      } else if (located.error != Error::none) {
        into.errorCode = located.error;
      } else {
        lookups.push_back(look(server, request.version, located.id, part.timestamp, isolation,
                               LeaderEpoch(part.currentLeaderEpoch), into));
      }
    }
  }
  for (auto& lookup : lookups) co_await kj::mv(lookup);
  co_return response;
}

}  // namespace mq::kafka
