// The transaction index (`.txnindex`) of a segment: the aborted transactions whose abort marker lies in it. The file
// exists only where there is one.
//
//   entry, 34 bytes, big endian:   @0 int16 version 0   @2 int64 producer id   @10 int64 first offset
//                                  @18 int64 last offset (the marker's)   @26 int64 last stable offset
//
// The first offset may lie in an earlier segment. The last stable offset is the partition's just after the marker:
// every transaction that begins at or above it has its marker behind this one, so a search for aborted transactions
// below `end` may stop at the first entry whose last stable offset is at or above `end`. Entries are in marker order.
// Source: Kafka's TransactionIndex.
#pragma once
#include <vector>

#include "base/types.h"
#include "runtime/file.h"
#include "storage/offset_index.h"

namespace mq::storage {

struct AbortedTransaction {
  static constexpr size_t kBytes = 34;
  ProducerId producer = kNoProducer;
  Offset first;
  Offset last;
  Offset lastStable;

  void encode(uint8_t* into, Offset base) const;  // its offsets are absolute: the base is not used
  static AbortedTransaction decode(const uint8_t* from, Offset base);
  bool overlaps(Offset from, Offset end) const { return last >= from && first < end; }  // [from, end)
  friend bool operator==(const AbortedTransaction&, const AbortedTransaction&) = default;
};

using TransactionIndex = IndexFile<AbortedTransaction>;

// Good entries have version 0, first <= last, last in [base, end) and growing strictly, lastStable in [0, last + 1].
DecodedIndex<AbortedTransaction> decodeTransactionIndex(Bytes file, Offset base, Offset end);
Buffer encodeIndex(const std::vector<AbortedTransaction>& entries);

// Appends to `into` the entries that overlap [first, end), in file order. True: later segments need not be asked.
bool collectAborted(const std::vector<AbortedTransaction>& entries, Offset first, Offset end,
                    std::vector<AbortedTransaction>& into);

}  // namespace mq::storage
