// ReadIndex: linearizable reads without a log write (dissertation §6.4). A read is good once a majority has confirmed,
// after it was asked for, that its leader still leads, and once the state machine is as far as the commit index was
// then. Many reads share one round of heartbeats.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mq::raft {

using ReadId = uint64_t;

class ReadIndex {
 public:
  void ask(ReadId id) { asked_.push_back(id); }
  std::size_t size() const { return asked_.size() + waiting_.size(); }
  bool hasAsked() const { return !asked_.empty(); }
  void begin(int64_t round, int64_t index);  // those asked for so far wait for the round, then for the index
  // Takes those whose round is confirmed and whose index is applied, in the order in which they were asked for.
  std::vector<ReadId> take(int64_t roundConfirmed, int64_t applied);
  std::vector<ReadId> takeAll();  // leadership is lost

 private:
  struct Waiting {
    ReadId id;
    int64_t round;
    int64_t index;
  };
  std::vector<ReadId> asked_;
  std::vector<Waiting> waiting_;  // rounds and indexes ascend
};

}  // namespace mq::raft
