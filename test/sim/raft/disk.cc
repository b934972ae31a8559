#include "disk.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace mq::raft::sim {

std::optional<int64_t> Disk::termAt(int64_t index) const {
  if (index == logStart.index) return logStart.term;
  if (index < logStart.index || index > lastIndex()) return std::nullopt;
  return log[static_cast<size_t>(index - logStart.index - 1)].term;
}

std::vector<Entry> Disk::read(int64_t from, int64_t end, size_t bytesMax) const {
  std::vector<Entry> entries;
  if (from <= logStart.index) return entries;
  size_t bytes = 0;
  for (int64_t index = from; index < end && index <= lastIndex(); ++index) {
    const Entry& entry = log[static_cast<size_t>(index - logStart.index - 1)];
    bytes += entry.data.size();
    if (!entries.empty() && bytes > bytesMax) break;
    entries.push_back(entry);
  }
  return entries;
}

void Disk::perform(int steps) {
  before_ = Before{hardState, logStart, log};
  if (steps > 0 && writing_->hardState) hardState = *writing_->hardState;
  if (steps > 1 && writing_->install) {
    before_.reset();
    snapshot = writing_->install->snapshot;
    snapshotData = writing_->install->data;
    logStart = snapshot.id;
    log.clear();
  }
  if (steps > 2 && !writing_->append.empty()) {
    int64_t first = writing_->append.front().index;
    MQ_CHECK(first > logStart.index && first <= lastIndex() + 1, first, logStart.index, lastIndex());
    log.resize(static_cast<size_t>(first - logStart.index - 1));
    log.insert(log.end(), writing_->append.begin(), writing_->append.end());
  }
}

uint64_t Disk::finish() {
  perform(3);
  uint64_t number = writing_->number;
  writing_.reset();
  return number;
}

Write Disk::refuse() {
  perform(1);
  return *std::exchange(writing_, std::nullopt);
}

void Disk::crash(Prng& chance) {
  if (!writing_) return;
  perform(static_cast<int>(chance.below(4)));
  writing_.reset();
}

void Disk::forgetLastWrite() {
  if (!before_ || before_->logStart != logStart) return;
  hardState = before_->hardState;
  log = std::move(before_->log);
  before_.reset();
}

void Disk::saveSnapshot(SnapshotInfo info, Buffer data, int64_t keepFrom) {
  before_.reset();
  snapshot = std::move(info);
  snapshotData = std::move(data);
  int64_t start = std::clamp(keepFrom, logStart.index, snapshot.id.index);
  Position position{start, termAt(start).value()};
  log.erase(log.begin(), log.begin() + (start - logStart.index));
  logStart = position;
}

}  // namespace mq::raft::sim
