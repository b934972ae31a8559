#include "metadata/print.h"

#include <fmt/ranges.h>

#include "wire/codec.h"

namespace mq::metadata {
namespace {

template <class List>
std::string numbers(const List& list) {
  return fmt::format("[{}]", fmt::join(list, ","));
}

std::string_view nameOf(ResourceType type) {
  switch (type) {
    case ResourceType::topic: return "topic";
    case ResourceType::broker: return "broker";
    case ResourceType::brokerLogger: return "broker-logger";
    case ResourceType::clientMetrics: return "client-metrics";
    case ResourceType::group: return "group";
  }
  return "unknown";
}

std::string printPartition(const Partition& p) {
  std::string text = fmt::format("replicas={} isr={} leader={} leaderEpoch={} partitionEpoch={}", numbers(p.replicas),
                                 numbers(p.isr), p.leader, p.leaderEpoch, p.partitionEpoch);
  if (!p.eligibleLeaders.empty()) text += " eligible=" + numbers(p.eligibleLeaders);
  if (!p.lastKnownEligible.empty()) text += " lastKnownEligible=" + numbers(p.lastKnownEligible);
  if (!p.adding.empty()) text += " adding=" + numbers(p.adding);
  if (!p.removing.empty()) text += " removing=" + numbers(p.removing);
  if (!p.directories.empty()) text += " directories=" + numbers(p.directories);
  return text;
}

}  // namespace

std::string print(const Image& image) {
  std::string text = fmt::format("offset {} epoch {}\ncluster {}\n", image.offset(), image.epoch(), image.clusterId());
  for (auto& voter : image.voters()) text += fmt::format("voter {} {}\n", voter.id, voter.directory);
  for (auto& observer : image.observers()) text += fmt::format("observer {} {}\n", observer.id, observer.directory);
  text += fmt::format("producer-ids {}\n", image.nextProducerId());
  for (auto& [name, level] : image.features()) text += fmt::format("feature {} {}\n", name, level);
  for (auto& [id, broker] : image.brokers()) {
    text += fmt::format("broker {} incarnation={} epoch={}", id, broker->incarnation, broker->epoch);
    if (broker->rack) text += fmt::format(" rack={}", *broker->rack);
    if (!broker->peer.host.empty()) text += fmt::format(" peer={}", broker->peer.toString());
    if (broker->fenced) text += " fenced";
    if (broker->stopping) text += " stopping";
    if (broker->drained) text += " drained";
    if (!broker->directories.empty()) text += " directories=" + numbers(broker->directories);
    for (auto& l : broker->listeners) text += fmt::format(" {}://{}:{}/{}", l.name, l.host, l.port, l.securityProtocol);
    text += '\n';
  }
  for (auto& [resource, configs] : image.allConfigs())
    for (auto& [name, value] : *configs)
      text += fmt::format("config {} \"{}\" {}={}\n", nameOf(resource.type), resource.name, name, value);
  for (auto& [name, topic] : image.topics()) {
    text += fmt::format("topic {} {}\n", name, topic->id);
    for (int32_t i = 0; i < topic->partitionCount(); ++i)
      text += fmt::format("  {} {}\n", i, printPartition(*topic->partition(i)));
  }
  return text;
}

std::string print(const Delta& delta) {
  std::string text;
  for (auto& topic : delta.created)
    text += fmt::format("created {} {} partitions={}\n", topic->name, topic->id, topic->partitionCount());
  for (auto& topic : delta.deleted) text += fmt::format("deleted {} {}\n", topic->name, topic->id);
  for (auto& topic : delta.changed)
    text += fmt::format("changed {} {}\n", topic.after->name, numbers(topic.partitions));
  for (auto& resource : delta.configs) text += fmt::format("configs {} \"{}\"\n", nameOf(resource.type), resource.name);
  for (auto id : delta.brokers) text += fmt::format("broker {}\n", id);
  if (delta.features) text += "features\n";
  return text;
}

std::string print(const Record& record) {
  return std::visit(
      []<class Kind>(const Kind& kind) {
        return fmt::format("{} {}", Kind::kDescriptor.name, wire::describe(kind, Kind::kVersionMax));
      },
      static_cast<const AnyRecord&>(record));
}

}  // namespace mq::metadata
