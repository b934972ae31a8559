// The handlers, one file each. A handler gets the decoded request, whose views live as long as Request::frame, and
// answers a message, at once or later. It never throws for what a client did.
#pragma once
#include "kafka/request.h"

namespace mq::wire {
struct AddOffsetsToTxnRequest;
struct AddOffsetsToTxnResponse;
struct AddPartitionsToTxnRequest;
struct AddPartitionsToTxnResponse;
struct AddRaftVoterRequest;
struct AddRaftVoterResponse;
struct AlterConfigsRequest;
struct AlterConfigsResponse;
struct AlterPartitionReassignmentsRequest;
struct AlterPartitionReassignmentsResponse;
struct ConsumerGroupDescribeRequest;
struct ConsumerGroupDescribeResponse;
struct ConsumerGroupHeartbeatRequest;
struct ConsumerGroupHeartbeatResponse;
struct CreatePartitionsRequest;
struct CreatePartitionsResponse;
struct CreateTopicsRequest;
struct CreateTopicsResponse;
struct DeleteGroupsRequest;
struct DeleteGroupsResponse;
struct DeleteRecordsRequest;
struct DeleteRecordsResponse;
struct DeleteTopicsRequest;
struct DeleteTopicsResponse;
struct DescribeClusterRequest;
struct DescribeClusterResponse;
struct DescribeConfigsRequest;
struct DescribeConfigsResponse;
struct DescribeGroupsRequest;
struct DescribeGroupsResponse;
struct DescribeLogDirsRequest;
struct DescribeLogDirsResponse;
struct DescribeProducersRequest;
struct DescribeProducersResponse;
struct DescribeQuorumRequest;
struct DescribeQuorumResponse;
struct DescribeTopicPartitionsRequest;
struct DescribeTopicPartitionsResponse;
struct DescribeTransactionsRequest;
struct DescribeTransactionsResponse;
struct ElectLeadersRequest;
struct ElectLeadersResponse;
struct EndTxnRequest;
struct EndTxnResponse;
struct FetchRequest;
struct FindCoordinatorRequest;
struct FindCoordinatorResponse;
struct HeartbeatRequest;
struct HeartbeatResponse;
struct IncrementalAlterConfigsRequest;
struct IncrementalAlterConfigsResponse;
struct InitProducerIdRequest;
struct InitProducerIdResponse;
struct JoinGroupRequest;
struct JoinGroupResponse;
struct LeaveGroupRequest;
struct LeaveGroupResponse;
struct ListConfigResourcesRequest;
struct ListConfigResourcesResponse;
struct ListGroupsRequest;
struct ListGroupsResponse;
struct ListOffsetsRequest;
struct ListOffsetsResponse;
struct ListPartitionReassignmentsRequest;
struct ListPartitionReassignmentsResponse;
struct ListTransactionsRequest;
struct ListTransactionsResponse;
struct MetadataRequest;
struct MetadataResponse;
struct OffsetCommitRequest;
struct OffsetCommitResponse;
struct OffsetDeleteRequest;
struct OffsetDeleteResponse;
struct OffsetFetchRequest;
struct OffsetFetchResponse;
struct OffsetForLeaderEpochRequest;
struct OffsetForLeaderEpochResponse;
struct ProduceRequest;
struct RemoveRaftVoterRequest;
struct RemoveRaftVoterResponse;
struct SyncGroupRequest;
struct SyncGroupResponse;
struct TxnOffsetCommitRequest;
struct TxnOffsetCommitResponse;
struct UnregisterBrokerRequest;
struct UnregisterBrokerResponse;
struct UpdateFeaturesRequest;
struct UpdateFeaturesResponse;
struct WriteTxnMarkersRequest;
struct WriteTxnMarkersResponse;
}  // namespace mq::wire

