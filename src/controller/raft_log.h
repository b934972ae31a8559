// RaftLog: the metadata log of one node on disk: entries, hard state (term, vote), snapshots. raft_log_format.h has the
// bytes and file names.
//
//   <data>/metadata/   state   0000000007.log  0000000008.log   00000000000000000042-3.snapshot
//                              sealed          active: frames, then zeros
//
// When append(), saveHardState(), saveSnapshot() or install() return, what they were given survives power loss. When
// one throws, the log is broken: what is on the disk is unknown, every later call throws, and only opening it anew (in
// another process) tells. So an (index, term) is never written twice. Not an error is a lack of space: room for the
// next frames is set aside as zeros before it is needed, so append() finds out before it has written anything.
//
// load() takes what a crash may leave behind, and nothing else:
//   - a torn last frame of the active segment is cut: its sync had not returned. (A damaged last frame looks the same,
//     unless the log was closed cleanly: then an empty frame stands behind it.)
//   - a bad frame with a whole one behind it, or in a sealed segment, is corruption; so is a missing segment, and a
//     missing state beside segments. load() throws a line with file, position and remedy, and changes nothing.
//   - a bad state copy beside a good one, a bad newest snapshot before which the log still reaches back: repaired.
// What was scanned may be only in the page cache, so load() writes the last frame again and syncs before it counts.
//
// The last two snapshots and the log behind the older one are kept. Blocking, one call at a time, any thread: its owner
// runs it in Pool::sync. Never destroyed with a call under way; the destructor writes nothing.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "controller/raft_log_format.h"
#include "runtime/file.h"
#include "runtime/logger.h"

namespace mq::controller {

struct RaftLogOptions {
  std::string directory;
  NodeId node{0};
  Uuid newDirectoryId;              // taken when the log is made; an existing one has its own
  bool mustExist = false;           // an empty or missing directory is refused, not made into a new log
  uint64_t segmentBytes = 4_MiB;    // an active segment of this size is sealed at the next append
  uint64_t reserveBytes = 256_KiB;  // zeros set aside behind the last frame, when there is space
};

enum class Space {
  plenty,  // the next frame has room, whatever happens to the disk
  low,     // written, but the disk is full and the reserve is being used up: write only what frees space
  none,    // not written
};

struct Snapshot {
  SnapshotId id;
  Buffer data;
};

class RaftLog {
 public:
  // Throws kj::Exception for what it cannot open; its description is one line for the operator.
  static std::unique_ptr<RaftLog> load(FileSystem& files, Logger& log, RaftLogOptions options);

  bool isNew() const { return isNew_; }  // made by this load()
  NodeId node() const { return state_.node; }
  const Uuid& directoryId() const { return state_.directory; }
  const HardState& hardState() const { return state_.hard; }
  int64_t firstIndex() const;  // of the entries that can be read; lastIndex() + 1 when there are none
  int64_t lastIndex() const { return last_.index; }
  int64_t lastTerm() const { return last_.term; }
  std::optional<int64_t> termAt(int64_t index) const;  // nullopt: before firstIndex() - 1 or past the end
  SnapshotId snapshot() const { return snapshots_.empty() ? SnapshotId() : snapshots_.back(); }
  uint64_t bytesSinceSnapshot() const { return bytesSinceSnapshot_; }

  // Entries [from, ...) up to `end` and about `bytesMax` bytes of data, at least one. `from` in [firstIndex(), end).
  std::vector<LogEntry> read(int64_t from, int64_t end, size_t bytesMax) const;
  std::optional<Snapshot> readSnapshot() const;  // the newest; nullopt: none yet

  // One frame, one sync. The entries are consecutive; the first is at most lastIndex() + 1, and replaces what is from
  // there on when it is lower. Never below the snapshot. None at all: only tries to set the reserve aside.
  Space append(std::span<const LogEntry> entries);
  void saveHardState(const HardState& hard);
  // The state after entry `id.index`, which is in the log. Drops what is no longer needed. False: no space, nothing
  // done.
  bool saveSnapshot(SnapshotId id, Bytes data);
  // A snapshot from the leader, past our end or in conflict with it: replaces the whole log. False as above.
  bool install(SnapshotId id, Bytes data);
  // Marks the log as cleanly closed; nothing may be called afterwards.
  void close();

 private:
  struct Segment {
    int64_t number;
    FileRef file;
    uint64_t end = 0;  // of the last frame; beyond are zeros
  };
  struct FrameRef {  // the entries [first, end) of it that are alive
    int64_t first, end;
    int64_t segment;
    uint64_t position;
    uint32_t bytes;
  };
  struct TermStart {  // entries from `index` on have `term`
    int64_t index, term;
  };

  RaftLog(FileSystem& files, Logger& log, RaftLogOptions options);
  void make();
  void recover(const std::vector<DirectoryEntry>& entries);
  void recoverState();
  void recoverSnapshots(const std::vector<DirectoryEntry>& entries);
  void recoverSegment(int64_t number, bool isActive);
  void take(const log_format::Frame& frame, int64_t segment, uint64_t position, const std::string& path);
  bool restartBehind(SnapshotId start);
  template <class Body>
  auto guarded(Body body);
  Segment createSegment(int64_t number);
  bool roll();
  bool setAside(Segment& segment, uint64_t size);
  void writeState();
  bool writeSnapshotFile(SnapshotId id, Bytes data);
  Snapshot loadSnapshot(SnapshotId id) const;
  void dropOld();
  const Segment& segmentOf(int64_t number) const;
  std::string pathOf(const std::string& name) const { return options_.directory + "/" + name; }

  FileSystem& files_;
  Logger& log_;
  RaftLogOptions options_;
  bool isNew_ = false;
  bool broken_ = false;
  bool closed_ = false;
  FileRef stateFile_;
  log_format::State state_;
  std::deque<Segment> segments_;       // ascending; the last one is active
  std::deque<FrameRef> frames_;        // of the live entries, ascending
  std::vector<TermStart> terms_;       // ascending; the first one covers the entry before firstIndex()
  std::vector<SnapshotId> snapshots_;  // ascending, at most two
  SnapshotId last_;                    // index and term of the last entry (or of the snapshot, when none follows)
  uint64_t bytesSinceSnapshot_ = 0;
  std::vector<std::function<void()>> repairs_;  // of recover(): done once nothing can refuse any more
};

}  // namespace mq::controller
