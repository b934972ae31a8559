#include "raft/read_index.h"

#include <algorithm>

namespace mq::raft {

void ReadIndex::begin(int64_t round, int64_t index) {
  for (ReadId id : asked_) waiting_.push_back({id, round, index});
  asked_.clear();
}

std::vector<ReadId> ReadIndex::take(int64_t roundConfirmed, int64_t applied) {
  auto end = std::find_if(waiting_.begin(), waiting_.end(),
                          [&](const Waiting& read) { return read.round > roundConfirmed || read.index > applied; });
  std::vector<ReadId> ready;
  for (auto at = waiting_.begin(); at != end; ++at) ready.push_back(at->id);
  waiting_.erase(waiting_.begin(), end);
  return ready;
}

std::vector<ReadId> ReadIndex::takeAll() {
  std::vector<ReadId> all;
  for (const Waiting& read : waiting_) all.push_back(read.id);
  all.insert(all.end(), asked_.begin(), asked_.end());
  waiting_.clear();
  asked_.clear();
  return all;
}

}  // namespace mq::raft
