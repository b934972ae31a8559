// Progress: what a leader knows of one follower, and how much it may send it.
//
//   probe      where the logs part is not known: one message, then the answer
//   replicate  messages follow each other up to the window
//   snapshot   what it needs next is no longer in the log: one chunk, then the answer
//
//   probe -> replicate       an append was accepted
//   replicate -> probe       one was refused, or not answered in time
//   probe -> snapshot        the log does not reach back far enough
//   snapshot -> probe        it acknowledged more than the log lacks
#pragma once
#include <algorithm>
#include <deque>
#include <optional>

#include "raft/options.h"
#include "raft/types.h"

namespace mq::raft {

class Progress {
 public:
  enum class State { probe, replicate, snapshot };

  // A snapshot on its way.
  struct Transfer {
    SnapshotInfo snapshot;
    uint64_t next = 0;  // offset of the chunk to send
  };

  Progress(Replica replica, int64_t next, Instant now) : replica(replica), next(next), heardAt(now) {}

  Replica replica;
  int64_t match = 0;  // its log equals ours up to here, on its disk
  int64_t next;       // the first entry to send
  int64_t commitTold = 0;
  int64_t roundConfirmed = 0;
  Instant heardAt;                   // the last answer in this term
  uint64_t reading = 0;              // number of the read from disk that is under way for it; 0: none
  std::optional<Transfer> transfer;  // in state snapshot

  State state() const { return state_; }
  size_t windowBytes() const { return windowBytes_; }
  size_t windowMessages() const { return window_.size(); }

  void probe();  // from what it is known to have
  void beginSnapshot(SnapshotInfo snapshot);

  bool maySend(const Options& options) const;
  void sentAppend(int64_t end, size_t bytes, Instant now);  // entries [next, end)
  void sentChunk(Instant now) { awaitedSince_ = now; }
  void pause(Instant now);  // what it needs cannot be read now

  // Answers. Those that tell nothing new, being late or repeated, change nothing.
  void accepted(int64_t index);
  // `retry`: the entry before which to try again; from our log and the hint.
  void refused(int64_t index, int64_t retry);
  void chunkTaken(uint64_t next);

  // What was sent so long ago is taken for lost.
  void giveUp(Instant now, Duration patience);

 private:
  struct Sent {
    int64_t last;
    size_t bytes;
    Instant at;
  };
  void clearWindow();

  State state_ = State::probe;
  std::deque<Sent> window_;  // in replicate
  size_t windowBytes_ = 0;
  std::optional<Instant> awaitedSince_;  // in probe and snapshot: when what is to be answered was sent
  Sent probed_{};                        // in probe: that
};

}  // namespace mq::raft
