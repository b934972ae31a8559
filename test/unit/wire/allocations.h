// Counts what operator new hands out, so that tests can prove that nothing is allocated by an unverified length.
#pragma once
#include <cstddef>

namespace mq::test {

// Bytes in use at most, above what was in use when the guard was made.
class AllocationPeak {
 public:
  AllocationPeak();
  size_t bytes() const;

 private:
  size_t before_;
};

}  // namespace mq::test
