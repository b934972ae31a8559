#include "coordinator/consumer_protocol.h"

#include <algorithm>

#include "base/check.h"
#include "wire/codec.h"
#include "wire/consumer_protocol_assignment.h"

namespace mq::coordinator {
namespace {

template <class Message>
std::optional<Message> read(Bytes bytes) {
  ByteReader reader(bytes);
  int16_t version = reader.int16();
  if (!reader.ok() || version < 0) return std::nullopt;
  auto message = wire::decode<Message>(reader, std::min(version, Message::kVersionMax));
  if (!message) return std::nullopt;
  return std::move(*message);
}

template <class Topics>
Assignment byId(const Topics& named, const metadata::Image& image) {
  Assignment assignment;
  for (const auto& entry : named) {
    auto topic = image.topic(entry.topic);
    if (topic != nullptr && !entry.partitions.empty())
      assignment[topic->id].insert(entry.partitions.begin(), entry.partitions.end());
  }
  return assignment;
}

}  // namespace

std::optional<wire::ConsumerProtocolSubscription> readSubscription(Bytes metadata) {
  return read<wire::ConsumerProtocolSubscription>(metadata);
}

int16_t protocolVersionOf(Bytes metadata) {
  ByteReader reader(metadata);
  return std::clamp<int16_t>(reader.int16(), 0, wire::ConsumerProtocolAssignment::kVersionMax);
}

std::optional<Assignment> readAssignment(Bytes assignment, const metadata::Image& image) {
  if (assignment.empty()) return Assignment();  // of one that has not been given any yet
  auto named = read<wire::ConsumerProtocolAssignment>(assignment);
  if (!named) return std::nullopt;
  return byId(named->assignedPartitions, image);
}

Assignment assignmentOf(const std::vector<wire::ConsumerProtocolSubscription::TopicPartition>& named,
                        const metadata::Image& image) {
  return byId(named, image);
}

Buffer writeAssignment(const Assignment& assignment, int16_t version, const metadata::Image& image) {
  wire::ConsumerProtocolAssignment message;
  for (const auto& [id, partitions] : assignment) {
    if (auto topic = image.topic(id); topic != nullptr)
      message.assignedPartitions.push_back({topic->name, {partitions.begin(), partitions.end()}});
  }
  Buffer bytes;
  ByteWriter(bytes).int16(version);
  auto written = wire::encode(message, version, bytes);
  MQ_CHECK(written.has_value(), version);
  return bytes;
}

}  // namespace mq::coordinator
