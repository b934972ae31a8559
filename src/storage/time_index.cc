#include "storage/time_index.h"

#include <fmt/format.h>

namespace mq::storage {

void TimeIndexEntry::encode(uint8_t* into, Offset base) const {
  storeBigEndian(into, timestamp.value());
  storeBigEndian(into + 8, static_cast<int32_t>(offset - base));
}

TimeIndexEntry TimeIndexEntry::decode(const uint8_t* from, Offset base) {
  return {WallMs(loadBigEndian<int64_t>(from)), base + loadBigEndian<int32_t>(from + 8)};
}

DecodedIndex<TimeIndexEntry> decodeTimeIndex(Bytes file, Offset base, Offset end) {
  TimeIndexEntry before{kNoTimestamp, base - 1};
  return decodeEntries<TimeIndexEntry>(file, base, [&](const TimeIndexEntry& entry) -> std::string {
    if (entry.timestamp <= before.timestamp || entry.offset <= before.offset) return "entries do not grow";
    if (entry.offset >= end) return fmt::format("offset {} is past the log's end {}", entry.offset, end);
    before = entry;
    return {};
  });
}

Buffer encodeIndex(const std::vector<TimeIndexEntry>& entries, Offset base) { return encodeEntries(entries, base); }

}  // namespace mq::storage
