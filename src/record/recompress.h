// Changing how a batch is stored without changing what it says: codec, timestamp type, max timestamp. Records are kept
// byte for byte, with offsets, producer fields and flags.
#pragma once
#include "base/bytes.h"
#include "base/error.h"
#include "record/batch.h"
#include "record/compression.h"
#include "record/validate.h"

namespace mq::record {

// compression.type of a topic.
struct Compression {
  enum class Kind : uint8_t {
    producer,   // as sent
    automatic,  // as sent, but lz4 if sent uncompressed and worth it: see kAutoBytesMin and kAutoGain
    fixed,      // always `codec`
  };
  Kind kind = Kind::producer;
  Codec codec = Codec::none;  // of fixed; none: uncompressed
  Level level;                // of fixed

  static std::optional<Compression> named(std::string_view name);  // "producer", "auto", "uncompressed", "gzip", ...
};

// automatic: batches with fewer bytes of records are left alone (what they save is less than a disk sector),
// and the records have to get smaller by at least 1/kAutoGain.
inline constexpr size_t kAutoBytesMin = 1024;
inline constexpr size_t kAutoGain = 8;

struct StoreRules {
  Compression compression;
  TimestampType timestampType = TimestampType::createTime;
  size_t batchBytesMax = 1'048'588;  // max.message.bytes, of the batch as stored
};

// The validated batch as the topic stores it, but for base offset and leader epoch, which are the caller's to set in
// what comes back: the batch itself, changed in place where need be, or `rewritten`. `batch` may be followed by bytes
// that are not part of it. messageTooLarge if it became too large: nothing may be appended then.
// `facts` are what validateProduceBatch() said of it with the same workspace, which has not been used since.
Result<MutableBytes> storedForm(MutableBytes batch, const BatchFacts& facts, const StoreRules& rules,
                                Workspace& workspace, Buffer& rewritten);

// Appends to `out` the batch under another codec, header otherwise as it was. `plain` are its uncompressed records.
void rebuild(BatchView batch, Bytes plain, Codec codec, Level level, Workspace& workspace, Buffer& out);

// Appends to `out` what compaction leaves of a batch without records: its offsets, producer, sequence and times. As
// Kafka's, it has no codec, no delete horizon and no base timestamp.
void emptied(BatchView batch, Buffer& out);

// Appends to `out` an uncompressed copy, for clients that cannot read the codec. Errors as decompress(), and then
// `out` is unchanged.
Result<void> decompressed(BatchView batch, Workspace& workspace, Buffer& out, size_t plainBytesMax = kPlainBytesMax);

}  // namespace mq::record
