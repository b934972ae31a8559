#include "raft/progress.h"

#include "base/check.h"

namespace mq::raft {

void Progress::clearWindow() {
  window_.clear();
  windowBytes_ = 0;
  awaitedSince_.reset();
  reading = 0;
}

void Progress::probe() {
  clearWindow();
  transfer.reset();
  state_ = State::probe;
  next = match + 1;
}

void Progress::beginSnapshot(SnapshotInfo snapshot) {
  clearWindow();
  state_ = State::snapshot;
  transfer = Transfer{.snapshot = std::move(snapshot)};
}

bool Progress::maySend(const Options& options) const {
  if (reading != 0) return false;
  if (state_ != State::replicate) return !awaitedSince_;
  return window_.size() < options.windowMessagesMax && windowBytes_ < options.windowBytesMax;
}

void Progress::sentAppend(int64_t end, size_t bytes, Instant now) {
  MQ_CHECK(state_ != State::snapshot && end >= next, end, next);
  if (state_ == State::probe) {
    awaitedSince_ = now;  // next stays: whether this arrived is not known
    probed_ = {end - 1, bytes, now};
    return;
  }
  window_.push_back({end - 1, bytes, now});
  windowBytes_ += bytes;
  next = end;
}

void Progress::pause(Instant now) {
  probe();
  awaitedSince_ = now;
  probed_ = {};
}

void Progress::accepted(int64_t index) {
  match = std::max(match, index);
  if (state_ == State::snapshot) {
    if (match < transfer->snapshot.id.index) return;
    probe();
    return;
  }
  if (state_ == State::probe) {
    bool isAnswered = awaitedSince_.has_value();
    clearWindow();
    state_ = State::replicate;
    // What the probe carried is there too, though perhaps not on the disk yet. (If this answers something older, it is
    // missed in time.)
    if (isAnswered && probed_.last >= next) {
      next = probed_.last + 1;
      window_.push_back(probed_);
      windowBytes_ = probed_.bytes;
    }
  }
  next = std::max(next, match + 1);
  while (!window_.empty() && window_.front().last <= match) {
    windowBytes_ -= window_.front().bytes;
    window_.pop_front();
  }
}

void Progress::refused(int64_t index, int64_t retry) {
  if (state_ == State::snapshot || index <= match) return;
  if (state_ == State::probe && index != next - 1) return;
  if (state_ == State::replicate && index >= next) return;
  clearWindow();
  state_ = State::probe;
  next = std::clamp(retry + 1, match + 1, index);
}

void Progress::chunkTaken(uint64_t wanted) {
  if (state_ != State::snapshot || wanted > transfer->snapshot.bytes) return;
  awaitedSince_.reset();
  reading = 0;
  transfer->next = wanted;
}

void Progress::giveUp(Instant now, Duration patience) {
  if (awaitedSince_ && now - *awaitedSince_ >= patience) awaitedSince_.reset();
  if (!window_.empty() && now - window_.front().at >= patience) probe();
}

}  // namespace mq::raft
