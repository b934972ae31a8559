// Disk: what a node of the simulation has written, as controller/raft_log keeps it: hard state, then snapshot, then one
// frame of entries, each durable before the next.
//
// A crash in the middle of a write keeps some of these steps: none, or all although nobody was told. A frame is there
// or not; a torn one is cut by recovery.
#pragma once
#include <optional>
#include <vector>

#include "base/random.h"
#include "raft/ready.h"

namespace mq::raft::sim {

class Disk {
 public:
  HardState hardState;
  SnapshotInfo snapshot;
  Buffer snapshotData;
  Position logStart;
  std::vector<Entry> log;  // behind logStart

  int64_t lastIndex() const { return logStart.index + static_cast<int64_t>(log.size()); }
  std::optional<int64_t> termAt(int64_t index) const;
  std::vector<Entry> read(int64_t from, int64_t end, size_t bytesMax) const;  // none: not in the log

  void begin(Write write) { writing_ = std::move(write); }
  bool isWriting() const { return writing_.has_value(); }
  uint64_t finish();  // the write's number
  Write refuse();     // no space: only the hard state is written
  void crash(Prng& chance);
  // Planted: the disk did not tell the truth. What the last write added is gone.
  void forgetLastWrite();

  void saveSnapshot(SnapshotInfo info, Buffer data, int64_t keepFrom);

 private:
  void perform(int steps);

  std::optional<Write> writing_;
  struct Before {
    HardState hardState;
    Position logStart;
    std::vector<Entry> log;
  };
  std::optional<Before> before_;  // the last write, if it only appended
};

}  // namespace mq::raft::sim
