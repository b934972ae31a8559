// What is wrong with the batch at a place in a log, if anything. Internal to storage/: recovery and the offline reader
// judge alike.
#pragma once
#include <string>

#include "record/batch.h"
#include "storage/segment_scan.h"

namespace mq::storage {

struct Verdict {
  ScanStop stop = ScanStop::end;  // end: nothing
  std::string problem;
  explicit operator bool() const { return stop == ScanStop::end; }
};

// From the bytes of a header, fewer only at the end of the file. `left`: bytes from there to the end.
Verdict judgeStart(Bytes header, uint64_t left);
// From the fields of a header: counts and offsets.
Verdict judgeHeader(const record::BatchView& batch, Offset base, Offset nextOffset, bool dense);

}  // namespace mq::storage
