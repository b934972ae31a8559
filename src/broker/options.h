// From the settings of the process to the Options of each module: the only place where both are known.
#pragma once
#include <string>

#include "config/broker_settings.h"
#include "controller/controller.h"
#include "coordinator/group_coordinator.h"
#include "coordinator/transaction_coordinator.h"
#include "storage/options.h"

namespace mq::broker {

// Limits of the node are shared out evenly over its shards.
storage::Options storageOptions(const config::BrokerSettings& settings, const std::string& dataDirectory,
                                uint32_t shards);
storage::Tuning storageTuning(const config::BrokerSettings& settings, uint32_t shards);
coordinator::GroupCoordinator::Options coordinatorOptions(const config::BrokerSettings& settings);
coordinator::TransactionCoordinator::Options transactionOptions(const config::BrokerSettings& settings);

controller::ControllerOptions controllerOptions(const config::BrokerConfig& config, const std::string& dataDirectory,
                                                const Uuid& clusterId, bool mustExist);

}  // namespace mq::broker
