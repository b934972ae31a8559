// Batches for the tests of segments and logs.
#pragma once
#include <string>
#include <vector>

#include "base/random.h"
#include "record/builder.h"
#include "storage/segment.h"

namespace mq::storage::test {

struct TestBatch {
  Buffer bytes;
  BatchMark mark;
  Offset base;
};

struct TestBatchOptions {
  record::BatchOptions batch;
  int records = 1;
  size_t valueBytes = 10;
  std::vector<int64_t> timestamps;  // by record; else 1000 + offset
};

inline TestBatch makeBatch(Offset base, TestBatchOptions options = {}) {
  record::Workspace workspace;
  options.batch.baseOffset = base;
  record::BatchBuilder builder(options.batch);
  WallMs max = kNoTimestamp;
  for (int i = 0; i < options.records; ++i) {
    int64_t time = i < static_cast<int>(options.timestamps.size()) ? options.timestamps[i] : 1000 + base.value() + i;
    max = std::max(max, WallMs(time));
    Buffer value(options.valueBytes, static_cast<uint8_t>('a' + i % 26));
    builder.add({.timestamp = WallMs(time), .value = Bytes(value)});
  }
  TestBatch batch;
  batch.base = base;
  batch.bytes = builder.build(workspace);
  if (options.batch.appendTime) max = *options.batch.appendTime;
  batch.mark = {base + options.records - 1, max, static_cast<uint32_t>(batch.bytes.size())};
  return batch;
}

inline void appendTo(Segment& segment, const std::vector<TestBatch>& batches) {
  std::vector<Bytes> pieces;
  std::vector<BatchMark> marks;
  for (const TestBatch& batch : batches) {
    pieces.push_back(batch.bytes);
    marks.push_back(batch.mark);
  }
  segment.append(pieces, marks);
}

}  // namespace mq::storage::test
