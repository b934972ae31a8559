#include "kafka/apis.h"

#include <algorithm>
#include <array>

#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/add_offsets_to_txn_request.h"
#include "wire/add_offsets_to_txn_response.h"
#include "wire/add_partitions_to_txn_request.h"
#include "wire/add_partitions_to_txn_response.h"
#include "wire/add_raft_voter_request.h"
#include "wire/add_raft_voter_response.h"
#include "wire/alter_configs_request.h"
#include "wire/alter_configs_response.h"
#include "wire/alter_partition_reassignments_request.h"
#include "wire/alter_partition_reassignments_response.h"
#include "wire/api.h"
#include "wire/api_versions_request.h"
#include "wire/consumer_group_describe_request.h"
#include "wire/consumer_group_describe_response.h"
#include "wire/consumer_group_heartbeat_request.h"
#include "wire/consumer_group_heartbeat_response.h"
#include "wire/create_partitions_request.h"
#include "wire/create_partitions_response.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/delete_groups_request.h"
#include "wire/delete_groups_response.h"
#include "wire/delete_records_request.h"
#include "wire/delete_records_response.h"
#include "wire/delete_topics_request.h"
#include "wire/delete_topics_response.h"
#include "wire/describe_cluster_request.h"
#include "wire/describe_cluster_response.h"
#include "wire/describe_configs_request.h"
#include "wire/describe_configs_response.h"
#include "wire/describe_groups_request.h"
#include "wire/describe_groups_response.h"
#include "wire/describe_log_dirs_request.h"
#include "wire/describe_log_dirs_response.h"
#include "wire/describe_producers_request.h"
#include "wire/describe_producers_response.h"
#include "wire/describe_quorum_request.h"
#include "wire/describe_quorum_response.h"
#include "wire/describe_topic_partitions_request.h"
#include "wire/describe_topic_partitions_response.h"
#include "wire/describe_transactions_request.h"
#include "wire/describe_transactions_response.h"
#include "wire/elect_leaders_request.h"
#include "wire/elect_leaders_response.h"
#include "wire/end_txn_request.h"
#include "wire/end_txn_response.h"
#include "wire/fetch_request.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/heartbeat_request.h"
#include "wire/heartbeat_response.h"
#include "wire/incremental_alter_configs_request.h"
#include "wire/incremental_alter_configs_response.h"
#include "wire/init_producer_id_request.h"
#include "wire/init_producer_id_response.h"
#include "wire/join_group_request.h"
#include "wire/join_group_response.h"
#include "wire/leave_group_request.h"
#include "wire/leave_group_response.h"
#include "wire/list_config_resources_request.h"
#include "wire/list_config_resources_response.h"
#include "wire/list_groups_request.h"
#include "wire/list_groups_response.h"
#include "wire/list_offsets_request.h"
#include "wire/list_offsets_response.h"
#include "wire/list_partition_reassignments_request.h"
#include "wire/list_partition_reassignments_response.h"
#include "wire/list_transactions_request.h"
#include "wire/list_transactions_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"
#include "wire/offset_delete_request.h"
#include "wire/offset_delete_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"
#include "wire/offset_for_leader_epoch_request.h"
#include "wire/offset_for_leader_epoch_response.h"
#include "wire/produce_request.h"
#include "wire/remove_raft_voter_request.h"
#include "wire/remove_raft_voter_response.h"
#include "wire/sync_group_request.h"
#include "wire/sync_group_response.h"
#include "wire/txn_offset_commit_request.h"
#include "wire/txn_offset_commit_response.h"
#include "wire/unregister_broker_request.h"
#include "wire/unregister_broker_response.h"
#include "wire/update_features_request.h"
#include "wire/update_features_response.h"
#include "wire/write_txn_markers_request.h"
#include "wire/write_txn_markers_response.h"

