// WriteTxnMarkers: ends producers' transactions on partitions of this node. Sent by a transaction's coordinator on
// another node, and by tools that end what no coordinator knows of (KIP-664).
#include "coordinator/marker_writer.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/transaction.h"
#include "wire/write_txn_markers_request.h"
#include "wire/write_txn_markers_response.h"

namespace mq::kafka {

namespace {

kj::Promise<Error> end(Server& server, const std::string& name, int32_t partition,
                       const coordinator::TransactionMarker& marker, bool strict) {
  auto known = server.image().topic(name);
  auto located = locate(known.get(), partition, Error::unknownTopicOrPartition);
  if (located.error != Error::none) return located.error;
  auto written = coordinator::writeMarkerHere(server.shard(), server.coordinators(), {located.id, marker, strict});
  return written.then([](Result<void>&& result) {
    switch (result.errorCode()) {
      case Error::notCoordinator:  // of __consumer_offsets
      case Error::coordinatorLoadInProgress:
      case Error::coordinatorNotAvailable: return Error::notLeaderOrFollower;
      default: return result.errorCode();
    }
  });
}

}  // namespace

Co<wire::WriteTxnMarkersResponse> writeTxnMarkers(Request& request, wire::WriteTxnMarkersRequest asked) {
  std::vector<kj::Promise<Error>> writes;
  wire::WriteTxnMarkersResponse response;
  for (const auto& marker : asked.markers) {
    coordinator::TransactionMarker what{
        {ProducerId(marker.producerId), marker.producerEpoch}, marker.coordinatorEpoch, marker.transactionResult};
    bool strict = marker.transactionVersion >= coordinator::kEpochPerTransaction;
    auto& told = response.markers.emplace_back();
    told.producerId = marker.producerId;
    for (const auto& topic : marker.topics) {
      auto& of = told.topics.emplace_back();
      of.name = topic.name;
      for (int32_t partition : topic.partitionIndexes) {
        of.partitions.push_back({.partitionIndex = partition});
        writes.push_back(end(request.server, topic.name, partition, what, strict));
      }
    }
  }
  size_t place = 0;
  for (auto& marker : response.markers)
    for (auto& topic : marker.topics)
      for (auto& partition : topic.partitions) partition.errorCode = co_await writes[place++];
  co_return response;
}

}  // namespace mq::kafka
