// ConsumerGroupSettings: what a group in the consumer protocol can be told (AlterConfigs of resource type GROUP,
// KIP-848), by Kafka 4.4's names. Effective values are resolved from the broker's (GroupLimits::defaults) and the
// group's overrides, which metadata holds as text. Settings of share and streams groups are unknown here, as those
// groups are. Plain values.
#pragma once
#include <cstdint>
#include <vector>

#include "config/setting.h"

namespace mq::config {

class BrokerConfig;
struct BrokerSettings;

struct ConsumerGroupSettings {
  int32_t sessionMs = 45000;
  int32_t heartbeatMs = 5000;
  friend bool operator==(const ConsumerGroupSettings&, const ConsumerGroupSettings&) = default;
};

// What the broker allows all groups: group.consumer.*.
struct GroupLimits {
  ConsumerGroupSettings defaults;
  ConsumerGroupSettings least{.sessionMs = 45000, .heartbeatMs = 5000};
  ConsumerGroupSettings most{.sessionMs = 60000, .heartbeatMs = 15000};
  static GroupLimits of(const BrokerSettings& broker);
};

Table groupTable();

// As checkTopic, alterTopic, resolveTopic and describeTopic (topic_settings.h).
Result<void> checkGroup(const GroupLimits& limits, const Overrides& overrides);
Result<Overrides> alterGroup(const GroupLimits& limits, const Overrides& now, std::span<const Alteration> alterations);
// What was committed under other limits is brought into those of today.
ConsumerGroupSettings resolveGroup(const GroupLimits& limits, const Overrides& overrides);
std::vector<Entry> describeGroup(const BrokerConfig& broker, const Overrides& overrides);

}  // namespace mq::config
