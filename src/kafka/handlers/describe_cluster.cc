#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "wire/describe_cluster_request.h"
#include "wire/describe_cluster_response.h"

namespace mq::kafka {

namespace {
constexpr int8_t kBrokers = 1;
constexpr int8_t kControllers = 2;
}  // namespace

wire::DescribeClusterResponse describeCluster(Request& request, wire::DescribeClusterRequest asked) {
  Server& server = request.server;
  wire::DescribeClusterResponse response;
  response.endpointType = asked.endpointType;
  if (asked.endpointType != kBrokers) {
    response.errorCode =
        asked.endpointType == kControllers ? Error::mismatchedEndpointType : Error::unsupportedEndpointType;
    response.errorMessage = fmt::format("endpoint type {} was asked for on a listener of brokers, which is type {}",
                                        asked.endpointType, kBrokers);
    return response;
  }
  response.clusterId = server.image().clusterId().toString();
  for (const auto& [id, broker] : server.image().brokers()) {
    if (broker->fenced && !asked.includeFencedBrokers) continue;
    auto endpoint = server.endpoint(*broker, request.session);
    if (!endpoint) continue;
    response.brokers.push_back({.brokerId = id.value(),
                                .host = endpoint->host,
                                .port = endpoint->port,
                                .rack = endpoint->rack,
                                .isFenced = broker->fenced});
    if (response.controllerId == -1 && !broker->fenced) response.controllerId = id.value();
  }
  if (asked.includeClusterAuthorizedOperations) response.clusterAuthorizedOperations = kClusterOperations;
  return response;
}

}  // namespace mq::kafka
