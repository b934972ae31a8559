// The records of __consumer_offsets, in Kafka's formats, so that Kafka's own decoders print them.
// Key: int16 type, then fields; value: int16 version, then fields; no value deletes the key.
#pragma once
#include <string_view>
#include <variant>

#include "coordinator/assignors.h"
#include "coordinator/committed_offsets.h"
#include "coordinator/state_machine.h"
#include "wire/consumer_group_current_member_assignment_value.h"
#include "wire/consumer_group_member_metadata_value.h"
#include "wire/consumer_group_metadata_value.h"
#include "wire/consumer_group_target_assignment_member_value.h"
#include "wire/consumer_group_target_assignment_metadata_value.h"
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
// Of a group in the consumer protocol: of the whole, or of one member.
struct ConsumerKey {
  enum class Kind : uint8_t { group, member, targetEpoch, target, current, expression };
  Kind kind = Kind::group;
  std::string group;
  std::string member;  // of expression: the expression
};
// monostate: of a type that this version does not know.
using GroupRecordKey = std::variant<std::monostate, OffsetKey, GroupKey, ConsumerKey>;

LogRecord offsetRecord(const OffsetKey& key, const wire::OffsetCommitValue& value);
LogRecord offsetTombstone(const OffsetKey& key);
LogRecord groupRecord(std::string_view group, const wire::GroupMetadataValue& value);
LogRecord groupTombstone(std::string_view group);

LogRecord consumerGroupRecord(std::string_view group, const wire::ConsumerGroupMetadataValue& value);
LogRecord consumerGroupTombstone(std::string_view group);
LogRecord memberRecord(std::string_view group, std::string_view member,
                       const wire::ConsumerGroupMemberMetadataValue& value);
LogRecord memberTombstone(std::string_view group, std::string_view member);
LogRecord targetEpochRecord(std::string_view group, const wire::ConsumerGroupTargetAssignmentMetadataValue& value);
LogRecord targetEpochTombstone(std::string_view group);
LogRecord targetRecord(std::string_view group, std::string_view member, const Assignment& assignment);
LogRecord targetTombstone(std::string_view group, std::string_view member);
struct CurrentAssignment {
  int32_t epoch = 0;
  int32_t previousEpoch = 0;
  int8_t state = 0;  // 0 stable, 1 partitions not given back, 2 partitions not free yet
  Assignment assigned;
  Assignment pending;  // to be given back
};
LogRecord currentRecord(std::string_view group, std::string_view member, const CurrentAssignment& assignment);
LogRecord currentTombstone(std::string_view group, std::string_view member);

Result<GroupRecordKey> readGroupKey(Bytes key);
Result<wire::OffsetCommitValue> readOffset(Bytes value);
CommittedOffset committedOffset(const wire::OffsetCommitValue& value);
Result<wire::GroupMetadataValue> readGroup(Bytes value);
template <class Value>  // one of the values of a consumer group
Result<Value> readConsumer(Bytes value);

}  // namespace mq::coordinator
