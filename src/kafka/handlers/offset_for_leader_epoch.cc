// OffsetForLeaderEpoch (KIP-320): where an epoch ended, so that a consumer notices that its log was cut.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/offset_for_leader_epoch_request.h"
#include "wire/offset_for_leader_epoch_response.h"

namespace mq::kafka {

namespace {

using Part = wire::OffsetForLeaderEpochResponse::EpochEndOffset;

Co<void> look(Server& server, TopicIdPartition id, LeaderEpoch epoch, LeaderEpoch current, Part& into) {
  auto end = co_await atOwner(
      server, id,
      [id, epoch, current](replica::Partitions& partitions) -> kj::Promise<Result<replica::Partition::EpochEnd>> {
        if (auto* partition = partitions.find(id)) return partition->epochEnd(epoch, current);
        return Result<replica::Partition::EpochEnd>(partitions.whyMissing(id));
      });
  if (!end) {
    into.errorCode = end.failure().error;
    co_return;
  }
  into.leaderEpoch = end->epoch.value();
  into.endOffset = end->end.value();
}

}  // namespace

Co<wire::OffsetForLeaderEpochResponse> offsetForLeaderEpoch(Request& request, wire::OffsetForLeaderEpochRequest asked) {
  Server& server = request.server;
  wire::OffsetForLeaderEpochResponse response;
  response.topics.resize(asked.topics.size());
  std::vector<kj::Promise<void>> lookups;
  for (size_t t = 0; t < asked.topics.size(); ++t) {
    const auto& topic = asked.topics[t];
    auto known = server.image().topic(topic.topic);
    response.topics[t].topic = topic.topic;
    response.topics[t].partitions.resize(topic.partitions.size());
    for (size_t p = 0; p < topic.partitions.size(); ++p) {
      const auto& part = topic.partitions[p];
      Part& into = response.topics[t].partitions[p];
      into.partition = part.partition;
      auto located = locate(known.get(), part.partition, Error::unknownTopicOrPartition);
      if (located.error != Error::none) {
        into.errorCode = located.error;
        continue;
      }
      lookups.push_back(
          look(server, located.id, LeaderEpoch(part.leaderEpoch), LeaderEpoch(part.currentLeaderEpoch), into));
    }
  }
  for (auto& lookup : lookups) co_await kj::mv(lookup);
  co_return response;
}

}  // namespace mq::kafka
