// IncrementalAlterConfigs (KIP-339): sets, removes, appends to and subtracts from single values.
#include "kafka/handlers/config_resource.h"
#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/incremental_alter_configs_request.h"
#include "wire/incremental_alter_configs_response.h"

namespace mq::kafka {

Co<wire::IncrementalAlterConfigsResponse> incrementalAlterConfigs(Request& request,
                                                                  wire::IncrementalAlterConfigsRequest asked) {
  controller::AlterConfigsRequest wish{.validateOnly = asked.validateOnly};
  for (auto& resource : asked.resources) {
    auto& into = wish.resources.emplace_back();
    into.resource = {static_cast<metadata::ResourceType>(resource.resourceType), std::move(resource.resourceName)};
    for (auto& config : resource.configs) {
      into.changes.push_back({.name = std::move(config.name),
                              .op = static_cast<config::AlterOp>(config.configOperation),
                              .value = std::move(config.value)});
    }
  }
  co_return toldPerResource<wire::IncrementalAlterConfigsResponse>(
      co_await request.server.controller().alterConfigs(std::move(wish)));
}

}  // namespace mq::kafka
