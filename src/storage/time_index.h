// The time index (`.timeindex`) of a segment: sparse, sorted, from timestamp to offset.
//
//   entry, 12 bytes, big endian:   @0 int64 timestamp   @8 int32 offset - base
//
// The timestamp is the largest so far in the segment, the offset the last one of the first batch that has it. An entry
// is made together with an offset index entry if the timestamp grew, and once more when the segment is sealed or
// closed: so timestamps grow strictly, offsets do too, and the last entry of a sealed segment is its largest timestamp.
// Source: Kafka's TimeIndex and LogSegment.
#pragma once
#include <vector>

#include "storage/index_file.h"
#include "storage/offset_index.h"

namespace mq::storage {

struct TimeIndexEntry {
  static constexpr size_t kBytes = 12;
  WallMs timestamp;
  Offset offset;

  void encode(uint8_t* into, Offset base) const;
  static TimeIndexEntry decode(const uint8_t* from, Offset base);
  friend bool operator==(const TimeIndexEntry&, const TimeIndexEntry&) = default;
};

using TimeIndex = IndexFile<TimeIndexEntry>;

// Good entries grow strictly in timestamp and offset, timestamps from 0, offsets in [base, end).
DecodedIndex<TimeIndexEntry> decodeTimeIndex(Bytes file, Offset base, Offset end);
Buffer encodeIndex(const std::vector<TimeIndexEntry>& entries, Offset base);

}  // namespace mq::storage
