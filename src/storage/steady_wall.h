// SteadyWall: wall time for judging age, which a step of the clock does not fool at once (retention must not delete
// young data because the clock was wrong for a moment).
//
// It follows the wall clock while that agrees with the monotonic one. After a step of more than kStepMin forward it
// goes on by the monotonic clock until the step has lasted for kTrustAfter; a step back is followed at once, as it
// makes everything younger. Belongs to one shard; now() is to be called now and then, at least at each use.
#pragma once
#include "runtime/shard.h"

namespace mq::storage {

class SteadyWall {
 public:
  static constexpr Duration kStepMin = 10s;
  static constexpr Duration kTrustAfter = 600s;

  explicit SteadyWall(Shard& shard) : shard_(shard), offsetMs_(offset()) {}

  WallMs now() {
    int64_t seen = offset();
    if (seen <= offsetMs_ + kStepMin / 1ms) {  // the same, drifting, or back
      offsetMs_ = seen;
      stepping_ = false;
    } else if (!stepping_ || seen < steppedTo_ - kStepMin / 1ms) {
      stepping_ = true;
      steppedTo_ = seen;
      since_ = shard_.now();
    } else if (shard_.now() - since_ >= kTrustAfter) {
      offsetMs_ = seen;
      stepping_ = false;
    }
    return WallMs(offsetMs_ + shard_.now().time_since_epoch() / 1ms);
  }

 private:
  int64_t offset() const { return shard_.wallNow().value() - shard_.now().time_since_epoch() / 1ms; }

  Shard& shard_;
  int64_t offsetMs_;  // wall clock minus monotonic clock, as believed
  bool stepping_ = false;
  int64_t steppedTo_ = 0;
  Instant since_{};
};

}  // namespace mq::storage
