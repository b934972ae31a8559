#include "broker/options.h"

#include <algorithm>
#include <set>

namespace mq::broker {

std::string listenerName(const config::Endpoint& endpoint) {
  return endpoint.name.empty() ? std::string(kDefaultListenerName) : endpoint.name;
}

storage::Options storageOptions(const config::BrokerSettings& settings, const std::string& dataDirectory) {
  storage::Options options;
  options.path = dataDirectory;
  options.otherNames = {"metadata"};
  options.freeBytesMin = static_cast<uint64_t>(settings.diskFloorBytes);
  options.freePercentMin = static_cast<uint32_t>(settings.diskFloorPercent);
  options.reserveBytes = static_cast<uint64_t>(settings.diskReserveBytes);
  options.markInterval = std::chrono::milliseconds(settings.durableMarkMs);
  options.syncParallel = static_cast<uint32_t>(settings.syncThreads);
  options.retentionInterval = std::chrono::milliseconds(settings.retentionCheckMs);
  options.producerExpiration = std::chrono::milliseconds(settings.producerIdExpirationMs);
  options.openFilesMax = static_cast<uint32_t>(settings.openFilesMax);
  options.scrubBytesPerSecond = static_cast<uint64_t>(settings.scrubBytesPerSecond);
  return options;
}

controller::ControllerOptions controllerOptions(const config::BrokerConfig& config, const std::string& dataDirectory,
                                                const Uuid& clusterId, bool mustExist) {
  controller::ControllerOptions options;
  options.node = NodeId(config.settings().nodeId);
  options.directory = dataDirectory + "/metadata";
  options.clusterId = clusterId;
  options.mustExist = mustExist;
  options.config = config;
  return options;
}

std::vector<std::string> contradictions(const config::BrokerSettings& settings) {
  std::vector<std::string> problems;
  if (!settings.roles.broker || !settings.roles.controller) {
    problems.push_back("roles: this version runs both roles in one process; use --roles=broker,controller");
  }
  if (settings.controllers.size() > 1) {
    problems.push_back("controllers: this version runs a single node; name only this one (--controllers " +
                       std::to_string(settings.nodeId) + "@HOST:PORT) or leave it out");
  }
  if (settings.controllers.size() == 1 && settings.controllers[0].id != settings.nodeId) {
    problems.push_back("controllers: the only controller is node " + std::to_string(settings.controllers[0].id) +
                       ", but this is node " + std::to_string(settings.nodeId) + " (--node-id)");
  }
  std::set<std::string> names;
  for (const config::Endpoint& listener : settings.listeners) {
    if (!names.insert(listenerName(listener)).second) {
      problems.push_back("listeners: two have the name " + listenerName(listener) +
                         "; tell them apart with --listen NAME=HOST:PORT");
    }
  }
  for (const config::Endpoint& advertised : settings.advertised) {
    if (!names.contains(listenerName(advertised))) {
      problems.push_back("advertised.listeners: there is no listener of the name " + listenerName(advertised));
    }
    if (advertised.host == "0.0.0.0" || advertised.host == "::") {
      problems.push_back(
          "advertised.listeners: " + advertised.toString() +
          " is no address that a client could connect to; leave it out to advertise the one that the client reached");
    }
  }
  return problems;
}

}  // namespace mq::broker
