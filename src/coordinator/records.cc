#include "coordinator/records.h"

#include "base/check.h"
#include "wire/codec.h"
#include "wire/consumer_group_current_member_assignment_key.h"
#include "wire/consumer_group_member_metadata_key.h"
#include "wire/consumer_group_metadata_key.h"
#include "wire/consumer_group_regular_expression_key.h"
#include "wire/consumer_group_target_assignment_member_key.h"
#include "wire/consumer_group_target_assignment_metadata_key.h"
#include "wire/group_metadata_key.h"
#include "wire/legacy_offset_commit_key.h"
#include "wire/offset_commit_key.h"

namespace mq::coordinator {
namespace {

constexpr int16_t kGroupVersion = 3;
constexpr int16_t kOffsetVersion = 4;
constexpr int16_t kExpiringOffsetVersion = 1;  // the only one with an expiry of its own

template <class M>
Buffer encoded(const M& message, int16_t prefix, int16_t version) {
  Buffer bytes;
  ByteWriter(bytes).int16(prefix);
  auto done = wire::encode(message, version, bytes);
  MQ_CHECK(done.has_value(), done ? std::string() : done.failure().message);
  return bytes;
}

template <class M>
Buffer keyOf(const M& key) {
  return encoded(key, M::kRecordType, 0);
}

Buffer keyOf(const OffsetKey& key) {
  return keyOf(wire::OffsetCommitKey{.group = key.group, .topic = key.topic, .partition = key.partition});
}

Buffer groupKeyOf(std::string_view group) { return keyOf(wire::GroupMetadataKey{.group = std::string(group)}); }

template <class M>
Result<M> readValue(Bytes value) {
  ByteReader reader(value);
  int16_t version = reader.int16();
  if (!reader.ok() || version < M::kVersionMin || version > M::kVersionMax) {
    return failure(Error::invalidRecord, "a value of version {}", version);
  }
  return wire::decode<M>(reader, version);
}

template <class Key>
Buffer consumerKeyOf(std::string_view group) {
  return keyOf(Key{.groupId = std::string(group)});
}
template <class Key>
Buffer consumerKeyOf(std::string_view group, std::string_view member) {
  return keyOf(Key{.groupId = std::string(group), .memberId = std::string(member)});
}

template <class Key>
Result<GroupRecordKey> readConsumerKey(ByteReader& reader, ConsumerKey::Kind kind) {
  auto read = wire::decode<Key>(reader, 0);
  if (!read) return read.failure();
  ConsumerKey key{.kind = kind, .group = std::move(read->groupId)};
  if constexpr (requires { read->memberId; }) key.member = std::move(read->memberId);
  if constexpr (requires { read->regularExpression; }) key.member = std::move(read->regularExpression);
  return GroupRecordKey(std::move(key));
}

template <class Topics>
void write(const Assignment& assignment, Topics& into) {
  for (const auto& [topic, partitions] : assignment) {
    auto& row = into.emplace_back();
    row.topicId = topic;
    row.partitions.assign(partitions.begin(), partitions.end());
    if constexpr (requires { row.assignmentEpochs; }) row.assignmentEpochs.reset();
  }
}

using ConsumerMetadataKey = wire::ConsumerGroupMetadataKey;
using MemberKey = wire::ConsumerGroupMemberMetadataKey;
using TargetEpochKey = wire::ConsumerGroupTargetAssignmentMetadataKey;
using TargetKey = wire::ConsumerGroupTargetAssignmentMemberKey;
using CurrentKey = wire::ConsumerGroupCurrentMemberAssignmentKey;
using ExpressionKey = wire::ConsumerGroupRegularExpressionKey;

}  // namespace

LogRecord consumerGroupRecord(std::string_view group, const wire::ConsumerGroupMetadataValue& value) {
  return {consumerKeyOf<ConsumerMetadataKey>(group), encoded(value, 0, 0)};
}
LogRecord consumerGroupTombstone(std::string_view group) {
  return {consumerKeyOf<ConsumerMetadataKey>(group), std::nullopt};
}
LogRecord memberRecord(std::string_view group, std::string_view member,
                       const wire::ConsumerGroupMemberMetadataValue& value) {
  return {consumerKeyOf<MemberKey>(group, member), encoded(value, 0, 0)};
}
LogRecord memberTombstone(std::string_view group, std::string_view member) {
  return {consumerKeyOf<MemberKey>(group, member), std::nullopt};
}
LogRecord targetEpochRecord(std::string_view group, const wire::ConsumerGroupTargetAssignmentMetadataValue& value) {
  return {consumerKeyOf<TargetEpochKey>(group), encoded(value, 0, 0)};
}
LogRecord targetEpochTombstone(std::string_view group) { return {consumerKeyOf<TargetEpochKey>(group), std::nullopt}; }
LogRecord targetRecord(std::string_view group, std::string_view member, const Assignment& assignment) {
  wire::ConsumerGroupTargetAssignmentMemberValue value;
  write(assignment, value.topicPartitions);
  return {consumerKeyOf<TargetKey>(group, member), encoded(value, 0, 0)};
}
LogRecord targetTombstone(std::string_view group, std::string_view member) {
  return {consumerKeyOf<TargetKey>(group, member), std::nullopt};
}
LogRecord currentRecord(std::string_view group, std::string_view member, const CurrentAssignment& assignment) {
  wire::ConsumerGroupCurrentMemberAssignmentValue value;
  value.memberEpoch = assignment.epoch;
  value.previousMemberEpoch = assignment.previousEpoch;
  value.state = assignment.state;
  write(assignment.assigned, value.assignedPartitions);
  write(assignment.pending, value.partitionsPendingRevocation);
  return {consumerKeyOf<CurrentKey>(group, member), encoded(value, 0, 0)};
}
LogRecord currentTombstone(std::string_view group, std::string_view member) {
  return {consumerKeyOf<CurrentKey>(group, member), std::nullopt};
}

LogRecord offsetRecord(const OffsetKey& key, const wire::OffsetCommitValue& value) {
  int16_t version = value.expireTimestamp >= 0 ? kExpiringOffsetVersion : kOffsetVersion;
  return {keyOf(key), encoded(value, version, version)};
}

LogRecord offsetTombstone(const OffsetKey& key) { return {keyOf(key), std::nullopt}; }

LogRecord groupRecord(std::string_view group, const wire::GroupMetadataValue& value) {
  return {groupKeyOf(group), encoded(value, kGroupVersion, kGroupVersion)};
}

LogRecord groupTombstone(std::string_view group) { return {groupKeyOf(group), std::nullopt}; }

Result<GroupRecordKey> readGroupKey(Bytes key) {
  ByteReader reader(key);
  int16_t type = reader.int16();
  if (!reader.ok()) return failure(Error::invalidRecord, "a key of {} bytes", key.size());
  switch (type) {
    case wire::LegacyOffsetCommitKey::kRecordType:  // the same fields
    case wire::OffsetCommitKey::kRecordType: {
      auto read = wire::decode<wire::OffsetCommitKey>(reader, 0);
      if (!read) return read.failure();
      return GroupRecordKey(OffsetKey{std::move(read->group), std::move(read->topic), read->partition});
    }
    case wire::GroupMetadataKey::kRecordType: {
      auto read = wire::decode<wire::GroupMetadataKey>(reader, 0);
      if (!read) return read.failure();
      return GroupRecordKey(GroupKey{std::move(read->group)});
    }
    case ConsumerMetadataKey::kRecordType:
      return readConsumerKey<ConsumerMetadataKey>(reader, ConsumerKey::Kind::group);
    case MemberKey::kRecordType: return readConsumerKey<MemberKey>(reader, ConsumerKey::Kind::member);
    case TargetEpochKey::kRecordType: return readConsumerKey<TargetEpochKey>(reader, ConsumerKey::Kind::targetEpoch);
    case TargetKey::kRecordType: return readConsumerKey<TargetKey>(reader, ConsumerKey::Kind::target);
    case CurrentKey::kRecordType: return readConsumerKey<CurrentKey>(reader, ConsumerKey::Kind::current);
    case ExpressionKey::kRecordType: return readConsumerKey<ExpressionKey>(reader, ConsumerKey::Kind::expression);
    default: return GroupRecordKey();
  }
}

Result<wire::OffsetCommitValue> readOffset(Bytes value) { return readValue<wire::OffsetCommitValue>(value); }

CommittedOffset committedOffset(const wire::OffsetCommitValue& value) {
  return {.offset = Offset(value.offset),
          .leaderEpoch = LeaderEpoch(value.leaderEpoch),
          .committed = WallMs(value.commitTimestamp),
          .expires = WallMs(value.expireTimestamp),
          .metadata = value.metadata};
}

Result<wire::GroupMetadataValue> readGroup(Bytes value) { return readValue<wire::GroupMetadataValue>(value); }

template <class Value>
Result<Value> readConsumer(Bytes value) {
  return readValue<Value>(value);
}
template Result<wire::ConsumerGroupMetadataValue> readConsumer(Bytes);
template Result<wire::ConsumerGroupMemberMetadataValue> readConsumer(Bytes);
template Result<wire::ConsumerGroupTargetAssignmentMetadataValue> readConsumer(Bytes);
template Result<wire::ConsumerGroupTargetAssignmentMemberValue> readConsumer(Bytes);
template Result<wire::ConsumerGroupCurrentMemberAssignmentValue> readConsumer(Bytes);

}  // namespace mq::coordinator
