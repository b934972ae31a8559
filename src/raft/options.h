// What may be tuned. The same at every member: a receiver drops what is larger than its own entryBytesMax,
// batchBytesMax, snapshotChunkBytes or snapshotBytesMax, and stickiness rests on one electionTimeout.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/types.h"

namespace mq::raft {

struct Options {
  // A follower that hears nothing waits [electionTimeout, 2 * electionTimeout), drawn anew each time. A leader that a
  // majority has not answered for this long steps down; what was sent and not answered for this long is sent again.
  Duration electionTimeout = 300ms;
  Duration heartbeat = 60ms;

  size_t entryBytesMax = 16_MiB;        // of data in one entry
  size_t batchBytesMax = 1_MiB;         // cost of the entries of one message, unless a single one is larger
  size_t windowBytesMax = 8_MiB;        // sent to one follower and not acknowledged
  size_t windowMessagesMax = 32;        //   the same in messages
  size_t uncommittedBytesMax = 32_MiB;  // proposed here and not committed; propose() refuses beyond
  size_t tailBytesMax = 8_MiB;          // entries that are safe on disk and still kept in memory
  size_t unsyncedBytesMax = 64_MiB;     // entries in memory that are not on disk yet; a follower takes no more
  size_t writeBytesMax = 8_MiB;         // cost of the entries of one Write, unless a single one is larger
  size_t applyBytesMax = 4_MiB;         // the same of one Ready's entries to apply
  size_t snapshotChunkBytes = 1_MiB;
  uint64_t snapshotBytesMax = 1_GiB;  // assembled in memory at the receiver
  size_t readsMax = 10'000;           // reads under way
  int64_t promotionLagMax = 1'000;    // entries that an observer may lack when it becomes a voter
};

}  // namespace mq::raft
