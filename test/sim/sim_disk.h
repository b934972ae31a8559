// SimDisk: the disk of one node. It outlives the node's processes; what a crash leaves of it is what the next one
// finds.
//
// A file has the content that processes see (the page cache) and, for each 4 KiB page changed since the last sync, the
// page's content on the platter. A directory has the entries that processes see and the operations since the last
// syncDirectory. loseUnsynced() is the power cut:
//   - each unsynced page is kept, lost, or torn at a 512-byte sector, on its own: a later write may survive an earlier
//   one;
//   - an unsynced change of size is kept or lost, or the file ends at some page between;
//   - of the unsynced operations of a directory a prefix survives (a journal is ordered, but ends anywhere);
//   - syncing a file does not make its name durable.
// A sync that fails leaves its pages in doubt for good: later syncs do not write them, as Linux does.
//
// Faults come from the hook: it is asked before each operation and may answer an errno.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/random.h"
#include "runtime/file.h"

namespace mq::sim {

enum class DiskOperation {
  open,
  read,
  write,
  sync,
  truncate,
  list,
  makeDirectory,
  remove,
  rename,
  syncDirectory,
  lock
};

class SimDisk {
 public:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kSectorBytes = 512;
  using Fault = std::function<int(DiskOperation operation, const std::string& path)>;  // errno; 0: none

  explicit SimDisk(Prng random);
  ~SimDisk();

  // --- for the test
  void setFault(Fault fault) { fault_ = std::move(fault); }  // nullptr: none
  void setCapacity(uint64_t bytes) { capacity_ = bytes; }
  void setClock(std::function<WallMs()> clock) { clock_ = std::move(clock); }  // for DirectoryEntry::modified
  uint64_t used() const { return used_; }
  void loseUnsynced();
  void wipe();  // an empty disk in its place; no process may run
  // Changes what is stored, behind everybody's back. False: no such byte.
  bool flipBit(const std::string& path, uint64_t offset, unsigned bit);
  // How often a process that had crashed tried to change something: destructors must not.
  uint64_t changesAfterCrash() const { return changesAfterCrash_; }

  // --- for the node: one process's view. After `*frozen` turns true it changes nothing: changes are ignored, the rest
  // fails.
  std::unique_ptr<FileSystem> mount(std::shared_ptr<const bool> frozen, int64_t processId);

 private:
  friend class SimFile;
  friend class SimFileSystem;
  friend class SimLock;
  struct Inode;
  struct Change;
  struct Operation;
  using InodeRef = std::shared_ptr<Inode>;

  int fault(DiskOperation operation, const std::string& path) const { return fault_ ? fault_(operation, path) : 0; }
  InodeRef newInode(bool directory);
  InodeRef find(const std::string& path) const;  // null: not there
  // The directory that holds the path's last name, and that name. Null directory: not there.
  std::pair<InodeRef, std::string> parentOf(const std::string& path) const;
  void apply(std::vector<Change> changes);  // one operation: all of it survives or none
  void commit(const InodeRef& directory);
  static void resize(Inode& file, uint64_t size);
  void loseUnsyncedData(Inode& file);
  void releaseIfUnused(Inode& inode);
  void clear();
  void countSpace();  // anew, from the tree

  Prng random_;
  Fault fault_;
  std::function<WallMs()> clock_ = [] { return WallMs(0); };
  uint64_t capacity_ = UINT64_MAX;
  uint64_t used_ = 0;  // by files with a name or a handle, as processes see them
  uint64_t changesAfterCrash_ = 0;
  uint64_t operations_ = 0;
  uint64_t inodes_ = 0;
  std::map<uint64_t, std::weak_ptr<Inode>> all_;  // by number, so that chance falls the same way each time
  InodeRef root_;
  std::map<std::string, int64_t> locks_;  // path to process
};

}  // namespace mq::sim
