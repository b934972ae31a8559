#include "runtime/shard.h"

#include <kj/debug.h>

namespace mq {

kj::Promise<void> Shard::after(Duration wait) {
  // Not timer().afterDelay(): that counts from the start of the turn, so after a long callback it would fire early.
  return timer().atTime(kj::origin<kj::TimePoint>() +
                        static_cast<int64_t>((now().time_since_epoch() + wait).count()) * kj::NANOSECONDS);
}

kj::Exception deadlinePassed() { return KJ_EXCEPTION(OVERLOADED, "deadline passed"); }

}  // namespace mq