namespace mq::kafka {

kj::Promise<Response> apiVersions(Request& request);
kj::Promise<Response> produce(Request& request, wire::ProduceRequest asked);
kj::Promise<Response> fetch(Request& request, wire::FetchRequest asked);

wire::DescribeClusterResponse describeCluster(Request& request, wire::DescribeClusterRequest asked);
wire::DescribeConfigsResponse describeConfigs(Request& request, wire::DescribeConfigsRequest asked);
wire::DescribeTopicPartitionsResponse describeTopicPartitions(Request& request,
                                                              wire::DescribeTopicPartitionsRequest asked);
wire::ListConfigResourcesResponse listConfigResources(Request& request, wire::ListConfigResourcesRequest asked);

Co<wire::AddOffsetsToTxnResponse> addOffsetsToTxn(Request& request, wire::AddOffsetsToTxnRequest asked);
Co<wire::AddPartitionsToTxnResponse> addPartitionsToTxn(Request& request, wire::AddPartitionsToTxnRequest asked);
Co<wire::AddRaftVoterResponse> addRaftVoter(Request& request, wire::AddRaftVoterRequest asked);
Co<wire::AlterConfigsResponse> alterConfigs(Request& request, wire::AlterConfigsRequest asked);
Co<wire::AlterPartitionReassignmentsResponse> alterPartitionReassignments(
    Request& request, wire::AlterPartitionReassignmentsRequest asked);
Co<wire::ConsumerGroupDescribeResponse> consumerGroupDescribe(Request& request,
                                                              wire::ConsumerGroupDescribeRequest asked);
Co<wire::ConsumerGroupHeartbeatResponse> consumerGroupHeartbeat(Request& request,
                                                                wire::ConsumerGroupHeartbeatRequest asked);
Co<wire::CreatePartitionsResponse> createPartitions(Request& request, wire::CreatePartitionsRequest asked);
Co<wire::CreateTopicsResponse> createTopics(Request& request, wire::CreateTopicsRequest asked);
Co<wire::DeleteGroupsResponse> deleteGroups(Request& request, wire::DeleteGroupsRequest asked);
Co<wire::DeleteRecordsResponse> deleteRecords(Request& request, wire::DeleteRecordsRequest asked);
Co<wire::DeleteTopicsResponse> deleteTopics(Request& request, wire::DeleteTopicsRequest asked);
Co<wire::DescribeGroupsResponse> describeGroups(Request& request, wire::DescribeGroupsRequest asked);
Co<wire::DescribeLogDirsResponse> describeLogDirs(Request& request, wire::DescribeLogDirsRequest asked);
Co<wire::DescribeProducersResponse> describeProducers(Request& request, wire::DescribeProducersRequest asked);
Co<wire::DescribeQuorumResponse> describeQuorum(Request& request, wire::DescribeQuorumRequest asked);
Co<wire::DescribeTransactionsResponse> describeTransactions(Request& request, wire::DescribeTransactionsRequest asked);
Co<wire::ElectLeadersResponse> electLeaders(Request& request, wire::ElectLeadersRequest asked);
Co<wire::EndTxnResponse> endTxn(Request& request, wire::EndTxnRequest asked);
Co<wire::FindCoordinatorResponse> findCoordinator(Request& request, wire::FindCoordinatorRequest asked);
Co<wire::HeartbeatResponse> heartbeat(Request& request, wire::HeartbeatRequest asked);
Co<wire::IncrementalAlterConfigsResponse> incrementalAlterConfigs(Request& request,
                                                                  wire::IncrementalAlterConfigsRequest asked);
Co<wire::InitProducerIdResponse> initProducerId(Request& request, wire::InitProducerIdRequest asked);
Co<wire::JoinGroupResponse> joinGroup(Request& request, wire::JoinGroupRequest asked);
Co<wire::LeaveGroupResponse> leaveGroup(Request& request, wire::LeaveGroupRequest asked);
Co<wire::ListGroupsResponse> listGroups(Request& request, wire::ListGroupsRequest asked);
Co<wire::ListOffsetsResponse> listOffsets(Request& request, wire::ListOffsetsRequest asked);
Co<wire::ListPartitionReassignmentsResponse> listPartitionReassignments(Request& request,
                                                                        wire::ListPartitionReassignmentsRequest asked);
Co<wire::ListTransactionsResponse> listTransactions(Request& request, wire::ListTransactionsRequest asked);
Co<wire::MetadataResponse> metadata(Request& request, wire::MetadataRequest asked);
Co<wire::OffsetCommitResponse> offsetCommit(Request& request, wire::OffsetCommitRequest asked);
Co<wire::OffsetDeleteResponse> offsetDelete(Request& request, wire::OffsetDeleteRequest asked);
Co<wire::OffsetFetchResponse> offsetFetch(Request& request, wire::OffsetFetchRequest asked);
Co<wire::OffsetForLeaderEpochResponse> offsetForLeaderEpoch(Request& request, wire::OffsetForLeaderEpochRequest asked);
Co<wire::RemoveRaftVoterResponse> removeRaftVoter(Request& request, wire::RemoveRaftVoterRequest asked);
Co<wire::SyncGroupResponse> syncGroup(Request& request, wire::SyncGroupRequest asked);
Co<wire::TxnOffsetCommitResponse> txnOffsetCommit(Request& request, wire::TxnOffsetCommitRequest asked);
Co<wire::UnregisterBrokerResponse> unregisterBroker(Request& request, wire::UnregisterBrokerRequest asked);
Co<wire::UpdateFeaturesResponse> updateFeatures(Request& request, wire::UpdateFeaturesRequest asked);
Co<wire::WriteTxnMarkersResponse> writeTxnMarkers(Request& request, wire::WriteTxnMarkersRequest asked);

}  // namespace mq::kafka
