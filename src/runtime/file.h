// File, FileSystem: the only way mq touches a disk. Real: runtime/uv/. Fake, with faults: test/sim/.
//
// Every call blocks and may be made from any thread, one writer per file. What may run where:
//   - write() goes into the page cache: a shard's loop calls it directly;
//   - read() of bytes that are likely cached, readCached(), size(), open(): the loop; cold ranges: an Offload job;
//   - sync(), syncDirectory(), scans, remove() of big files: an Offload job (or before the loops start, or in a
//   command).
//
// Errors are thrown as kj::Exception that names the operation, the path and the system's reason. Type OVERLOADED means
// no space (ENOSPC, EDQUOT): the file is as before plus perhaps a torn tail, and a later write may succeed. Type FAILED
// is anything else: the disk can no longer be trusted. A sync that failed must never be retried (the kernel may have
// dropped the dirty pages and forgotten).
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kj/exception.h>

#include "base/bytes.h"
#include "base/types.h"

namespace mq {

class File {
 public:
  virtual ~File() = default;
  virtual const std::string& path() const = 0;                        // as opened
  virtual size_t read(uint64_t offset, MutableBytes into) const = 0;  // short only at the end of the file
  // As read(), but never waits for the disk: short, perhaps 0, where the bytes are not in memory.
  virtual size_t readCached(uint64_t offset, MutableBytes into) const { return read(offset, into); }
  virtual void write(uint64_t offset, std::span<const Bytes> pieces) = 0;  // all, or throws
  virtual void sync() = 0;                   // when it returns, what was written before survives power loss
  virtual void truncate(uint64_t size) = 0;  // cuts, or extends with zeros; gives back what reserve() set aside behind
  // Sets disk space aside up to `size` for appends to come, so that they cost less; size() stays, and nothing is read
  // there. A wish: false if the system cannot, and a lack of space is left for write() to tell.
  virtual bool reserve(uint64_t size) = 0;
  virtual uint64_t size() const = 0;
  virtual int descriptor() const = 0;  // for sendfile; -1 in simulation (the fake socket then uses read())

  void write(uint64_t offset, Bytes bytes) { write(offset, std::span<const Bytes>(&bytes, 1)); }
};

// A handle that pins the open file: a slice being sent keeps the bytes readable although the file was renamed, unlinked
// or dropped from the LRU meanwhile. Counted atomically, so it may cross shards.
using FileRef = std::shared_ptr<File>;

enum class OpenMode {
  read,       // must exist
  readWrite,  // must exist
  create,     // made if missing, kept if there
  createNew,  // must not exist
};

struct DirectoryEntry {
  std::string name;
  bool isDirectory = false;
  uint64_t size = 0;               // of a regular file
  WallMs modified = kNoTimestamp;  // when its content last changed, by the wall clock of the system
};

struct DiskSpace {
  uint64_t total = 0;      // bytes
  uint64_t available = 0;  // bytes that an unprivileged process may still write
};

// Held: no other process can lock the same path. The system releases it when the process ends, however it ends.
class FileLock {
 public:
  virtual ~FileLock() = default;
};

class FileSystem {
 public:
  virtual ~FileSystem() = default;
  virtual FileRef open(const std::string& path, OpenMode mode) = 0;
  virtual std::vector<DirectoryEntry> list(const std::string& directory) = 0;  // sorted by name; without . and ..
  virtual bool exists(const std::string& path) = 0;
  virtual void makeDirectory(const std::string& path) = 0;                  // with parents; fine if there
  virtual void removeDirectory(const std::string& path) = 0;                // must be empty
  virtual void remove(const std::string& path) = 0;                         // a file; must exist
  virtual void rename(const std::string& from, const std::string& to) = 0;  // replaces `to`
  virtual void syncDirectory(const std::string& path) = 0;  // makes creates, renames and removes in it durable
  virtual DiskSpace space(const std::string& path) = 0;
  // nullopt: another process holds it (its pid in *holder if known).
  virtual std::optional<std::unique_ptr<FileLock>> lock(const std::string& path, int64_t* holder) = 0;

  // Whole small files. replaceFile writes path + ".tmp", syncs, renames and syncs the directory: after a crash the old
  // or the new content is there, never a mixture. readFile throws if the file is over `sizeMax`.
  std::string readFile(const std::string& path, size_t sizeMax);
  void replaceFile(const std::string& path, std::string_view content);
};

kj::Exception ioError(const char* operation, const std::string& path, int errorNumber);
bool isNoSpace(const kj::Exception& exception);

}  // namespace mq
