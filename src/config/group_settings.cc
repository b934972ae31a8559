#include "config/group_settings.h"

#include <algorithm>

#include "config/broker_settings.h"
#include "config/names.h"
#include "config/text.h"

namespace mq::config {
namespace {

using G = ConsumerGroupSettings;

constexpr Setting kConsumer[] = {
    {.name = "consumer.heartbeat.interval.ms",
     .broker = "group.consumer.heartbeat.interval.ms",
     .field = &kField<&G::heartbeatMs>,
     .min = 1,
     .change = Change::live,
     .doc = "How often members are told to send heartbeats. Between group.consumer.min.heartbeat.interval.ms and "
            "group.consumer.max.heartbeat.interval.ms."},
    {.name = "consumer.session.timeout.ms",
     .broker = "group.consumer.session.timeout.ms",
     .field = &kField<&G::sessionMs>,
     .min = 1,
     .change = Change::live,
     .doc = "How long a member may be silent before it is out. Between group.consumer.min.session.timeout.ms and "
            "group.consumer.max.session.timeout.ms."},
};
constexpr Section kSections[] = {{"The consumer protocol", kConsumer}};

const Setting* findGroupRow(std::string_view name) { return find(groupTable(), name); }

Failure unknownGroupSetting(std::string_view name) {
  std::string near = nearest(name, std::array{kConsumer[0].name, kConsumer[1].name});
  return failure(Error::invalidConfig, "Unknown group config name: {}{}", quoted(name),
                 near.empty() ? "" : fmt::format("; did you mean {}?", near));
}

Result<void> checkRange(std::string_view name, int32_t value, int32_t least, int32_t most) {
  if (value >= least && value <= most) return {};
  return failure(Error::invalidConfig, "{}={} is out of what the broker allows: group.{} from {} to {}", name, value,
                 name, least, most);
}

}  // namespace

GroupLimits GroupLimits::of(const BrokerSettings& broker) {
  return {.defaults = {broker.consumerSessionMs, broker.consumerHeartbeatMs},
          .least = {broker.consumerSessionMinMs, broker.consumerHeartbeatMinMs},
          .most = {broker.consumerSessionMaxMs, broker.consumerHeartbeatMaxMs}};
}

Table groupTable() { return kSections; }

Result<void> checkGroup(const GroupLimits& limits, const Overrides& overrides) {
  ConsumerGroupSettings settings = limits.defaults;
  for (const auto& [name, value] : overrides) {
    const Setting* row = findGroupRow(name);
    if (row == nullptr) return unknownGroupSetting(name);
    if (Result<void> assigned = assign(*row, value, &settings); !assigned) return assigned;
  }
  const auto& [heartbeat, session] = kConsumer;
  if (auto ok = checkRange(session.name, settings.sessionMs, limits.least.sessionMs, limits.most.sessionMs); !ok)
    return ok;
  if (auto ok = checkRange(heartbeat.name, settings.heartbeatMs, limits.least.heartbeatMs, limits.most.heartbeatMs);
      !ok)
    return ok;
  if (settings.sessionMs > settings.heartbeatMs) return {};
  return failure(Error::invalidConfig, "{} ({}) must be above {} ({})", session.name, settings.sessionMs,
                 heartbeat.name, settings.heartbeatMs);
}

Result<Overrides> alterGroup(const GroupLimits& limits, const Overrides& now, std::span<const Alteration> alterations) {
  auto effective = [&](const Setting& row) { return row.field->print(&limits.defaults); };
  Result<Overrides> altered = alter(now, alterations, findGroupRow, unknownGroupSetting, effective);
  if (!altered) return altered;
  if (Result<void> checked = checkGroup(limits, *altered); !checked) return checked.failure();
  return altered;
}

ConsumerGroupSettings resolveGroup(const GroupLimits& limits, const Overrides& overrides) {
  ConsumerGroupSettings settings = limits.defaults;
  for (const auto& [name, value] : overrides) {
    if (const Setting* row = findGroupRow(name)) (void)assign(*row, value, &settings);
  }
  settings.sessionMs = std::clamp(settings.sessionMs, limits.least.sessionMs, limits.most.sessionMs);
  settings.heartbeatMs = std::clamp(settings.heartbeatMs, limits.least.heartbeatMs, limits.most.heartbeatMs);
  return settings;
}

std::vector<Entry> describeGroup(const BrokerConfig& broker, const Overrides& overrides) {
  ConsumerGroupSettings settings = resolveGroup(GroupLimits::of(broker.settings()), overrides);
  std::vector<Entry> entries;
  for (const Setting& row : kConsumer)
    entries.push_back(describeRow(row, &settings, overrides, Source::dynamicGroup, broker));
  return entries;
}

}  // namespace mq::config
