// IndexFile<Entry>: the sorted, fixed-size entries of an index, most of them in a file and the newest in memory.
//
//   file:     [entry 0][entry 1] ... [entry written_-1]      read by binary search, a few small reads, nothing kept
//   pending:                          [written_] ...          appended since the last flush()
//
// An index file is derived from its log, so appending costs no write: entries wait in memory until flush(), which the
// Log calls at its checkpoints, when a segment is sealed or closed, and Segment when kPendingMax wait. An idle
// partition keeps no entry in memory and no file open. What a crash loses is scanned again from the log.
//
// Entry needs: kBytes, encode(uint8_t*, Offset base), static decode(const uint8_t*, Offset base).
// Belongs to its segment's shard. `file` may be null where written() is 0.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/bytes.h"
#include "base/check.h"
#include "base/types.h"
#include "runtime/file.h"

namespace mq::storage {

// What a decoder of an index file makes of bytes from outside: the longest good prefix, and why it ends there.
template <class Entry>
struct DecodedIndex {
  std::vector<Entry> entries;
  std::string problem;  // empty: every byte is part of a good entry, or zeroPadded
  bool zeroPadded =
      false;  // all bytes behind the entries are zero: Kafka preallocates the indexes of an active segment
};

// `problemOf(entry)` says what is wrong with the next entry; empty: nothing.
template <class Entry, class ProblemOf>
DecodedIndex<Entry> decodeEntries(Bytes file, Offset base, ProblemOf problemOf) {
  DecodedIndex<Entry> decoded;
  for (size_t at = 0; at < file.size(); at += Entry::kBytes) {
    Bytes rest = file.subspan(at);
    std::string problem =
        rest.size() < Entry::kBytes ? "ends inside an entry" : problemOf(Entry::decode(rest.data(), base));
    if (problem.empty()) {
      decoded.entries.push_back(Entry::decode(rest.data(), base));
      continue;
    }
    decoded.zeroPadded = std::ranges::all_of(rest, [](uint8_t byte) { return byte == 0; });
    if (!decoded.zeroPadded) decoded.problem = fmt::format("entry {}: {}", at / Entry::kBytes, problem);
    break;
  }
  return decoded;
}

template <class Entry>
Buffer encodeEntries(const std::vector<Entry>& entries, Offset base) {
  Buffer bytes(entries.size() * Entry::kBytes);
  for (size_t i = 0; i < entries.size(); ++i) entries[i].encode(bytes.data() + i * Entry::kBytes, base);
  return bytes;
}

// Binary search over entries in a file, without a copy of it in memory. Thread-safe: for Offload jobs too.
template <class Entry>
class FileEntries {
 public:
  FileEntries(const File* file, size_t count, Offset base) : file_(file), count_(count), base_(base) {}

  size_t count() const { return count_; }

  // The last entry for which `before` holds; `before` must hold for a prefix of the entries. nullopt: for none.
  template <class Before>
  std::optional<Entry> lastWhere(Before before) const {
    size_t low = 0, high = count_;  // `before` holds below low, and does not from high on
    while (high - low > kBlockEntries) {
      size_t middle = low + (high - low) / 2;
      if (before(at(middle)))
        low = middle + 1;
      else
        high = middle;
    }
    // One read for the rest, with the entry before it: the answer if `before` holds for none of the block.
    size_t first = low > 0 ? low - 1 : 0;
    std::array<uint8_t, (kBlockEntries + 1) * Entry::kBytes> block;
    size_t bytes = (high - first) * Entry::kBytes;
    if (bytes == 0) return std::nullopt;
    bytes = file_->read(first * Entry::kBytes, MutableBytes(block.data(), bytes));
    std::optional<Entry> found;
    for (size_t at = 0; at + Entry::kBytes <= bytes; at += Entry::kBytes) {
      Entry entry = Entry::decode(block.data() + at, base_);
      if (!before(entry)) break;
      found = entry;
    }
    return found;
  }

  // How many entries `before` holds for.
  template <class Before>
  size_t countWhere(Before before) const {
    size_t low = 0, high = count_;
    while (low < high) {
      size_t middle = low + (high - low) / 2;
      if (before(at(middle))) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    return low;
  }

  // Zero bytes where the file is shorter than was promised: no caller takes an all-zero entry for a real one.
  Entry at(size_t index) const {
    std::array<uint8_t, Entry::kBytes> bytes{};
    file_->read(index * Entry::kBytes, bytes);
    return Entry::decode(bytes.data(), base_);
  }

 private:
  static constexpr size_t kBlockEntries = 128;
  const File* file_;
  size_t count_;
  Offset base_;
};

template <class Entry>
class IndexFile {
 public:
  static constexpr size_t kPendingMax = 512;

  explicit IndexFile(Offset base, size_t written = 0) : base_(base), written_(written) {}

  size_t count() const { return written_ + pending_.size(); }
  size_t written() const { return written_; }
  size_t pending() const { return pending_.size(); }
  bool shouldFlush() const { return pending_.size() >= kPendingMax; }

  void append(Entry entry) { pending_.push_back(entry); }

  // Writes what is pending behind what is written. Throws what File::write throws; then everything is still pending.
  void flush(File& file) {
    if (pending_.empty()) return;
    // What stands behind the entries we know of is not ours: padding, or left by a crash.
    if (file.size() > written_ * Entry::kBytes) file.truncate(written_ * Entry::kBytes);
    file.write(written_ * Entry::kBytes, encodeEntries(pending_, base_));
    written_ += pending_.size();
    pending_ = {};
  }

  template <class Before>
  std::optional<Entry> lastWhere(const File* file, Before before) const {
    if (!pending_.empty() && before(pending_.front())) {
      auto end = std::partition_point(pending_.begin(), pending_.end(), before);
      return *(end - 1);
    }
    if (written_ == 0) return std::nullopt;
    MQ_CHECK(file != nullptr, written_);
    return FileEntries<Entry>(file, written_, base_).lastWhere(before);
  }

  // Calls visit(entry) for each entry behind those for which `before` holds, in order, until it answers false.
  template <class Before, class Visit>
  void visitAfter(const File* file, Before before, Visit visit) const {
    if (written_ > 0 && (pending_.empty() || !before(pending_.front()))) {
      MQ_CHECK(file != nullptr, written_);
      FileEntries<Entry> entries(file, written_, base_);
      for (size_t i = entries.countWhere(before); i < written_; ++i) {
        if (!visit(entries.at(i))) return;
      }
    }
    for (auto entry = std::partition_point(pending_.begin(), pending_.end(), before); entry != pending_.end();
         ++entry) {
      if (!visit(*entry)) return;
    }
  }

  std::optional<Entry> last(const File* file) const {
    return lastWhere(file, [](const Entry&) { return true; });
  }

  // Keeps the prefix for which `keep` holds; the file is shortened. `file` as for lastWhere.
  template <class Keep>
  void truncate(File* file, Keep keep) {
    pending_.erase(std::partition_point(pending_.begin(), pending_.end(), keep), pending_.end());
    if (!pending_.empty() || written_ == 0) return;
    MQ_CHECK(file != nullptr, written_);
    while (written_ > 0 && !keep(FileEntries<Entry>(file, written_, base_).at(written_ - 1))) --written_;
    file->truncate(written_ * Entry::kBytes);
  }

 private:
  Offset base_;
  size_t written_;  // whole entries in the file
  std::vector<Entry> pending_;
};

}  // namespace mq::storage
