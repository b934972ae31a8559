// LeaderEpochs: which leader epoch wrote which offsets of a partition: [epoch, its first offset], both growing
// strictly. Followers find by it where their log and their leader's part (KIP-101, KIP-279). Pure; the Log keeps the
// file.
//
// File `leader-epoch-checkpoint`, Kafka's text:  "0\n" COUNT "\n" then COUNT lines "EPOCH START\n".
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/types.h"

namespace mq::storage {

struct EpochStart {
  LeaderEpoch epoch;
  Offset start;
  friend bool operator==(const EpochStart&, const EpochStart&) = default;
};

struct EpochBoundary {
  LeaderEpoch epoch;  // the largest one at or below that asked for
  Offset end;         // behind its last record
  friend bool operator==(const EpochBoundary&, const EpochBoundary&) = default;
};

class LeaderEpochs {
 public:
  // A batch of `epoch` was or will be appended at `start`. True: a new entry (write the file). An epoch at or below the
  // latest changes nothing; entries that the new one contradicts (start at or above its start) go.
  bool assign(LeaderEpoch epoch, Offset start);
  std::optional<LeaderEpoch> latest() const;
  std::optional<LeaderEpoch> epochOf(Offset offset) const;  // nullopt: below the first entry
  // Where `epoch` ends here. The latest one ends at logEnd; one between two entries answers the lower one and its end;
  // one below the first answers itself and the first's start. nullopt: above the latest, or nothing is known.
  std::optional<EpochBoundary> endOffsetFor(LeaderEpoch epoch, Offset logEnd) const;
  // The log was cut: entries that start at or above `end` go. True: something changed.
  bool truncateFromEnd(Offset end);
  // The log now starts at `start`: entries wholly below it go, the one that covers it starts there. True: changed.
  bool truncateFromStart(Offset start);
  void clear() { entries_.clear(); }

  const std::vector<EpochStart>& entries() const { return entries_; }

  std::string encode() const;
  // Errors: corruptMessage with the line. An empty file is no entries.
  static Result<LeaderEpochs> decode(std::string_view text);

 private:
  std::vector<EpochStart> entries_;
};

}  // namespace mq::storage