namespace mq::kafka {

namespace {

Response malformed(const Request& request, const Failure& why) {
  return Response::close(
      fmt::format("sent a malformed {} version {}: {}", request.api.name, request.version, why.message));
}

// Whether any field of that name in the answer says that something went wrong.
bool carriesError(const wire::Structure& structure, const void* object) {
  for (const wire::Field& field : structure.fields) {
    const void* at = static_cast<const uint8_t*>(object) + field.offset;
    if (field.type == wire::Type::int16 && std::string_view(field.name) == "errorCode") {
      if (*static_cast<const int16_t*>(at) != 0) return true;
    } else if (field.type == wire::Type::structure && field.array != nullptr) {
      if (field.optional != nullptr) at = field.optional->get(at);
      if (at == nullptr) continue;
      const auto* element = static_cast<const uint8_t*>(field.array->data(at));
      for (size_t i = field.array->size(at); i > 0; --i, element += field.array->stride) {
        if (carriesError(*field.structure, element)) return true;
      }
    }
  }
  return false;
}

template <class M>
Response finish(Request& request, const M& answer) {
  if (carriesError(M::kDescriptor.body, &answer)) request.server.metrics(request.api).errors.add();
  return respond(request, answer);
}

// Of a handler that takes a decoded message and answers another, at once or later.
template <class M, auto handler>
kj::Promise<Response> serve(Request& request) {
  auto message = decodeBody<M>(request);
  if (!message) return malformed(request, message.failure());
  using Answer = decltype(handler(request, std::move(*message)));
  if constexpr (requires(Answer answer) { Answer::kDescriptor; }) {
    return finish(request, handler(request, std::move(*message)));
  } else {
    return handler(request, std::move(*message)).then([&request](auto&& answer) { return finish(request, answer); });
  }
}

// Of a handler that makes the frame itself.
template <class M, auto handler>
kj::Promise<Response> serveFrame(Request& request) {
  auto message = decodeBody<M>(request);
  if (!message) return malformed(request, message.failure());
  return handler(request, std::move(*message));
}

template <class M>
constexpr Api row(std::string_view name, Serve serve, int16_t first = M::kVersionMin, int16_t last = M::kVersionMax) {
  return {.key = M::kApiKey,
          .name = name,
          .versions = {first, last},
          .listedFrom = first,
          .request = M::kDescriptor,
          .serve = serve};
}

using namespace wire;

constexpr Api listedFrom(int16_t first, Api api) {
  api.listedFrom = first;
  return api;
}

constexpr std::array kServed = {
    // Listed from 0, though 0-2 are refused: librdkafka turns features off that it derives from Produce 1 and 2.
    listedFrom(0, row<ProduceRequest>("Produce", serveFrame<ProduceRequest, produce>)),
    row<FetchRequest>("Fetch", serveFrame<FetchRequest, fetch>),
    row<ListOffsetsRequest>("ListOffsets", serve<ListOffsetsRequest, listOffsets>),
    row<MetadataRequest>("Metadata", serve<MetadataRequest, metadata>),
    row<OffsetCommitRequest>("OffsetCommit", serve<OffsetCommitRequest, offsetCommit>),
    row<OffsetFetchRequest>("OffsetFetch", serve<OffsetFetchRequest, offsetFetch>),
    row<FindCoordinatorRequest>("FindCoordinator", serve<FindCoordinatorRequest, findCoordinator>),
    row<JoinGroupRequest>("JoinGroup", serve<JoinGroupRequest, joinGroup>),
    row<HeartbeatRequest>("Heartbeat", serve<HeartbeatRequest, heartbeat>),
    row<LeaveGroupRequest>("LeaveGroup", serve<LeaveGroupRequest, leaveGroup>),
    row<SyncGroupRequest>("SyncGroup", serve<SyncGroupRequest, syncGroup>),
    row<DescribeGroupsRequest>("DescribeGroups", serve<DescribeGroupsRequest, describeGroups>),
    row<ListGroupsRequest>("ListGroups", serve<ListGroupsRequest, listGroups>),
    row<ApiVersionsRequest>("ApiVersions", apiVersions),
    row<CreateTopicsRequest>("CreateTopics", serve<CreateTopicsRequest, createTopics>),
    row<DeleteTopicsRequest>("DeleteTopics", serve<DeleteTopicsRequest, deleteTopics>),
    row<DeleteRecordsRequest>("DeleteRecords", serve<DeleteRecordsRequest, deleteRecords>),
    // Version 6 is not stable in Kafka 4.4.
    row<InitProducerIdRequest>("InitProducerId", serve<InitProducerIdRequest, initProducerId>, 0, 5),
    row<OffsetForLeaderEpochRequest>("OffsetForLeaderEpoch", serve<OffsetForLeaderEpochRequest, offsetForLeaderEpoch>),
    row<AddPartitionsToTxnRequest>("AddPartitionsToTxn", serve<AddPartitionsToTxnRequest, addPartitionsToTxn>),
    row<AddOffsetsToTxnRequest>("AddOffsetsToTxn", serve<AddOffsetsToTxnRequest, addOffsetsToTxn>),
    row<EndTxnRequest>("EndTxn", serve<EndTxnRequest, endTxn>),
    row<WriteTxnMarkersRequest>("WriteTxnMarkers", serve<WriteTxnMarkersRequest, writeTxnMarkers>),
    row<TxnOffsetCommitRequest>("TxnOffsetCommit", serve<TxnOffsetCommitRequest, txnOffsetCommit>),
    row<DescribeConfigsRequest>("DescribeConfigs", serve<DescribeConfigsRequest, describeConfigs>),
    row<AlterConfigsRequest>("AlterConfigs", serve<AlterConfigsRequest, alterConfigs>),
    row<DescribeLogDirsRequest>("DescribeLogDirs", serve<DescribeLogDirsRequest, describeLogDirs>),
    row<CreatePartitionsRequest>("CreatePartitions", serve<CreatePartitionsRequest, createPartitions>),
    row<DeleteGroupsRequest>("DeleteGroups", serve<DeleteGroupsRequest, deleteGroups>),
    row<ElectLeadersRequest>("ElectLeaders", serve<ElectLeadersRequest, electLeaders>),
    row<IncrementalAlterConfigsRequest>("IncrementalAlterConfigs",
                                        serve<IncrementalAlterConfigsRequest, incrementalAlterConfigs>),
    row<AlterPartitionReassignmentsRequest>("AlterPartitionReassignments",
                                            serve<AlterPartitionReassignmentsRequest, alterPartitionReassignments>),
    row<ListPartitionReassignmentsRequest>("ListPartitionReassignments",
                                           serve<ListPartitionReassignmentsRequest, listPartitionReassignments>),
    row<OffsetDeleteRequest>("OffsetDelete", serve<OffsetDeleteRequest, offsetDelete>),
    row<DescribeQuorumRequest>("DescribeQuorum", serve<DescribeQuorumRequest, describeQuorum>),
    row<UpdateFeaturesRequest>("UpdateFeatures", serve<UpdateFeaturesRequest, updateFeatures>),
    row<DescribeClusterRequest>("DescribeCluster", serve<DescribeClusterRequest, describeCluster>),
    row<DescribeProducersRequest>("DescribeProducers", serve<DescribeProducersRequest, describeProducers>),
    row<UnregisterBrokerRequest>("UnregisterBroker", serve<UnregisterBrokerRequest, unregisterBroker>),
    row<ConsumerGroupHeartbeatRequest>("ConsumerGroupHeartbeat",
                                       serve<ConsumerGroupHeartbeatRequest, consumerGroupHeartbeat>),
    row<ConsumerGroupDescribeRequest>("ConsumerGroupDescribe",
                                      serve<ConsumerGroupDescribeRequest, consumerGroupDescribe>),
    row<DescribeTransactionsRequest>("DescribeTransactions", serve<DescribeTransactionsRequest, describeTransactions>),
    row<ListTransactionsRequest>("ListTransactions", serve<ListTransactionsRequest, listTransactions>),
    row<ListConfigResourcesRequest>("ListConfigResources", serve<ListConfigResourcesRequest, listConfigResources>),
    row<DescribeTopicPartitionsRequest>("DescribeTopicPartitions",
                                        serve<DescribeTopicPartitionsRequest, describeTopicPartitions>),
    row<AddRaftVoterRequest>("AddRaftVoter", serve<AddRaftVoterRequest, addRaftVoter>),
    row<RemoveRaftVoterRequest>("RemoveRaftVoter", serve<RemoveRaftVoterRequest, removeRaftVoter>),
};

constexpr int16_t kKeysEnd = 128;

// Place in kServed by key; -1: not served.
constexpr std::array<int8_t, kKeysEnd> kPlaces = [] {
  std::array<int8_t, kKeysEnd> places{};
  places.fill(-1);
  for (size_t i = 0; i < kServed.size(); ++i) places[static_cast<size_t>(kServed[i].key)] = static_cast<int8_t>(i);
  return places;
}();

}  // namespace

std::span<const Api> apis() { return kServed; }

const Api* findApi(int16_t key) {
  if (key < 0 || key >= kKeysEnd || kPlaces[static_cast<size_t>(key)] < 0) return nullptr;
  return &kServed[static_cast<size_t>(kPlaces[static_cast<size_t>(key)])];
}

size_t indexOf(const Api& api) { return static_cast<size_t>(&api - kServed.data()); }

bool isServed(int16_t key, int16_t version) {
  const Api* api = findApi(key);
  return api != nullptr && api->versions.contains(version);
}

Response respondAs(const Request& request, const wire::Message& descriptor, const void* message, int16_t version) {
  Response response;
  ByteWriter writer(response.bytes);
  writer.int32(0);
  writer.int32(request.correlationId);
  // A client reads ApiVersions before it knows what we speak: its header has no tags in any version.
  if (descriptor.flexible.contains(version) && request.api.key != wire::kApiVersionsKey) writer.unsignedVarint(0);
  auto done = wire::encodeFrom(descriptor, message, version, response.bytes, &response.splices);
  if (!done) {
    return Response::close(fmt::format("asked for an answer that {} version {} cannot carry: {}", request.api.name,
                                       version, done.failure().message));
  }
  size_t size = response.bytes.size() - 4;
  for (const wire::Splice& splice : response.splices) size += splice.length;
  writer.patchInt32(0, static_cast<int32_t>(size));
  return response;
}

Response respond(const Request& request, const wire::Message& descriptor, const void* message) {
  return respondAs(request, descriptor, message, request.version);
}

}  // namespace mq::kafka
