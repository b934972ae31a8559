// The core of compaction: which records of a log stay, and what their batches become. Pure: batches in, batches out; no
// file, clock or thread. clean_job.h walks the files with it, compactor.h decides when.
//
// A clean makes two walks:
//   KeyPass     over the dirty part: the last offset of every key, into a KeyMap of bounded memory. When the map is
//   full
//               the clean covers what was mapped, and the rest is left to the next;
//   FilterPass  over everything from the log start to the last offset mapped: batch by batch kept as it is, rewritten
//               or dropped. Offsets, order, codec, times and producer fields stay.
//
// What stays (Kafka's Cleaner, MemoryRecords.filterTo and KIP-534):
//   record      the last of its key; if that is a tombstone (null value; an empty value is none), until the delete
//               horizon of its batch has passed. Without a key: never
//   aborted     nothing of it
//   marker      while a batch of its transaction was met in this walk, and then until its horizon has passed
//   horizon     now + delete.retention.ms, put into a batch (attribute bit 6) that has a tombstone, or is a marker
//               without data, by the first clean that meets it as such; it is not moved later
//   batch       without records, if it is the last of a live producer (sequence and epoch of it) or the last below the
//               first uncleanable offset (so that the log keeps its end)
// Unlike Kafka a marker is never emptied: whole or gone. An empty one would tell recovery nothing.
#pragma once
#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "base/types.h"
#include "record/batch.h"
#include "record/compression.h"
#include "storage/transaction_index.h"

namespace mq::storage {

// Key → last offset. Holds 128-bit hashes (XXH3, seeded anew for each clean, so that nobody can prepare two keys that
// look like one), not keys: its memory is given by the number of places alone.
class KeyMap {
 public:
  static constexpr size_t kPlaceBytes = 24;

  // At most places * loadFactor keys, and at least one. Untouched places cost no memory.
  KeyMap(size_t places, double loadFactor, uint64_t seed);

  bool put(Bytes key, Offset offset);  // false: the key is not there and there is no room for it
  Offset find(Bytes key) const;        // -1: not there
  size_t size() const { return size_; }

 private:
  struct Hash {
    uint64_t low = 0, high = 0;
    friend bool operator==(const Hash&, const Hash&) = default;
  };
  struct Place {
    Hash hash;
    uint64_t offset = 0;  // + 1; 0: free
  };
  static_assert(sizeof(Place) == kPlaceBytes);
  struct Free {
    void operator()(Place* places) const { std::free(places); }
  };
  Hash hashOf(Bytes key) const;
  size_t placeOf(const Hash& hash) const;  // its own, or the free one where it would go

  size_t count_;
  size_t sizeMax_;
  uint64_t seed_;
  size_t size_ = 0;
  std::unique_ptr<Place[], Free> places_;
};

// Follows a walk over all batches of a range, in order, and tells what belongs to aborted transactions.
class TransactionWalk {
 public:
  // Every aborted transaction that overlaps the range, in any order.
  explicit TransactionWalk(std::vector<AbortedTransaction> aborted);

  bool isAborted(const record::BatchView& data);  // of each batch that is not a control batch
  struct Marker {
    bool isBare = false;                        // no batch of its transaction was met
    std::optional<AbortedTransaction> aborted;  // what the transaction index has to keep for it
  };
  Result<Marker> marker(const record::BatchView& control, record::Workspace& workspace);  // of each control batch

 private:
  struct Aborting {
    AbortedTransaction entry;
    bool met = false;
  };
  void advance(Offset upTo);

  std::vector<AbortedTransaction> aborted_;  // by first offset
  size_t next_ = 0;
  std::map<ProducerId, Aborting> aborting_;
  std::set<ProducerId> committing_;
};

class KeyPass {
 public:
  // Records below `from` are not mapped.
  KeyPass(KeyMap& keys, std::vector<AbortedTransaction> aborted, Offset from);

  // A whole batch, checksum taken. False: the map is full, the pass is over. Errors: corruptMessage, messageTooLarge.
  Result<bool> add(const record::BatchView& batch, record::Workspace& workspace);
  // Everything below `offset` has been added, gaps included.
  void reached(Offset offset);
  Offset end() const { return end_; }  // all records in [from, end) are in the map

 private:
  KeyMap& keys_;
  TransactionWalk transactions_;
  Offset from_;
  Offset end_;
};

struct LastOfProducer {
  Offset lastOffset{-1};  // of its last data batch; -1: its last one was a marker
  int16_t epoch = -1;
};

struct FilterRules {
  WallMs now;
  int64_t deleteRetentionMs = 0;
  Offset mapped;       // end() of the KeyPass
  Offset uncleanable;  // the batch that ends here is kept
  std::map<ProducerId, LastOfProducer> producers;
};

class FilterPass {
 public:
  enum class Fate { kept, rewritten, dropped };
  struct Figures {
    uint64_t recordsRead = 0;
    uint64_t recordsKept = 0;
    uint64_t keyless = 0;  // dropped because they had no key
  };

  FilterPass(const KeyMap& keys, std::vector<AbortedTransaction> aborted, FilterRules rules);

  // A whole batch, checksum taken. rewritten: the new one is appended to `out`. Errors as KeyPass::add.
  Result<Fate> filter(const record::BatchView& batch, record::Workspace& workspace, Buffer& out);
  // Aborted transactions whose markers were kept since the last call, in the order of the markers.
  std::vector<AbortedTransaction> takeAborted();
  const Figures& figures() const { return figures_; }

 private:
  Result<Fate> filterMarker(const record::BatchView& batch, record::Workspace& workspace, Buffer& out);
  Result<Fate> filterData(const record::BatchView& batch, record::Workspace& workspace, Buffer& out);
  bool isLastOfProducer(const record::BatchView& batch) const;
  bool staysEmpty(const record::BatchView& batch) const;

  const KeyMap& keys_;
  TransactionWalk transactions_;
  FilterRules rules_;
  std::vector<AbortedTransaction> abortedKept_;
  Figures figures_;
};

}  // namespace mq::storage
