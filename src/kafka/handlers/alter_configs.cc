// AlterConfigs, the old form: the list replaces all overrides of the resource.
#include "kafka/handlers/config_resource.h"
#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/alter_configs_request.h"
#include "wire/alter_configs_response.h"

namespace mq::kafka {

Co<wire::AlterConfigsResponse> alterConfigs(Request& request, wire::AlterConfigsRequest asked) {
  controller::AlterConfigsRequest wish{.replaceAll = true, .validateOnly = asked.validateOnly};
  for (auto& resource : asked.resources) {
    auto& into = wish.resources.emplace_back();
    into.resource = {static_cast<metadata::ResourceType>(resource.resourceType), std::move(resource.resourceName)};
    for (auto& config : resource.configs) {
      into.changes.push_back(
          {.name = std::move(config.name), .op = config::AlterOp::set, .value = std::move(config.value)});
    }
  }
  co_return toldPerResource<wire::AlterConfigsResponse>(
      co_await request.server.controller().alterConfigs(std::move(wish)));
}

}  // namespace mq::kafka
