// Checkpoint: offsets of partitions in one text file per log directory, Kafka's: recovery-point-, replication- (high
// watermarks) and log-start-offset-checkpoint:  "0\n" COUNT "\n" then COUNT lines "TOPIC PARTITION OFFSET\n".
// Pure. Bounded by the bytes given: the count is only compared with the lines that are there.
#pragma once
#include <map>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/types.h"

namespace mq::storage {

using Checkpoint = std::map<TopicPartition, Offset>;

std::string encodeCheckpoint(const Checkpoint& checkpoint);
// Errors: corruptMessage with the line: another version, a wrong count, a bad line, a partition twice, anything behind.
// An empty file is an empty checkpoint.
Result<Checkpoint> decodeCheckpoint(std::string_view text);

}  // namespace mq::storage
