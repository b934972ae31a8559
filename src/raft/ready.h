// Ready: what the core wants done, in the words of its driver. The core never does anything itself.
//
// A driver's turn: tick() and whatever came in, then take() until there is nothing more:
//   1. send the messages; they may leave at once (the core holds back those that may not)
//   2. start the write, if there is one: hard state, then snapshot, then entries; each step durable before the next.
//      When all is durable: persisted(). There is never more than one under way; what comes meanwhile is the next one.
//   3. start the reads; answer each with loaded()
//   4. apply the entries; then answer the reads (readsReady) from the state machine
#pragma once
#include <optional>
#include <vector>

#include "raft/messages.h"
#include "raft/read_index.h"
#include "raft/types.h"

namespace mq::raft {

struct Install {
  SnapshotInfo snapshot;
  Buffer data;
};

struct Write {
  uint64_t number = 0;
  std::optional<HardState> hardState;
  std::optional<Install> install;  // replaces log and state machine
  std::vector<Entry> append;       // the first one may replace a suffix
};

// Entries [from, end) up to about bytesMax, at least one, for a follower; for kNoNode: to apply.
struct LogRead {
  uint64_t number = 0;
  NodeId target = kNoNode;
  int64_t from = 0;
  int64_t end = 0;
  size_t bytesMax = 0;
};

// Bytes [offset, offset + count) of a snapshot.
struct SnapshotRead {
  uint64_t number = 0;
  NodeId target = kNoNode;
  SnapshotId id;
  uint64_t offset = 0;
  size_t count = 0;
};

struct Ready {
  std::vector<Message> messages;
  std::optional<Write> write;
  std::vector<LogRead> reads;
  std::vector<SnapshotRead> snapshotReads;
  std::vector<Entry> apply;  // committed and durable here, each once, in order
  std::vector<ReadId> readsReady;
  std::vector<ReadId> readsFailed;  // ask the next leader

  bool isEmpty() const {
    return messages.empty() && !write && reads.empty() && snapshotReads.empty() && apply.empty() &&
           readsReady.empty() && readsFailed.empty();
  }
};

}  // namespace mq::raft
