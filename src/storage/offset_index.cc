#include "storage/offset_index.h"

#include <algorithm>

#include <fmt/format.h>

namespace mq::storage {

void OffsetIndexEntry::encode(uint8_t* into, Offset base) const {
  storeBigEndian(into, static_cast<int32_t>(offset - base));
  storeBigEndian(into + 4, static_cast<int32_t>(position));
}

OffsetIndexEntry OffsetIndexEntry::decode(const uint8_t* from, Offset base) {
  return {base + loadBigEndian<int32_t>(from), static_cast<uint64_t>(loadBigEndian<uint32_t>(from + 4))};
}

DecodedIndex<OffsetIndexEntry> decodeOffsetIndex(Bytes file, Offset base, Offset end, uint64_t logSize) {
  OffsetIndexEntry before{base - 1, 0};
  return decodeEntries<OffsetIndexEntry>(file, base, [&](const OffsetIndexEntry& entry) -> std::string {
    if (entry.offset <= before.offset || entry.position <= before.position) return "entries do not grow";
    if (entry.offset >= end) return fmt::format("offset {} is past the log's end {}", entry.offset, end);
    if (entry.position >= logSize)
      return fmt::format("position {} is past the log's {} bytes", entry.position, logSize);
    before = entry;
    return {};
  });
}

Buffer encodeIndex(const std::vector<OffsetIndexEntry>& entries, Offset base) { return encodeEntries(entries, base); }

}  // namespace mq::storage
