#include "base/crc32c.h"

#include <isa-l/crc.h>

namespace mq {

uint32_t crc32c(Bytes bytes, uint32_t previous) {
  // isa-l takes an int length and neither inverts before nor after.
  uint32_t crc = ~previous;
  while (!bytes.empty()) {
    size_t piece = std::min(bytes.size(), size_t{1} << 30);
    crc = crc32_iscsi(const_cast<unsigned char*>(bytes.data()), static_cast<int>(piece), crc);
    bytes = bytes.subspan(piece);
  }
  return ~crc;
}

}  // namespace mq
