#include "kafka/session.h"

#include <algorithm>
#include <string_view>

namespace mq::kafka {

// Clients whose stock installation decodes lz4. Others, and those without a name (kafkajs, kafka-python and kafka-go
// among them, of which only the last one could), get plain bytes.
bool Session::decodesLz4() const {
  static constexpr std::string_view kNames[] = {"apache-kafka-java",  "librdkafka", "confluent-kafka-", "kgo", "sarama",
                                                "platformatic-kafka", "mq"};
  return std::ranges::any_of(kNames, [&](std::string_view name) { return softwareName.starts_with(name); });
}

std::string plainHost(const std::string& host) {
  static constexpr std::string_view kMapped = "::ffff:";
  bool mapped = host.starts_with(kMapped) && host.find('.') != std::string::npos;
  return mapped ? host.substr(kMapped.size()) : host;
}

}  // namespace mq::kafka
