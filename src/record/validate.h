// What the leader checks before it appends a produced batch, all of it, once: followers and readers rely on it.
//
// The answer, take it or refuse it, is Kafka's for the same bytes. Where Kafka stores what its own readers cannot use,
// or fails with "unknown", we refuse with a reason:
//   - offset deltas must be 0, 1, 2, ... (Kafka stores others as sent, or repairs them if the batch is compressed)
//   - a transactional batch must have a producer id
//   - an unknown codec, or a payload its codec cannot read, is INVALID_RECORD: the CRC was right, so sending it again
//     cannot help, which CORRUPT_MESSAGE would suggest
// Nothing is allocated for an uncompressed batch; a compressed one is decompressed into the workspace, within a limit.
#pragma once
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/types.h"
#include "record/batch.h"
#include "record/compression.h"

namespace mq::record {

// Who wrote the batch. Only the broker's own coordinators write control batches.
enum class Origin : uint8_t { client, coordinator };

struct ValidationRules {
  Origin origin = Origin::client;
  size_t batchBytesMax = 1'048'588;                                    // max.message.bytes, of the batch as sent
  size_t plainBytesMax = kPlainBytesMax;                               // of its records decompressed
  TimestampType timestampType = TimestampType::createTime;             // message.timestamp.type
  int64_t timestampBeforeMaxMs = std::numeric_limits<int64_t>::max();  // message.timestamp.before.max.ms
  int64_t timestampAfterMaxMs = 3'600'000;                             // message.timestamp.after.max.ms
  WallMs now{0};
  bool keyRequired = false;  // the topic is compacted
  bool zstdAllowed = true;   // false for Produce below version 7
};

// What the append needs to know, and only a look at every record tells. With TimestampType::logAppendTime all times
// are `now`.
struct BatchFacts {
  size_t sizeBytes = 0;  // of the batch; bytes after it (a cut second batch, which Kafka ignores) are not part
  int32_t recordCount = 0;
  WallMs firstTimestamp = kNoTimestamp;  // of the first record
  WallMs lastTimestamp = kNoTimestamp;   // of the last record
  WallMs maxTimestamp = kNoTimestamp;
  int32_t maxTimestampOffsetDelta = 0;  // of the first record that has it
  Bytes plainRecords;                   // uncompressed: in the batch or in the workspace, until that is used again
  // The header says something else than the topic or the records do about time, and storedForm() will rewrite it.
  bool timestampsDiffer = false;
};

// A record that alone is at fault (INVALID_TIMESTAMP, or INVALID_RECORD for a missing key), as Produce v8 names them.
struct RecordError {
  int32_t index;  // in the batch
  std::string message;
};
inline constexpr size_t kRecordErrorsMax = 100;  // more are not listed

// `bytes` is what one partition of a Produce request carries. `recordErrors`, if given, gets the records at fault.
Result<BatchFacts> validateProduceBatch(Bytes bytes, const ValidationRules& rules, Workspace& workspace,
                                        std::vector<RecordError>* recordErrors = nullptr);

}  // namespace mq::record
