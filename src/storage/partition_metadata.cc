#include "storage/partition_metadata.h"

namespace mq::storage {
namespace {
constexpr std::string_view kBegin = "version: 0\ntopic_id: ";
}

std::string encodePartitionMetadata(TopicId topic) { return std::string(kBegin) + topic.toString(); }

Result<TopicId> decodePartitionMetadata(std::string_view text) {
  if (!text.starts_with(kBegin)) {
    return failure(Error::corruptMessage, "does not begin with \"version: 0\" and \"topic_id: \"");
  }
  text.remove_prefix(kBegin.size());
  if (text.ends_with('\n')) text.remove_suffix(1);
  auto topic = Uuid::parse(text);
  if (!topic) return failure(Error::corruptMessage, "the topic id is not 22 characters of base64url");
  return *topic;
}

}  // namespace mq::storage
