// The settings of a broker while it runs: those it was started with, and on top what the cluster's metadata sets for
// all brokers and for this one.
#pragma once
#include "config/broker_settings.h"
#include "metadata/image.h"

namespace mq::controller {

bool changesConfigOf(NodeId broker, const metadata::Delta& delta);
config::BrokerConfig configOf(NodeId broker, const config::BrokerConfig& started, const metadata::Image& image);

}  // namespace mq::controller
