// FileCache: the open files of one shard, least recently used first out, so that thousands of partitions live within a
// few hundred descriptors. Files are opened on use and closed when others need the place.
//
// An owner (Segment, Log) keeps one Slot per file; a Slot is a few words while the file is closed. use() answers a
// FileRef, which pins: dropping the file from the cache, renaming or unlinking it does not close it under a reader.
// Pinned files are passed over when a place is needed (closing them here would free nothing), so `openCount()` can
// exceed `openMax()` by the number of pinned files, never by more.
//
// Belongs to one shard's loop: use() opens (blocking, microseconds) and is never called from an Offload job; a job is
// handed the FileRef. A Slot unlinks itself when destroyed; the cache outlives its slots.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include "runtime/file.h"

namespace mq::storage {

class FileCache {
 public:
  class Slot {
   public:
    Slot() = default;
    ~Slot() { close(); }
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;
    bool isOpen() const { return file_ != nullptr; }
    // Drops the cache's handle: the next use() opens anew. For renames, removal, and after a failed write.
    void close();

   private:
    friend class FileCache;
    FileCache* cache_ = nullptr;
    FileRef file_;
    Slot* older_ = nullptr;
    Slot* newer_ = nullptr;
  };

  FileCache(FileSystem& system, size_t openMax);
  ~FileCache();
  FileCache(const FileCache&) = delete;
  FileCache& operator=(const FileCache&) = delete;

  // The open file, opening it by `mode` at path() when it is not. Throws what FileSystem::open throws.
  template <class Path>
  FileRef use(Slot& slot, OpenMode mode, Path&& path) {
    if (slot.file_ != nullptr) {
      touch(slot);
      return slot.file_;
    }
    return openInto(slot, path(), mode);
  }

  FileSystem& fileSystem() { return system_; }
  size_t openCount() const { return openCount_; }
  size_t openMax() const { return openMax_; }
  uint64_t opened() const { return opened_; }  // since the start: the price of a small cache

 private:
  FileRef openInto(Slot& slot, const std::string& path, OpenMode mode);
  void touch(Slot& slot);
  void attach(Slot& slot);
  void detach(Slot& slot);
  void makePlace();

  FileSystem& system_;
  size_t openMax_;
  size_t openCount_ = 0;
  uint64_t opened_ = 0;
  Slot* oldest_ = nullptr;
  Slot* newest_ = nullptr;
};

}  // namespace mq::storage
