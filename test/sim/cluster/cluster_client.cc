#include "cluster_client.h"

#include <kj/debug.h>

#include "answers.h"
#include "wire/add_offsets_to_txn_request.h"
#include "wire/add_partitions_to_txn_request.h"
#include "wire/add_partitions_to_txn_response.h"
#include "wire/consumer_group_heartbeat_request.h"
#include "wire/create_topics_response.h"
#include "wire/delete_records_request.h"
#include "wire/delete_records_response.h"
#include "wire/delete_topics_response.h"
#include "wire/end_txn_request.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/heartbeat_request.h"
#include "wire/init_producer_id_request.h"
#include "wire/join_group_request.h"
#include "wire/leave_group_request.h"
#include "wire/list_offsets_request.h"
#include "wire/list_offsets_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"
#include "wire/produce_request.h"
#include "wire/produce_response.h"
#include "wire/sync_group_request.h"
#include "wire/txn_offset_commit_request.h"
#include "wire/txn_offset_commit_response.h"

namespace mq::sim {
namespace {

constexpr Duration kLookWithin = 2s;  // then another broker is asked

Route toLeader(const std::string& topic, int32_t partition) {
  return {.to = Route::To::leader, .partition = {topic, partition}, .key = {}};
}
Route toGroup(const std::string& group) { return {.to = Route::To::groupCoordinator, .partition = {}, .key = group}; }
Route toTransaction(const std::string& id) {
  return {.to = Route::To::transactionCoordinator, .partition = {}, .key = id};
}

// Of topics and their partitions.
template <class Topics>
Error firstOf(const Topics& topics) {
  for (const auto& topic : topics)
    for (const auto& partition : topic.partitions)
      if (partition.errorCode != Error::none) return partition.errorCode;
  return Error::none;
}

[[noreturn]] void unreachable(const char* what) { kj::throwFatalException(KJ_EXCEPTION(DISCONNECTED, what)); }

}  // namespace

Route routeOf(const wire::ProduceRequest& request) {
  return toLeader(request.topicData.at(0).name, request.topicData[0].partitionData.at(0).index);
}
Route routeOf(const wire::FetchRequest& request) {
  return toLeader(request.topics.at(0).topic, request.topics[0].partitions.at(0).partition);
}
Route routeOf(const wire::ListOffsetsRequest& request) {
  return toLeader(request.topics.at(0).name, request.topics[0].partitions.at(0).partitionIndex);
}
Route routeOf(const wire::DeleteRecordsRequest& request) {
  return toLeader(request.topics.at(0).name, request.topics[0].partitions.at(0).partitionIndex);
}
Route routeOf(const wire::JoinGroupRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::SyncGroupRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::HeartbeatRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::LeaveGroupRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::OffsetCommitRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::OffsetFetchRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::ConsumerGroupHeartbeatRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::TxnOffsetCommitRequest& request) { return toGroup(request.groupId); }
Route routeOf(const wire::InitProducerIdRequest& request) {
  return request.transactionalId ? toTransaction(*request.transactionalId) : Route{};
}
Route routeOf(const wire::AddPartitionsToTxnRequest& request) {
  return toTransaction(request.v3AndBelowTransactionalId);
}
Route routeOf(const wire::AddOffsetsToTxnRequest& request) { return toTransaction(request.transactionalId); }
Route routeOf(const wire::EndTxnRequest& request) { return toTransaction(request.transactionalId); }

Error errorOf(const wire::ProduceResponse& response) {
  return response.responses.at(0).partitionResponses.at(0).errorCode;
}
Error errorOf(const wire::FetchResponse& response) {
  return response.errorCode != Error::none ? response.errorCode : firstOf(response.responses);
}
Error errorOf(const wire::ListOffsetsResponse& response) { return firstOf(response.topics); }
Error errorOf(const wire::DeleteRecordsResponse& response) { return firstOf(response.topics); }
Error errorOf(const wire::OffsetCommitResponse& response) { return firstOf(response.topics); }
Error errorOf(const wire::OffsetFetchResponse& response) {
  return response.errorCode != Error::none ? response.errorCode : firstOf(response.topics);
}
Error errorOf(const wire::TxnOffsetCommitResponse& response) { return firstOf(response.topics); }
Error errorOf(const wire::AddPartitionsToTxnResponse& response) {
  return response.resultsByTopicV3AndBelow.at(0).resultsByPartition.at(0).partitionErrorCode;
}
Error errorOf(const wire::CreateTopicsResponse& response) { return response.topics.at(0).errorCode; }
Error errorOf(const wire::DeleteTopicsResponse& response) { return response.responses.at(0).errorCode; }

ClusterClient::ClusterClient(Shard& shard, std::vector<Address> brokers) : shard_(shard) {
  any_ = brokers[shard.random().below(brokers.size())].toString();
  for (Address& broker : brokers) brokers_.emplace(broker.toString(), std::move(broker));
}

bool ClusterClient::isPassing(Error error) { return sim::isPassing(error); }

KafkaClient& ClusterClient::connection(const Broker& broker) {
  auto& client = connections_[broker];
  if (client == nullptr) client = std::make_unique<KafkaClient>(shard_, brokers_.at(broker));
  return *client;
}

const ClusterClient::Broker* ClusterClient::known(const Route& route) const {
  if (route.to == Route::To::any) return &any_;
  if (route.to == Route::To::leader) {
    auto found = leaders_.find(route.partition);
    return found == leaders_.end() ? nullptr : &found->second;
  }
  auto found = coordinators_.find({route.to, route.key});
  return found == coordinators_.end() ? nullptr : &found->second;
}

KafkaClient* ClusterClient::connected(const Route& route) const {
  const Broker* broker = known(route);
  if (broker == nullptr) return nullptr;
  auto found = connections_.find(*broker);
  return found == connections_.end() || !found->second->isConnected() ? nullptr : found->second.get();
}

Co<KafkaClient*> ClusterClient::find(Route route, Duration limit) {
  if (known(route) == nullptr) {
    if (route.to == Route::To::leader)
      co_await learnLeaders(limit);
    else
      co_await learnCoordinator(route, limit);
  }
  const Broker* broker = known(route);
  if (broker == nullptr) forget(route);
  if (broker == nullptr) unreachable(route.to == Route::To::leader ? "nobody leads it" : "nobody coordinates it");
  KafkaClient& client = connection(*broker);
  if (!client.isConnected()) {
    try {
      co_await client.connect(std::min(limit, kLookWithin));
    } catch (...) {
      forget(route);
      throw;
    }
  }
  co_return &client;
}

Co<void> ClusterClient::learnLeaders(Duration limit) {
  wire::MetadataRequest request{.topics = std::nullopt, .allowAutoTopicCreation = false};
  Answer<wire::MetadataResponse> answer;
  try {
    answer = co_await connection(any_).call(std::move(request), 9, std::min(limit, kLookWithin));
  } catch (...) {
    forget({});
    throw;
  }
  std::map<int32_t, Broker> names;
  for (const auto& broker : answer.message.brokers) {
    Address address{broker.host, static_cast<uint16_t>(broker.port)};
    names[broker.nodeId] = address.toString();
    brokers_.try_emplace(address.toString(), address);
  }
  leaders_.clear();
  for (const auto& topic : answer.message.topics) {
    for (const auto& partition : topic.partitions) {
      TopicPartition name{*topic.name, partition.partitionIndex};
      int32_t& epoch = epochs_.try_emplace(name, -1).first->second;
      if (partition.leaderEpoch < epoch) continue;  // from one that was left behind
      epoch = partition.leaderEpoch;
      if (auto leader = names.find(partition.leaderId); leader != names.end()) leaders_[name] = leader->second;
    }
  }
}

Co<void> ClusterClient::learnCoordinator(Route route, Duration limit) {
  wire::FindCoordinatorRequest request{.key = route.key,
                                       .keyType = static_cast<int8_t>(route.to == Route::To::groupCoordinator ? 0 : 1)};
  Answer<wire::FindCoordinatorResponse> answer;
  try {
    answer = co_await connection(any_).call(std::move(request), 1, std::min(limit, kLookWithin));
  } catch (...) {
    forget({});
    throw;
  }
  if (answer.message.errorCode != Error::none) {
    if (!sim::isPassing(answer.message.errorCode)) unexpected("FindCoordinator", answer.message.errorCode);
    forget({});
    co_return;
  }
  Address address{answer.message.host, static_cast<uint16_t>(answer.message.port)};
  brokers_.try_emplace(address.toString(), address);
  coordinators_[{route.to, route.key}] = address.toString();
}

// As consumers do (KIP-320): a leader of an earlier epoch, which does not know that it is deposed, says so instead of
// taking what its successor has shown for out of range.
void ClusterClient::stamp(wire::FetchRequest& request) const {
  for (auto& topic : request.topics) {
    for (auto& partition : topic.partitions) {
      auto known = epochs_.find({topic.topic, partition.partition});
      if (known != epochs_.end()) partition.currentLeaderEpoch = known->second;
    }
  }
}

// Also another broker is asked then: one that is cut off from the others knows nothing new.
void ClusterClient::forget(const Route& route) {
  if (route.to == Route::To::leader) leaders_.erase(route.partition);
  if (route.to == Route::To::groupCoordinator || route.to == Route::To::transactionCoordinator)
    coordinators_.erase({route.to, route.key});
  auto next = brokers_.upper_bound(any_);
  any_ = next == brokers_.end() ? brokers_.begin()->first : next->first;
}

Co<void> ClusterClient::prepare(TopicPartition partition, Duration limit) {
  const Route route = toLeader(partition.topic, partition.partition);
  if (connected(route) == nullptr) co_await find(route, limit);
}

bool ClusterClient::isPrepared(const TopicPartition& partition) const {
  return connected(toLeader(partition.topic, partition.partition)) != nullptr;
}

void ClusterClient::close(const char* why) {
  for (auto& [broker, client] : connections_) client->close(why);
}

}  // namespace mq::sim
