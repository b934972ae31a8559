// Prng: a small deterministic generator (xoshiro256**, by Blackman and Vigna), the same on every platform; the
// standard library's distributions are not. For choices, jitter and simulation, never for secrets.
#pragma once
#include <cstdint>

#include "base/uuid.h"

namespace mq {

class Prng {
 public:
  explicit Prng(uint64_t seed);

  uint64_t next();
  uint64_t below(uint64_t bound);                 // [0, bound); bound > 0
  uint64_t between(uint64_t low, uint64_t high);  // [low, high], both inclusive
  bool chance(uint64_t numerator, uint64_t denominator) { return below(denominator) < numerator; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }  // [0, 1)
  Uuid uuid() {
    uint64_t high = next();
    return Uuid::random(high, next());
  }
  Prng fork() { return Prng(next()); }  // an independent stream

 private:
  uint64_t state_[4];
};

}  // namespace mq
