// History: what the simulated clients did and were told, and whether what a cluster holds at the end agrees with it.
//
//   acked-present   every acknowledged record is there, at the offset that was acknowledged
//   unique          a record of an idempotent producer is there once, whatever was retried
//   order           those of one idempotent producer lie in the order of sending
//   no-phantom      nothing is there that was not sent to that partition, and every byte of it as it was sent
//   gapless         offsets have no holes, from the log start to the high watermark
//   stable          what any reader was shown stays, at its offset
//   start           the log start is at least what was acknowledged and at most what was asked for
//   topics          created ones are there, deleted ones are not
//
// A violation is thrown as kj::Exception that begins with the check's name. One thread, no I/O.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/types.h"

namespace mq::sim {

// Number of a record: its producer and how manieth it is there.
struct RecordId {
  uint32_t producer = 0;
  uint32_t number = 0;
  friend auto operator<=>(const RecordId&, const RecordId&) = default;
};

// The record's value: says who it is, filled up to a length that follows from it, with bytes that follow from it.
std::string valueOf(RecordId id);
// nullopt: no producer made these bytes.
std::optional<RecordId> readValue(Bytes value);

struct StoredRecord {
  int64_t offset = 0;
  RecordId id;
};

struct FinalPartition {
  int64_t logStart = 0;
  int64_t highWatermark = 0;
  std::vector<StoredRecord> records;  // from the log start
};

class History {
 public:
  void creating(const std::string& topic);
  void created(const std::string& topic);
  void deleting(const std::string& topic);
  void deleted(const std::string& topic);
  bool mayBeDeleted(const std::string& topic) const;
  std::vector<std::string> livingTopics() const;  // created and not being deleted

  void sending(RecordId id, const TopicPartition& to, bool idempotent);
  void acknowledged(RecordId id, int64_t offset);
  void seen(const TopicPartition& partition, const StoredRecord& record);  // by a reader, at any time
  void trimming(const TopicPartition& partition, int64_t offset);
  void trimmed(const TopicPartition& partition, int64_t logStart);
  bool mayBeTrimmed(const TopicPartition& partition, int64_t offset) const;

  // All partitions of the topics that are there.
  void check(const std::map<TopicPartition, FinalPartition>& cluster) const;

  uint64_t sentRecords() const { return sent_.size(); }
  uint64_t ackedRecords() const { return acked_; }
  uint64_t seenRecords() const;

 private:
  struct Sent {
    TopicPartition to;
    bool idempotent = false;
    int attempts = 0;
    std::optional<int64_t> ackedAt;
  };
  struct Topic {
    bool created = false, deleting = false, deleted = false;
  };
  struct Trim {
    int64_t asked = 0, acknowledged = 0;
  };

  void checkPartition(const TopicPartition& name, const FinalPartition& partition) const;

  std::map<RecordId, Sent> sent_;
  uint64_t acked_ = 0;
  std::map<std::string, Topic> topics_;
  std::map<TopicPartition, std::map<int64_t, RecordId>> seen_;
  std::map<TopicPartition, Trim> trims_;
};

}  // namespace mq::sim
