// AlterConfigs, the old form: the list replaces all overrides of the resource.
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
  auto altered = co_await request.server.controller().alterConfigs(std::move(wish));

  wire::AlterConfigsResponse response;
  for (const auto& resource : altered.resources) {
    auto& into = response.responses.emplace_back();
    into.resourceType = static_cast<int8_t>(resource.resource.type);
    into.resourceName = resource.resource.name;
    into.errorCode = resource.result.errorCode();
    into.errorMessage.reset();
    if (!resource.result) into.errorMessage = resource.result.failure().message;
  }
  co_return response;
}

}  // namespace mq::kafka
