// FileWindow and HeaderWalk: reading batch headers one after the other out of a file with few reads. Internal to
// storage/.
//
// A header walk trusts batch lengths, as it must: whoever needs certainty has the checksums taken (scanSegment).
// Any thread.
#pragma once
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "record/batch.h"
#include "runtime/file.h"

namespace mq::storage {

// A piece of a file in memory.
class FileWindow {
 public:
  FileWindow(const File& file, size_t capacity) : file_(file), capacity_(capacity) {}

  // Bytes [position, position + count), fewer only where the file ends. `count` is at most the capacity; up to
  // `ahead` bytes are read when they have to be read at all.
  Bytes at(uint64_t position, size_t count, size_t ahead);
  size_t capacity() const { return capacity_; }

 private:
  const File& file_;
  size_t capacity_;
  uint64_t start_ = 0;
  size_t filled_ = 0;
  Buffer buffer_;
};

// Walks from batch to batch within the first `end` bytes of a log.
class HeaderWalk {
 public:
  HeaderWalk(const File& log, uint64_t from, uint64_t end) : window_(log, kReadAhead), position_(from), end_(end) {}

  uint64_t position() const { return position_; }
  bool atEnd() const { return position_ >= end_; }
  // The header at position(). nullopt: at the end, or no whole batch can stand here (broken() is true).
  std::optional<record::BatchView> current();
  bool broken() const { return broken_; }
  void next(const record::BatchView& current);
  void moveTo(uint64_t position) {
    position_ = position;
    broken_ = false;
  }

 private:
  static constexpr size_t kReadAhead = 16 << 10;
  static constexpr size_t kReadOne = 512;  // after a batch larger than that, what is read ahead would be records
  FileWindow window_;
  uint64_t position_;
  uint64_t end_;
  size_t ahead_ = 4 << 10;
  bool broken_ = false;
};

// Loads the batch at `position`, of which the header was read, and takes its checksum. False: the checksum is wrong or
// the bytes are not there; then nothing of more than 1 MiB was allocated.
bool loadBatch(const File& log, uint64_t position, size_t size, Buffer& into);

}  // namespace mq::storage
