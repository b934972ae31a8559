// partition.metadata: which topic a partition directory belongs to, so that a recreated topic of the same name is not
// mistaken for it. Kafka's text, no newline at its end:  "version: 0\ntopic_id: " and 22 characters.
// Pure.
#pragma once
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/types.h"

namespace mq::storage {

std::string encodePartitionMetadata(TopicId topic);
Result<TopicId> decodePartitionMetadata(std::string_view text);  // errors: corruptMessage with the reason

}  // namespace mq::storage
