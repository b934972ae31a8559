// FindCoordinator: listed because clients read other abilities out of it. Coordinators do not exist yet, and the answer
// says so.
#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"

namespace mq::kafka {

namespace {

enum class KeyType : int8_t { group = 0, transaction = 1, share = 2 };
constexpr int16_t kManyKeysFrom = 4;
constexpr int16_t kTransactionsFrom = 1;
constexpr int16_t kShareFrom = 6;

Failure absence(const Request& request, int8_t keyType) {
  bool known = keyType == static_cast<int8_t>(KeyType::group) ||
               (keyType == static_cast<int8_t>(KeyType::transaction) && request.version >= kTransactionsFrom) ||
               (keyType == static_cast<int8_t>(KeyType::share) && request.version >= kShareFrom);
  if (!known) return failure(Error::invalidRequest, "key type {} is not known in version {}", keyType, request.version);
  return {Error::coordinatorNotAvailable,
          "this node has no coordinators: consumer groups and transactions are not served"};
}

}  // namespace

wire::FindCoordinatorResponse findCoordinator(Request& request, wire::FindCoordinatorRequest asked) {
  Failure why = absence(request, asked.keyType);
  wire::FindCoordinatorResponse response;
  if (request.version < kManyKeysFrom) {
    response.errorCode = why.error;
    response.errorMessage = why.message;
    response.nodeId = -1;
    response.port = -1;
    return response;
  }
  for (auto& key : asked.coordinatorKeys) {
    response.coordinators.push_back(
        {.key = std::move(key), .nodeId = -1, .port = -1, .errorCode = why.error, .errorMessage = why.message});
  }
  return response;
}

}  // namespace mq::kafka
