// Lag: how far a group is behind the end of what it reads, in records and in time.
//
//   records   end (high watermark) minus the committed offset, or minus the start of the log where retention has taken
//             what the group had not read
//   time      now minus the append time of the first record that is not committed; 0 when there is none. A topic of
//             LogAppendTime keeps that time; of others the batch's largest time is taken, which its producer gave.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "cli/group_admin.h"

namespace mq::cli {

struct PartitionLag {
  std::optional<int64_t> committed;  // none: nothing is committed
  std::optional<int64_t> end;        // none: the topic or its leader is gone
  std::optional<int64_t> records;    // none: not known
  std::optional<int64_t> ms;
  std::string problem;  // why something is not known, for people
};
using Lags = std::map<TopicPartition, PartitionLag>;

// Of all partitions that are committed or in `also` (assigned, but nothing committed yet).
Lags lagsOf(Client& client, const StoredOffsets& stored, const std::set<TopicPartition>& also, int64_t nowMs);

struct TotalLag {
  int64_t records = 0;
  std::optional<int64_t> ms;  // the largest; none: not known of any
  size_t unknown = 0;         // partitions that are in neither
};
TotalLag totalOf(const Lags& lags);

std::string secondsText(std::optional<int64_t> ms);  // "1.234"; "-" for none

// The time of the first record from `offset` on in the batches of a fetch; control batches are no records.
struct FirstTime {
  std::optional<int64_t> ms;
  bool nothingLeft = false;  // up to `end` there are only control batches
};
FirstTime timeOfFirst(Bytes batches, int64_t offset, int64_t end);

}  // namespace mq::cli
