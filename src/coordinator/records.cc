#include "coordinator/records.h"

#include "base/check.h"
#include "wire/codec.h"
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

}  // namespace

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
    default: return GroupRecordKey();
  }
}

Result<wire::OffsetCommitValue> readOffset(Bytes value) { return readValue<wire::OffsetCommitValue>(value); }
Result<wire::GroupMetadataValue> readGroup(Bytes value) { return readValue<wire::GroupMetadataValue>(value); }

}  // namespace mq::coordinator
