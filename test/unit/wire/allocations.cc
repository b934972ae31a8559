#include "allocations.h"

#include <malloc.h>

#include <cstdlib>
#include <new>

namespace {
size_t inUse = 0;
size_t peak = 0;

void* allocate(size_t size) {
  void* block = std::malloc(size);
  if (!block) throw std::bad_alloc();
  inUse += malloc_usable_size(block);
  if (inUse > peak) peak = inUse;
  return block;
}

void release(void* block) {
  if (!block) return;
  inUse -= malloc_usable_size(block);
  std::free(block);
}
}  // namespace

void* operator new(size_t size) { return allocate(size); }
void* operator new[](size_t size) { return allocate(size); }
void operator delete(void* block) noexcept { release(block); }
void operator delete[](void* block) noexcept { release(block); }
void operator delete(void* block, size_t) noexcept { release(block); }
void operator delete[](void* block, size_t) noexcept { release(block); }

namespace mq::test {

AllocationPeak::AllocationPeak() : before_(inUse) { peak = inUse; }
size_t AllocationPeak::bytes() const { return peak - before_; }

}  // namespace mq::test
