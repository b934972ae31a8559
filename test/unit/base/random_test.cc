#include "base/random.h"

#include <doctest/doctest.h>

using namespace mq;

TEST_CASE("The generator is fixed for ever: seeds written down in bug reports must replay") {
  Prng random(42);
  CHECK(random.next() == 1546998764402558742u);
  Prng again(42);
  again.next();
  CHECK(random.next() == again.next());
}

TEST_CASE("below and between stay inside their bounds and reach both ends") {
  Prng random(7);
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    uint64_t v = random.between(3, 5);
    CHECK(v >= 3);
    CHECK(v <= 5);
    low |= v == 3;
    high |= v == 5;
  }
  CHECK(low);
  CHECK(high);
  CHECK(random.below(1) == 0);
}
