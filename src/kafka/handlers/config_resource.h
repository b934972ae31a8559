// Shared by the handlers of configuration: which resource a request names, and what is said of each in the end.
#pragma once
#include <charconv>
#include <optional>
#include <string_view>

#include "kafka/server.h"

namespace mq::kafka {

inline std::optional<metadata::ResourceType> resourceType(int8_t number) {
  switch (static_cast<metadata::ResourceType>(number)) {
    case metadata::ResourceType::topic:
    case metadata::ResourceType::broker:
    case metadata::ResourceType::brokerLogger:
    case metadata::ResourceType::clientMetrics:
    case metadata::ResourceType::group: return static_cast<metadata::ResourceType>(number);
  }
  return std::nullopt;
}

// A broker resource: this node, or empty for the default of all brokers. Others are asked for at their own node.
inline Result<void> checkBrokerName(const Server& server, std::string_view name) {
  if (name.empty() || name == std::to_string(server.node().value())) return {};
  return failure(Error::invalidRequest,
                 "broker \"{}\" is not this node, which is {}: ask it itself, or leave the name empty for the default "
                 "of all brokers",
                 name, server.node());
}

// The answer to either form of AlterConfigs.
template <class WireResponse>
WireResponse toldPerResource(const controller::AlterConfigsResponse& altered) {
  WireResponse response;
  for (const auto& resource : altered.resources) {
    auto& into = response.responses.emplace_back();
    into.resourceType = static_cast<int8_t>(resource.resource.type);
    into.resourceName = resource.resource.name;
    into.errorCode = resource.result.errorCode();
    into.errorMessage.reset();
    if (!resource.result) into.errorMessage = resource.result.failure().message;
  }
  return response;
}

}  // namespace mq::kafka
