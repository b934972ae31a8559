// What members of the classic protocol of type "consumer" tell each other: subscriptions and assignments, which the
// broker hands on as bytes. It reads them where a group has members of both protocols (KIP-848), and for what a group
// reads. Formats: ConsumerProtocolSubscription, ConsumerProtocolAssignment, behind an int16 version; what a later
// version adds at the end is left alone.
#pragma once
#include <optional>

#include "coordinator/assignors.h"
#include "metadata/image.h"
#include "wire/consumer_protocol_subscription.h"
#include "wire/value.h"

namespace mq::coordinator {

inline constexpr std::string_view kConsumerProtocol = "consumer";  // the protocol type

std::optional<wire::ConsumerProtocolSubscription> readSubscription(Bytes metadata);  // none: it is none
int16_t protocolVersionOf(Bytes metadata);                                           // of what readSubscription read

// Partitions of topics that the image does not know are left out.
std::optional<Assignment> readAssignment(Bytes assignment, const metadata::Image& image);
Assignment assignmentOf(const std::vector<wire::ConsumerProtocolSubscription::TopicPartition>& named,
                        const metadata::Image& image);
Buffer writeAssignment(const Assignment& assignment, int16_t version, const metadata::Image& image);

}  // namespace mq::coordinator
