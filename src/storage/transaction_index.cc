#include "storage/transaction_index.h"

#include <fmt/format.h>

namespace mq::storage {
namespace {
constexpr int16_t kVersion = 0;
}

void AbortedTransaction::encode(uint8_t* into, Offset) const {
  storeBigEndian(into, kVersion);
  storeBigEndian(into + 2, producer.value());
  storeBigEndian(into + 10, first.value());
  storeBigEndian(into + 18, last.value());
  storeBigEndian(into + 26, lastStable.value());
}

AbortedTransaction AbortedTransaction::decode(const uint8_t* from, Offset) {
  return {ProducerId(loadBigEndian<int64_t>(from + 2)), Offset(loadBigEndian<int64_t>(from + 10)),
          Offset(loadBigEndian<int64_t>(from + 18)), Offset(loadBigEndian<int64_t>(from + 26))};
}

DecodedIndex<AbortedTransaction> decodeTransactionIndex(Bytes file, Offset base, Offset end) {
  Offset before = base - 1;
  size_t position = 0;
  return decodeEntries<AbortedTransaction>(file, base, [&](const AbortedTransaction& entry) -> std::string {
    int16_t version = loadBigEndian<int16_t>(file.data() + position);
    position += AbortedTransaction::kBytes;
    if (version != kVersion) return fmt::format("version {}, not {}", version, kVersion);
    if (entry.producer.value() < 0) return fmt::format("producer id {}", entry.producer);
    if (entry.first.value() < 0 || entry.first > entry.last)
      return fmt::format("a transaction from {} to {}", entry.first, entry.last);
    if (entry.last <= before) return "entries do not grow";
    if (entry.last >= end) return fmt::format("offset {} is past the log's end {}", entry.last, end);
    if (entry.lastStable.value() < 0 || entry.lastStable > entry.last + 1)
      return fmt::format("last stable offset {} for a marker at {}", entry.lastStable, entry.last);
    before = entry.last;
    return {};
  });
}

Buffer encodeIndex(const std::vector<AbortedTransaction>& entries) { return encodeEntries(entries, Offset(0)); }

bool collectAborted(const std::vector<AbortedTransaction>& entries, Offset first, Offset end,
                    std::vector<AbortedTransaction>& into) {
  for (const AbortedTransaction& entry : entries) {
    if (entry.overlaps(first, end)) into.push_back(entry);
    if (entry.lastStable >= end) return true;
  }
  return false;
}

}  // namespace mq::storage
