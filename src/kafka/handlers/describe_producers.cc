// DescribeProducers (KIP-664): the producers a partition remembers.
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/describe_producers_request.h"
#include "wire/describe_producers_response.h"

namespace mq::kafka {

namespace {

using Part = wire::DescribeProducersResponse::PartitionResponse;
using Producers = std::vector<replica::ActiveProducer>;

Co<void> look(Server& server, TopicIdPartition id, Part& into) {
  auto producers =
      co_await atOwner(server, id, [id](replica::Partitions& partitions) -> kj::Promise<Result<Producers>> {
        if (auto* partition = partitions.find(id)) return partition->producers();
        return Result<Producers>(partitions.whyMissing(id));
      });
  if (!producers) {
    into.errorCode = producers.failure().error;
    if (!producers.failure().message.empty()) into.errorMessage = producers.failure().message;
    co_return;
  }
  for (const auto& producer : *producers) {
    into.activeProducers.push_back({.producerId = producer.id.value(),
                                    .producerEpoch = producer.epoch,
                                    .lastSequence = producer.lastSequence,
                                    .lastTimestamp = producer.lastTimestamp.value(),
                                    .coordinatorEpoch = producer.coordinatorEpoch,
                                    .currentTxnStartOffset = producer.transactionStart.value()});
  }
}

}  // namespace

Co<wire::DescribeProducersResponse> describeProducers(Request& request, wire::DescribeProducersRequest asked) {
  Server& server = request.server;
  wire::DescribeProducersResponse response;
  response.topics.resize(asked.topics.size());
  std::vector<kj::Promise<void>> lookups;
  for (size_t t = 0; t < asked.topics.size(); ++t) {
    const auto& topic = asked.topics[t];
    auto known = server.image().topic(topic.name);
    response.topics[t].name = topic.name;
    response.topics[t].partitions.resize(topic.partitionIndexes.size());
    for (size_t p = 0; p < topic.partitionIndexes.size(); ++p) {
      Part& into = response.topics[t].partitions[p];
      into.partitionIndex = topic.partitionIndexes[p];
      auto located = locate(known.get(), into.partitionIndex, Error::unknownTopicOrPartition);
      if (located.error != Error::none) {
        into.errorCode = located.error;
        continue;
      }
      lookups.push_back(look(server, located.id, into));
    }
  }
  for (auto& lookup : lookups) co_await kj::mv(lookup);
  co_return response;
}

}  // namespace mq::kafka
