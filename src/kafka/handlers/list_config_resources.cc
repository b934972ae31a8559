// ListConfigResources (KIP-1142): what has, or can have, a configuration. Version 0 was a list of client metrics alone.
#include <set>

#include "kafka/handlers/config_resource.h"
#include "kafka/handlers/handlers.h"
#include "wire/list_config_resources_request.h"
#include "wire/list_config_resources_response.h"

namespace mq::kafka {

wire::ListConfigResourcesResponse listConfigResources(Request& request, wire::ListConfigResourcesRequest asked) {
  using metadata::ResourceType;
  const metadata::Image& image = request.server.image();
  wire::ListConfigResourcesResponse response;

  std::set<ResourceType> types;
  for (int8_t number : asked.resourceTypes) {
    auto type = resourceType(number);
    if (!type) {
      response.errorCode = Error::unsupportedVersion;
      return response;
    }
    types.insert(*type);
  }
  if (request.version == 0) types = {ResourceType::clientMetrics};
  if (types.empty()) {
    types = {ResourceType::topic, ResourceType::broker, ResourceType::brokerLogger, ResourceType::clientMetrics,
             ResourceType::group};
  }
  auto add = [&](ResourceType type, std::string name) {
    response.configResources.push_back({.resourceName = std::move(name), .resourceType = static_cast<int8_t>(type)});
  };
  for (ResourceType type : types) {
    switch (type) {
      case ResourceType::topic:
        for (const auto& [name, topic] : image.topics()) add(type, name);
        break;
      case ResourceType::broker:
      case ResourceType::brokerLogger:
        for (const auto& [id, broker] : image.brokers()) add(type, std::to_string(id.value()));
        break;
      case ResourceType::clientMetrics:
      case ResourceType::group:
        for (const auto& [resource, configs] : image.allConfigs()) {
          if (resource.type == type) add(type, resource.name);
        }
        break;
    }
  }
  return response;
}

}  // namespace mq::kafka
