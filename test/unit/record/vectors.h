// The golden vectors as plain values, and a few helpers that tests of this folder share.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "record/batch.h"
#include "record/records.h"

namespace mq::record::test {

struct ExpectedRecord {
  int64_t offset = 0;
  int64_t timestamp = 0;
  std::optional<Buffer> key;
  std::optional<Buffer> value;
  std::vector<std::pair<std::string, std::optional<Buffer>>> headers;
  friend bool operator==(const ExpectedRecord&, const ExpectedRecord&) = default;
};

struct ExpectedBatch {  // of magic 2; older ones have no more than `position`, `sizeBytes` and `magic`
  size_t position = 0;
  size_t sizeBytes = 0;
  int magic = 0;
  int64_t baseOffset = 0;
  int32_t leaderEpoch = 0;
  uint32_t crc = 0;
  int attributes = 0;
  int32_t lastOffsetDelta = 0;
  int64_t baseTimestamp = 0;
  int64_t maxTimestamp = 0;
  int64_t producerId = 0;
  int producerEpoch = 0;
  int32_t baseSequence = 0;
  int32_t recordCount = 0;
  int64_t lastOffset = 0;
  int64_t nextOffset = 0;
  int32_t lastSequence = 0;
  bool isTransactional = false;
  bool isControl = false;
  std::optional<int64_t> deleteHorizon;
  std::string compression;
  bool isLogAppendTime = false;
  bool hasError = false;
  std::vector<ExpectedRecord> records;
  std::string controlType;  // of the first record
  int coordinatorEpoch = -1;
};

struct BatchVector {
  std::string name;
  Buffer bytes;
  std::vector<ExpectedBatch> batches;
  size_t ignoredTail = 0;
  int produceError = 0;
  std::vector<int32_t> recordErrors;
  bool storedAsSent = true;
};

struct VarintVector {
  std::string type;
  Buffer bytes;
  int64_t value = 0;
  size_t used = 0;
  bool decodeOnly = false;
  bool hasError = false;
};

std::vector<BatchVector> batchVectors();
const BatchVector& batchVector(const std::vector<BatchVector>& all, std::string_view name);
std::vector<VarintVector> varintVectors();
std::vector<std::pair<Buffer, uint32_t>> crcVectors();

// All records of the batch; checks that it reads to its end.
std::vector<ExpectedRecord> recordsOf(BatchView batch, Workspace& workspace);
ExpectedRecord copyOf(const RecordView& record);

// Random but for its size classes: empty, tiny, some large; half of it text that compresses.
Buffer randomBytes(Prng& random, size_t sizeMax);
std::vector<ExpectedRecord> randomRecords(Prng& random, int64_t baseOffset, size_t countMax, size_t valueBytesMax);
Buffer buildBatch(const std::vector<ExpectedRecord>& records, Codec codec, Workspace& workspace);

}  // namespace mq::record::test
