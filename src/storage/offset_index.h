// The offset index (`.index`) of a segment: sparse, sorted, from offset to position in the `.log`.
//
//   entry, 8 bytes, big endian:   @0 int32 offset - base   @4 int32 position
//
// The offset is the *last* one of the batch that starts at the position. An entry is made for a batch when more than
// index.interval.bytes were appended since the last entry, never for the first batch: so positions are above 0 and both
// columns grow strictly. Source: Kafka's OffsetIndex and LogSegment.append.
#pragma once
#include <string>
#include <vector>

#include "storage/index_file.h"

namespace mq::storage {

struct OffsetIndexEntry {
  static constexpr size_t kBytes = 8;
  Offset offset;
  uint64_t position = 0;

  void encode(uint8_t* into, Offset base) const;
  static OffsetIndexEntry decode(const uint8_t* from, Offset base);
  friend bool operator==(const OffsetIndexEntry&, const OffsetIndexEntry&) = default;
};

using OffsetIndex = IndexFile<OffsetIndexEntry>;

// Good entries grow strictly in offset and position, offsets in [base, end), positions in (0, logSize).
DecodedIndex<OffsetIndexEntry> decodeOffsetIndex(Bytes file, Offset base, Offset end, uint64_t logSize);
Buffer encodeIndex(const std::vector<OffsetIndexEntry>& entries, Offset base);

}  // namespace mq::storage
