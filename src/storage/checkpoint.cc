#include "storage/checkpoint.h"

#include "storage/text_lines.h"

namespace mq::storage {

std::string encodeCheckpoint(const Checkpoint& checkpoint) {
  std::string text = fmt::format("0\n{}\n", checkpoint.size());
  for (const auto& [name, offset] : checkpoint) text += fmt::format("{} {} {}\n", name.topic, name.partition, offset);
  return text;
}

Result<Checkpoint> decodeCheckpoint(std::string_view text) {
  Checkpoint checkpoint;
  auto parsed = forEachLine(text, [&](std::string_view line) -> std::string {
    size_t last = line.rfind(' ');
    size_t middle = last == 0 || last == std::string_view::npos ? std::string_view::npos : line.rfind(' ', last - 1);
    if (middle == std::string_view::npos || middle == 0) return "not a topic, a partition and an offset";
    std::string_view topic = line.substr(0, middle);
    auto partition = parseNumber(line.substr(middle + 1, last - middle - 1), INT32_MAX);
    auto offset = parseNumber(line.substr(last + 1), INT64_MAX);
    if (topic.find(' ') != std::string_view::npos || !partition || !offset)
      return "not a topic, a partition and an offset";
    TopicPartition name{std::string(topic), static_cast<int32_t>(*partition)};
    if (!checkpoint.emplace(std::move(name), Offset(*offset)).second) return "this partition stands there twice";
    return {};
  });
  if (!parsed) return parsed.failure();
  return checkpoint;
}

}  // namespace mq::storage
