// From the settings of the process to the Options of each module: the only place where both are known.
#pragma once
#include <string>

#include "config/broker_settings.h"
#include "controller/controller.h"
#include "storage/options.h"

namespace mq::broker {

inline constexpr std::string_view kDefaultListenerName = "PLAINTEXT";  // of a listener without a name

std::string listenerName(const config::Endpoint& endpoint);
storage::Options storageOptions(const config::BrokerSettings& settings, const std::string& dataDirectory);
controller::ControllerOptions controllerOptions(const config::BrokerConfig& config, const std::string& dataDirectory,
                                                const Uuid& clusterId, bool mustExist);

// What cannot work together, although each value is right by itself; empty: nothing. One line a problem.
std::vector<std::string> contradictions(const config::BrokerSettings& settings);

}  // namespace mq::broker
