// LogView: what the core knows of its log. Terms of all entries (a few runs), bytes only of the tail; the rest is on
// disk and read back when somebody needs it.
//
//   start        tailFirst       durable     handedOut      last
//     |  on disk    |  on disk and    |  with the  |  still to  |
//     |  only       |  in memory      |  driver    |  be handed |
//
// Entries that are not durable are always in memory. Invariants: start <= durable <= handedOut <= last, except between
// reset() and the write of that snapshot, when nothing is durable.
#pragma once
#include <deque>
#include <optional>
#include <vector>

#include "raft/types.h"

namespace mq::raft {

class LogView {
 public:
  // `start`: the entry before the first one that can be read.
  LogView(Position start, size_t tailBytesMax);

  Position start() const { return start_; }
  int64_t firstIndex() const { return start_.index + 1; }
  int64_t lastIndex() const { return last_.index; }
  Position last() const { return last_; }
  std::optional<int64_t> termAt(int64_t index) const;  // nullopt: before start or past the end
  bool has(Position position) const { return termAt(position.index) == position.term; }
  // The last entry at or below `index` with a term of at most `term`; start when there is none.
  Position lastWithin(int64_t index, int64_t term) const;

  int64_t durableIndex() const { return durable_; }  // -1: nothing, a snapshot is on its way to the disk
  size_t unsyncedBytes() const { return unsyncedBytes_; }
  size_t tailBytes() const { return tailBytes_; }

  void append(Entry entry);          // behind the last one
  void truncate(int64_t from);       // [from, ...) are gone
  void reset(Position start);        // a snapshot replaces all
  void compact(Position start);      // entries up to here can no longer be read
  void restore(const Entry& entry);  // as append, for one that is on disk already

  // The writes, one at a time: hand() them out, then either all is durable or it was not done.
  bool hasUnhanded() const { return handedOut_ < last_.index; }
  std::vector<Entry> hand(size_t bytesMax);
  void handReset() { handedOut_ = start_.index; }
  void written();
  void notWritten() { handedOut_ = durable_; }

  bool isInMemory(int64_t index) const {
    return !tail_.empty() && index >= tail_.front().index && index <= last_.index;
  }
  // [from, end) up to about `bytesMax` of cost, at least one; all in memory.
  std::vector<Entry> slice(int64_t from, int64_t end, size_t bytesMax) const;

 private:
  const Entry& inTail(int64_t index) const { return tail_[static_cast<size_t>(index - tail_.front().index)]; }
  void push(Entry entry);
  void evict();

  size_t tailBytesMax_;
  Position start_;
  Position last_;
  std::vector<Position> runs_;  // entries from index on have term; ascending, the first is start
  std::deque<Entry> tail_;
  size_t tailBytes_ = 0;
  size_t unsyncedBytes_ = 0;  // of the entries behind durable
  int64_t durable_;
  int64_t handedOut_;
};

}  // namespace mq::raft
