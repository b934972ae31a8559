// CRC-32C (Castagnoli), the checksum of record batches, snapshots and our own frames. By isa-l, about 30 GB/s.
#pragma once
#include "base/bytes.h"

namespace mq {

// Continues from an earlier result; 0 to start.
uint32_t crc32c(Bytes bytes, uint32_t previous = 0);

}  // namespace mq
