// FindCoordinator: the leader of the partition of __consumer_offsets that keeps a group, or of __transaction_state that
// keeps a transactional id. The topic is made when it is first asked for.
#include "coordinator/group_coordinator.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "kafka/server.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"

namespace mq::kafka {

namespace {

enum class KeyType : int8_t { group = 0, transaction = 1, share = 2 };
constexpr int16_t kManyKeysFrom = 4;
constexpr int16_t kTransactionsFrom = 1;
constexpr int16_t kShareFrom = 6;

using Found = wire::FindCoordinatorResponse::Coordinator;

Found refused(const Failure& why) {
  return {.nodeId = -1, .host = "", .port = -1, .errorCode = why.error, .errorMessage = why.message};
}

Failure absence(const Request& request, int8_t keyType) {
  if (keyType != static_cast<int8_t>(KeyType::share) || request.version < kShareFrom) {
    return failure(Error::invalidRequest, "key type {} is not known in version {}", keyType, request.version);
  }
  return {Error::coordinatorNotAvailable, "share groups are not served"};
}

Found find(const Request& request, const metadata::Topic& topic, std::string_view key) {
  Server& server = request.server;
  int32_t index = coordinator::partitionOf(key, topic.partitionCount());
  NodeId leader = topic.partition(index)->leader;
  const metadata::Broker* broker = server.image().broker(leader);
  std::optional<Server::Endpoint> endpoint;
  if (broker != nullptr && !broker->fenced) endpoint = server.endpoint(*broker, request.session);
  if (!endpoint) {
    return refused(
        failure(Error::coordinatorNotAvailable, "{}-{} has no leader that this listener reaches", topic.name, index));
  }
  return {.nodeId = endpoint->node.value(), .host = endpoint->host, .port = endpoint->port};
}

}  // namespace

Co<wire::FindCoordinatorResponse> findCoordinator(Request& request, wire::FindCoordinatorRequest asked) {
  bool isOne = request.version < kManyKeysFrom;
  if (isOne) asked.coordinatorKeys = {asked.key};
  std::vector<Found> found;
  const bool isGroup = asked.keyType == static_cast<int8_t>(KeyType::group);
  const bool isTransaction =
      asked.keyType == static_cast<int8_t>(KeyType::transaction) && request.version >= kTransactionsFrom;
  if (isGroup || isTransaction) {
    auto topic = co_await (isGroup ? request.server.offsetsTopic() : request.server.transactionsTopic());
    for (const auto& key : asked.coordinatorKeys)
      found.push_back(topic ? find(request, **topic, key) : refused(topic.failure()));
  } else {
    found.assign(asked.coordinatorKeys.size(), refused(absence(request, asked.keyType)));
  }

  wire::FindCoordinatorResponse response;
  if (isOne) {
    response.errorCode = found[0].errorCode;
    response.errorMessage = found[0].errorMessage;
    response.nodeId = found[0].nodeId;
    response.host = std::move(found[0].host);
    response.port = found[0].port;
    co_return response;
  }
  for (size_t i = 0; i < found.size(); ++i) {
    found[i].key = std::move(asked.coordinatorKeys[i]);
    response.coordinators.push_back(std::move(found[i]));
  }
  co_return response;
}

}  // namespace mq::kafka
