// The records of __consumer_offsets, in Kafka's formats, so that Kafka's own decoders print them.
// Key: int16 type, then fields; value: int16 version, then fields; no value deletes the key.
#pragma once
#include <string_view>
#include <variant>

#include "coordinator/state_machine.h"
#include "wire/group_metadata_value.h"
#include "wire/offset_commit_value.h"

namespace mq::coordinator {

struct OffsetKey {
  std::string group;
  std::string topic;
  int32_t partition = 0;
};
struct GroupKey {
  std::string group;
};
// monostate: of a type that this version does not know.
using GroupRecordKey = std::variant<std::monostate, OffsetKey, GroupKey>;

LogRecord offsetRecord(const OffsetKey& key, const wire::OffsetCommitValue& value);
LogRecord offsetTombstone(const OffsetKey& key);
LogRecord groupRecord(std::string_view group, const wire::GroupMetadataValue& value);
LogRecord groupTombstone(std::string_view group);

Result<GroupRecordKey> readGroupKey(Bytes key);
Result<wire::OffsetCommitValue> readOffset(Bytes value);
Result<wire::GroupMetadataValue> readGroup(Bytes value);

}  // namespace mq::coordinator
