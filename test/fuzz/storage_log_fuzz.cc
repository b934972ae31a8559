// A `.log` file of any bytes: the scan of recovery, and the replay of producer state over it.
// The scan must end at a batch boundary, find the same again, and accept exactly what it accepted when the file ends
// there.
#include <algorithm>

#include "base/check.h"
#include "fuzz.h"
#include "record/builder.h"
#include "storage/segment_scan.h"

namespace mq::fuzz {
namespace {

using namespace storage;

class MemoryFile : public File {
 public:
  explicit MemoryFile(Bytes bytes) : bytes_(bytes) {}
  const std::string& path() const override { return path_; }
  size_t read(uint64_t offset, MutableBytes into) const override {
    if (offset >= bytes_.size()) return 0;
    size_t count = std::min<size_t>(into.size(), bytes_.size() - offset);
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(offset), count, into.begin());
    return count;
  }
  void write(uint64_t, std::span<const Bytes>) override { MQ_CHECK(false, "a scan wrote"); }
  void sync() override {}
  void truncate(uint64_t) override { MQ_CHECK(false, "a scan cut"); }
  bool reserve(uint64_t) override { MQ_CHECK(false, "a scan reserved"); }
  uint64_t size() const override { return bytes_.size(); }
  int descriptor() const override { return -1; }

 private:
  std::string path_ = "memory";
  Bytes bytes_;
};

constexpr Offset kBase{500};

}  // namespace

void fuzzOne(Bytes input) {
  record::Workspace workspace;
  for (bool checkCrc : {true, false}) {
    MemoryFile log(input);
    ProducerState producers;
    ScanOptions options{.nextOffset = kBase, .checkCrc = checkCrc};
    Offset next = kBase;
    uint64_t position = 0;
    ScanResult result = scanSegment(log, kBase, options, [&](const record::BatchView& batch, uint64_t at) {
      MQ_CHECK(at == position, at, position);
      MQ_CHECK(batch.baseOffset() >= next, batch.baseOffset(), next);
      position += batch.sizeBytes();
      next = batch.nextOffset();
      if (checkCrc) replay(producers, batch, workspace);
    });
    MQ_CHECK(result.validEnd == position, result.validEnd, position);
    MQ_CHECK(result.nextOffset == next, result.nextOffset, next);
    MQ_CHECK((result.stop == ScanStop::end) == (position == input.size()), nameOf(result.stop));
    MQ_CHECK((result.stop == ScanStop::end) == result.problem.empty(), result.problem);

    MemoryFile cut(input.first(result.validEnd));
    ScanResult again = scanSegment(cut, kBase, options);
    MQ_CHECK(again.stop == ScanStop::end, again.problem);
    MQ_CHECK(again.batches == result.batches, again.batches, result.batches);
  }
}

std::vector<Buffer> fuzzSeeds() {
  record::Workspace workspace;
  Buffer log;
  auto add = [&](const Buffer& batch) { log.insert(log.end(), batch.begin(), batch.end()); };
  record::BatchBuilder plain({.baseOffset = kBase,
                              .producerId = ProducerId(3),
                              .producerEpoch = 0,
                              .baseSequence = 0,
                              .isTransactional = true});
  for (int i = 0; i < 5; ++i)
    plain.add({.timestamp = WallMs(1000 + i), .key = asBytes("key"), .value = asBytes("value")});
  add(plain.build(workspace));
  add(record::endTxnMarker(record::ControlType::abort, ProducerId(3), 0, 1, WallMs(1005), kBase + 5));
  record::BatchBuilder packed({.baseOffset = kBase + 6, .codec = record::Codec::lz4});
  for (int i = 0; i < 50; ++i)
    packed.add({.timestamp = WallMs(2000 + i), .value = asBytes("the same again and again")});
  add(packed.build(workspace));
  Buffer padded = log;
  padded.resize(padded.size() + 100);
  Buffer torn(log.begin(), log.end() - 20);
  return {log, padded, torn, Buffer(200)};
}

}  // namespace mq::fuzz
