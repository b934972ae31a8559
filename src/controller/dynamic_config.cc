#include "controller/dynamic_config.h"

#include <algorithm>

namespace mq::controller {

using metadata::ResourceType;

bool changesConfigOf(NodeId broker, const metadata::Delta& delta) {
  return std::ranges::any_of(delta.configs, [&](const metadata::ConfigResource& resource) {
    return resource.type == ResourceType::broker &&
           (resource.name.empty() || resource.name == fmt::to_string(broker.value()));
  });
}

config::BrokerConfig configOf(NodeId broker, const config::BrokerConfig& started, const metadata::Image& image) {
  return started.withDynamic(*image.configs({ResourceType::broker, ""}),
                             *image.configs({ResourceType::broker, fmt::to_string(broker.value())}));
}

}  // namespace mq::controller
