#include "base/random.h"

#include <bit>

#include "base/check.h"

namespace mq {

Prng::Prng(uint64_t seed) {
  for (uint64_t& word : state_) {  // splitmix64, so that near seeds give far states
    seed += 0x9E3779B97F4A7C15u;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    word = z ^ (z >> 31);
  }
}

uint64_t Prng::next() {
  uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
  uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = std::rotl(state_[3], 45);
  return result;
}

uint64_t Prng::below(uint64_t bound) {
  MQ_CHECK(bound > 0);
  uint64_t limit = ~uint64_t{0} - ~uint64_t{0} % bound;  // reject the uneven tail
  uint64_t value;
  do value = next();
  while (value >= limit);
  return value % bound;
}

uint64_t Prng::between(uint64_t low, uint64_t high) {
  MQ_CHECK(low <= high, low, high);
  uint64_t width = high - low + 1;
  return width == 0 ? next() : low + below(width);
}

}  // namespace mq
