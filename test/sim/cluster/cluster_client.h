// ClusterClient: what a Kafka client library knows of a cluster: which broker leads what, and a connection to each. A
// request goes to the leader of its partition, the coordinator of its group or transaction, or to any broker.
//
// Knowledge comes from Metadata and FindCoordinator, from whichever broker answers, and may be old. An answer that says
// so makes it be forgotten; asking again is the caller's business, and goes to whoever is right by then. While nobody
// leads or coordinates, or nobody answers, a call rejects as when a connection breaks.
//
// Lives on one shard of a client's process, which outlives it.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "kafka_client.h"

namespace mq::wire {
struct AddOffsetsToTxnRequest;
struct AddPartitionsToTxnRequest;
struct ConsumerGroupHeartbeatRequest;
struct DeleteRecordsRequest;
struct EndTxnRequest;
struct FetchRequest;
struct HeartbeatRequest;
struct InitProducerIdRequest;
struct JoinGroupRequest;
struct LeaveGroupRequest;
struct ListOffsetsRequest;
struct OffsetCommitRequest;
struct OffsetFetchRequest;
struct ProduceRequest;
struct SyncGroupRequest;
struct TxnOffsetCommitRequest;

struct AddPartitionsToTxnResponse;
struct CreateTopicsResponse;
struct DeleteRecordsResponse;
struct DeleteTopicsResponse;
struct FetchResponse;
struct ListOffsetsResponse;
struct OffsetCommitResponse;
struct OffsetFetchResponse;
struct ProduceResponse;
struct TxnOffsetCommitResponse;
}  // namespace mq::wire

namespace mq::sim {

// Where a request has to go.
struct Route {
  enum class To : uint8_t { any, leader, groupCoordinator, transactionCoordinator };
  To to = To::any;
  TopicPartition partition;
  std::string key;  // group or transactional id
};

Route routeOf(const wire::ProduceRequest& request);
Route routeOf(const wire::FetchRequest& request);
Route routeOf(const wire::ListOffsetsRequest& request);
Route routeOf(const wire::DeleteRecordsRequest& request);
Route routeOf(const wire::JoinGroupRequest& request);
Route routeOf(const wire::SyncGroupRequest& request);
Route routeOf(const wire::HeartbeatRequest& request);
Route routeOf(const wire::LeaveGroupRequest& request);
Route routeOf(const wire::OffsetCommitRequest& request);
Route routeOf(const wire::OffsetFetchRequest& request);
Route routeOf(const wire::ConsumerGroupHeartbeatRequest& request);
Route routeOf(const wire::TxnOffsetCommitRequest& request);
Route routeOf(const wire::InitProducerIdRequest& request);
Route routeOf(const wire::AddPartitionsToTxnRequest& request);
Route routeOf(const wire::AddOffsetsToTxnRequest& request);
Route routeOf(const wire::EndTxnRequest& request);
template <class Request>
Route routeOf(const Request&) {
  return {};
}

// The first error in an answer: here a request is always about one thing.
Error errorOf(const wire::ProduceResponse& response);
Error errorOf(const wire::FetchResponse& response);
Error errorOf(const wire::ListOffsetsResponse& response);
Error errorOf(const wire::DeleteRecordsResponse& response);
Error errorOf(const wire::OffsetCommitResponse& response);
Error errorOf(const wire::OffsetFetchResponse& response);
Error errorOf(const wire::TxnOffsetCommitResponse& response);
Error errorOf(const wire::AddPartitionsToTxnResponse& response);
Error errorOf(const wire::CreateTopicsResponse& response);
Error errorOf(const wire::DeleteTopicsResponse& response);
template <class Response>
Error errorOf(const Response& response) {
  if constexpr (requires { response.errorCode; }) return response.errorCode;
  return Error::none;
}

class ClusterClient {
 public:
  ClusterClient(Shard& shard, std::vector<Address> brokers);
  KJ_DISALLOW_COPY(ClusterClient);

  template <class Request>
  Co<Answer<typename Request::Response>> call(Request request, int16_t version, Duration limit = 30s) {
    const Route route = routeOf(request);
    KafkaClient* broker = connected(route);
    if (broker == nullptr) broker = co_await find(route, limit);
    if constexpr (std::is_same_v<Request, wire::FetchRequest>) stamp(request);
    Answer<typename Request::Response> answer;
    try {
      answer = co_await broker->call(std::move(request), version, limit);
    } catch (...) {
      forget(route);
      throw;
    }
    if (Error error = errorOf(answer.message); error != Error::none && isPassing(error)) forget(route);
    co_return answer;
  }

  // A connection to the leader, so that calls that follow begin at once and in their order.
  Co<void> prepare(TopicPartition partition, Duration limit);
  bool isPrepared(const TopicPartition& partition) const;
  void close(const char* why);  // all connections

 private:
  using Broker = std::string;  // its address

  static bool isPassing(Error error);
  KafkaClient& connection(const Broker& broker);
  KafkaClient* connected(const Route& route) const;  // null: find it first
  const Broker* known(const Route& route) const;     // null: ask
  Co<KafkaClient*> find(Route route, Duration limit);
  Co<void> learnLeaders(Duration limit);
  Co<void> learnCoordinator(Route route, Duration limit);
  void forget(const Route& route);
  void stamp(wire::FetchRequest& request) const;

  Shard& shard_;
  std::map<Broker, Address> brokers_;
  std::map<Broker, std::unique_ptr<KafkaClient>> connections_;
  std::map<TopicPartition, Broker> leaders_;
  std::map<TopicPartition, int32_t> epochs_;  // the latest that was heard of
  std::map<std::pair<Route::To, std::string>, Broker> coordinators_;
  Broker any_;
};

}  // namespace mq::sim
