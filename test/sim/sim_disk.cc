#include "sim_disk.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/check.h"

namespace mq::sim {

struct SimDisk::Inode {
  Inode(SimDisk& d, uint64_t n, bool isDirectory) : disk(d), number(n), directory(isDirectory) {}
  ~Inode() { disk.all_.erase(number); }

  SimDisk& disk;
  const uint64_t number;
  const bool directory;

  uint64_t names = 0, handles = 0;
  bool counted = true;  // in the disk's used space

  // Of a file. A page that is in neither map is on the platter as it is in `content`.
  std::vector<uint8_t> content;
  WallMs modified = kNoTimestamp;  // survives any crash
  uint64_t durableSize = 0;
  std::map<uint64_t, std::vector<uint8_t>> dirty;    // page number to what the platter has; cut at the durable size
  std::map<uint64_t, std::vector<uint8_t>> inDoubt;  // the same, after a sync that failed

  // Of a directory.
  std::map<std::string, InodeRef> entries;
  std::map<std::string, InodeRef> durableEntries;
  std::vector<std::shared_ptr<Operation>> pending;

  void remember(uint64_t page) {  // before it changes
    if (dirty.contains(page)) return;
    auto doubtful = inDoubt.extract(page);
    if (!doubtful.empty()) {
      dirty.emplace(page, std::move(doubtful.mapped()));
      return;
    }
    uint64_t from = std::min<uint64_t>(page * kPageBytes, std::min<uint64_t>(content.size(), durableSize));
    uint64_t to = std::min<uint64_t>((page + 1) * kPageBytes, std::min<uint64_t>(content.size(), durableSize));
    dirty.emplace(page, std::vector<uint8_t>(content.begin() + static_cast<ptrdiff_t>(from),
                                             content.begin() + static_cast<ptrdiff_t>(to)));
  }
};

struct SimDisk::Change {
  InodeRef directory;
  std::string name;
  InodeRef target;  // null: the name goes
};

struct SimDisk::Operation {
  uint64_t number;
  std::vector<Change> changes;
  bool durable = false;
  bool lost = false;
};

namespace {

std::vector<std::string> namesIn(const std::string& path) {
  std::vector<std::string> names;
  for (size_t at = 0; at < path.size();) {
    size_t end = std::min(path.find('/', at), path.size());
    std::string name = path.substr(at, end - at);
    if (!name.empty() && name != ".") names.push_back(std::move(name));
    at = end + 1;
  }
  return names;
}

}  // namespace

// --- one process's view

class SimFile final : public File {
 public:
  SimFile(SimDisk& disk, std::shared_ptr<const bool> frozen, std::string path, SimDisk::InodeRef inode, bool writable)
      : disk_(disk), frozen_(std::move(frozen)), path_(std::move(path)), inode_(std::move(inode)), writable_(writable) {
    ++inode_->handles;
  }
  ~SimFile() override {
    --inode_->handles;
    disk_.releaseIfUnused(*inode_);
  }

  const std::string& path() const override { return path_; }
  int descriptor() const override { return -1; }

  size_t read(uint64_t offset, MutableBytes into) const override {
    check(DiskOperation::read, "read");
    auto& content = inode_->content;
    if (offset >= content.size()) return 0;
    size_t count = std::min<size_t>(into.size(), content.size() - offset);
    std::copy_n(content.begin() + static_cast<ptrdiff_t>(offset), count, into.begin());
    return count;
  }

  size_t readCached(uint64_t offset, MutableBytes into) const override {
    if (disk_.random_.chance(1, 4)) into = into.first(disk_.random_.below(into.size() + 1));
    return read(offset, into);
  }

  void write(uint64_t offset, std::span<const Bytes> pieces) override {
    if (ignored()) return;
    check(DiskOperation::write, "write");
    if (!writable_) throw ioError("write", path_, EBADF);
    for (auto& piece : pieces) {
      // A full disk takes what it has room for: the rest is a torn tail.
      uint64_t end = offset + piece.size();
      uint64_t grows = end > inode_->content.size() ? end - inode_->content.size() : 0;
      uint64_t room = disk_.capacity_ > disk_.used_ ? disk_.capacity_ - disk_.used_ : 0;
      size_t count = grows <= room ? piece.size() : piece.size() - std::min<uint64_t>(piece.size(), grows - room);
      put(offset, piece.first(count));
      if (count < piece.size()) throw ioError("write", path_, ENOSPC);
      offset = end;
    }
  }

  void sync() override {
    if (ignored()) return;
    if (int error = disk_.fault(DiskOperation::sync, path_)) {
      inode_->inDoubt.merge(inode_->dirty);
      inode_->dirty.clear();
      throw ioError("sync", path_, error);
    }
    inode_->dirty.clear();
    inode_->durableSize = inode_->content.size();
  }

  void truncate(uint64_t size) override {
    if (ignored()) return;
    check(DiskOperation::truncate, "truncate");
    if (!writable_) throw ioError("truncate", path_, EINVAL);
    uint64_t had = inode_->content.size();
    if (size > had && size - had > disk_.capacity_ - std::min(disk_.capacity_, disk_.used_)) {
      throw ioError("truncate", path_, ENOSPC);
    }
    SimDisk::resize(*inode_, size);
    inode_->modified = disk_.clock_();
  }

  bool reserve(uint64_t) override { return !*frozen_; }

  uint64_t size() const override { return inode_->content.size(); }

 private:
  bool ignored() {
    if (!*frozen_) return false;
    ++disk_.changesAfterCrash_;
    return true;
  }
  void check(DiskOperation operation, const char* name) const {
    if (*frozen_) throw ioError(name, path_, EIO);
    if (int error = disk_.fault(operation, path_)) throw ioError(name, path_, error);
  }
  void put(uint64_t offset, Bytes bytes) {
    if (bytes.empty()) return;
    inode_->modified = disk_.clock_();
    if (offset + bytes.size() > inode_->content.size()) SimDisk::resize(*inode_, offset + bytes.size());
    for (uint64_t page = offset / SimDisk::kPageBytes; page <= (offset + bytes.size() - 1) / SimDisk::kPageBytes;
         ++page) {
      inode_->remember(page);
    }
    std::ranges::copy(bytes, inode_->content.begin() + static_cast<ptrdiff_t>(offset));
  }

  SimDisk& disk_;
  std::shared_ptr<const bool> frozen_;
  const std::string path_;
  const SimDisk::InodeRef inode_;
  const bool writable_;
};

class SimLock final : public FileLock {
 public:
  SimLock(SimDisk& disk, std::shared_ptr<const bool> frozen, std::string path)
      : disk_(disk), frozen_(std::move(frozen)), path_(std::move(path)) {}
  ~SimLock() override {
    if (!*frozen_) disk_.locks_.erase(path_);  // otherwise the crash has released it
  }

 private:
  SimDisk& disk_;
  std::shared_ptr<const bool> frozen_;
  const std::string path_;
};

class SimFileSystem final : public FileSystem {
 public:
  SimFileSystem(SimDisk& disk, std::shared_ptr<const bool> frozen, int64_t processId)
      : disk_(disk), frozen_(std::move(frozen)), processId_(processId) {}

  FileRef open(const std::string& path, OpenMode mode) override {
    check(DiskOperation::open, "open", path);
    SimDisk::InodeRef inode = disk_.find(path);
    if (inode != nullptr && inode->directory && mode != OpenMode::read) {
      throw ioError("open", path, mode == OpenMode::createNew ? EEXIST : EISDIR);
    }
    if (inode != nullptr && mode == OpenMode::createNew) throw ioError("open", path, EEXIST);
    if (inode == nullptr) {
      if (mode == OpenMode::read || mode == OpenMode::readWrite) throw ioError("open", path, ENOENT);
      auto [directory, name] = parent("open", path);
      inode = disk_.newInode(false);
      disk_.apply({{directory, name, inode}});
    }
    return std::make_shared<SimFile>(disk_, frozen_, path, std::move(inode), mode != OpenMode::read);
  }

  std::vector<DirectoryEntry> list(const std::string& directory) override {
    check(DiskOperation::list, "list", directory);
    SimDisk::InodeRef inode = disk_.find(directory);
    if (inode == nullptr) throw ioError("list", directory, ENOENT);
    if (!inode->directory) throw ioError("list", directory, ENOTDIR);
    std::vector<DirectoryEntry> entries;
    for (auto& [name, entry] : inode->entries) {
      entries.push_back(
          {.name = name, .isDirectory = entry->directory, .size = entry->content.size(), .modified = entry->modified});
    }
    return entries;
  }

  bool exists(const std::string& path) override { return disk_.find(path) != nullptr; }

  void makeDirectory(const std::string& path) override {
    if (ignored()) return;
    check(DiskOperation::makeDirectory, "make directory", path);
    SimDisk::InodeRef at = disk_.root_;
    for (auto& name : namesIn(path)) {
      if (!at->directory) throw ioError("make directory", path, ENOTDIR);
      auto found = at->entries.find(name);
      if (found == at->entries.end()) {
        SimDisk::InodeRef made = disk_.newInode(true);
        disk_.apply({{at, name, made}});
        at = made;
      } else {
        at = found->second;
      }
    }
    if (!at->directory) throw ioError("make directory", path, EEXIST);
  }

  void removeDirectory(const std::string& path) override {
    if (ignored()) return;
    check(DiskOperation::remove, "remove directory", path);
    SimDisk::InodeRef inode = disk_.find(path);
    if (inode == nullptr) throw ioError("remove directory", path, ENOENT);
    if (!inode->directory) throw ioError("remove directory", path, ENOTDIR);
    if (!inode->entries.empty()) throw ioError("remove directory", path, ENOTEMPTY);
    auto [directory, name] = parent("remove directory", path);
    disk_.apply({{directory, name, nullptr}});
  }

  void remove(const std::string& path) override {
    if (ignored()) return;
    check(DiskOperation::remove, "remove", path);
    SimDisk::InodeRef inode = disk_.find(path);
    if (inode == nullptr) throw ioError("remove", path, ENOENT);
    if (inode->directory) throw ioError("remove", path, EISDIR);
    auto [directory, name] = parent("remove", path);
    disk_.apply({{directory, name, nullptr}});
  }

  void rename(const std::string& from, const std::string& to) override {
    if (ignored()) return;
    std::string operation = "rename to " + to + " the file";
    check(DiskOperation::rename, operation.c_str(), from);
    SimDisk::InodeRef inode = disk_.find(from), replaced = disk_.find(to);
    if (inode == nullptr) throw ioError(operation.c_str(), from, ENOENT);
    if (inode == replaced) return;
    if (replaced != nullptr) {
      if (replaced->directory && !inode->directory) throw ioError(operation.c_str(), from, EISDIR);
      if (!replaced->directory && inode->directory) throw ioError(operation.c_str(), from, ENOTDIR);
      if (replaced->directory && !replaced->entries.empty()) throw ioError(operation.c_str(), from, ENOTEMPTY);
    }
    auto [fromDirectory, fromName] = parent(operation.c_str(), from);
    auto [toDirectory, toName] = parent(operation.c_str(), to);
    disk_.apply({{fromDirectory, fromName, nullptr}, {toDirectory, toName, inode}});
  }

  void syncDirectory(const std::string& path) override {
    if (ignored()) return;
    if (int error = disk_.fault(DiskOperation::syncDirectory, path)) throw ioError("sync directory", path, error);
    SimDisk::InodeRef inode = disk_.find(path);
    if (inode == nullptr) throw ioError("open", path, ENOENT);
    if (!inode->directory) throw ioError("open", path, ENOTDIR);
    disk_.commit(inode);
  }

  DiskSpace space(const std::string&) override {
    return {.total = disk_.capacity_, .available = disk_.capacity_ - std::min(disk_.capacity_, disk_.used_)};
  }

  std::optional<std::unique_ptr<FileLock>> lock(const std::string& path, int64_t* holder) override {
    check(DiskOperation::lock, "lock", path);
    open(path, OpenMode::create);
    auto [held, first] = disk_.locks_.try_emplace(path, processId_);
    if (!first) {
      if (holder != nullptr) *holder = held->second;
      return std::nullopt;
    }
    return std::make_unique<SimLock>(disk_, frozen_, path);
  }

 private:
  bool ignored() {
    if (!*frozen_) return false;
    ++disk_.changesAfterCrash_;
    return true;
  }
  void check(DiskOperation operation, const char* name, const std::string& path) {
    if (*frozen_) throw ioError(name, path, EIO);
    if (int error = disk_.fault(operation, path)) throw ioError(name, path, error);
  }
  std::pair<SimDisk::InodeRef, std::string> parent(const char* operation, const std::string& path) {
    auto found = disk_.parentOf(path);
    if (found.first == nullptr) throw ioError(operation, path, ENOENT);
    if (!found.first->directory) throw ioError(operation, path, ENOTDIR);
    return found;
  }

  SimDisk& disk_;
  std::shared_ptr<const bool> frozen_;
  const int64_t processId_;
};

// --- the disk

SimDisk::SimDisk(Prng random) : random_(random), root_(newInode(true)) {}

SimDisk::~SimDisk() { clear(); }

// Directories and what waits in them refer to each other.
void SimDisk::clear() {
  for (auto& [number, weak] : std::map(all_)) {
    if (auto inode = weak.lock()) {
      inode->entries.clear();
      inode->durableEntries.clear();
      inode->pending.clear();
    }
  }
  root_ = nullptr;
}

void SimDisk::wipe() {
  clear();
  root_ = newInode(true);
  countSpace();
}

std::unique_ptr<FileSystem> SimDisk::mount(std::shared_ptr<const bool> frozen, int64_t processId) {
  locks_.clear();  // of the process before
  return std::make_unique<SimFileSystem>(*this, std::move(frozen), processId);
}

SimDisk::InodeRef SimDisk::newInode(bool directory) {
  auto inode = std::make_shared<Inode>(*this, ++inodes_, directory);
  inode->modified = clock_();
  all_.emplace(inode->number, inode);
  return inode;
}

SimDisk::InodeRef SimDisk::find(const std::string& path) const {
  InodeRef at = root_;
  for (auto& name : namesIn(path)) {
    auto found = at->entries.find(name);
    if (found == at->entries.end()) return nullptr;
    at = found->second;
  }
  return at;
}

std::pair<SimDisk::InodeRef, std::string> SimDisk::parentOf(const std::string& path) const {
  std::vector<std::string> names = namesIn(path);
  if (names.empty()) return {nullptr, ""};
  InodeRef at = root_;
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    auto found = at->entries.find(names[i]);
    if (found == at->entries.end()) return {nullptr, ""};
    at = found->second;
  }
  return {at, names.back()};
}

void SimDisk::apply(std::vector<Change> changes) {
  auto operation = std::make_shared<Operation>(Operation{.number = ++operations_, .changes = std::move(changes)});
  std::vector<InodeRef> gone;
  for (auto& change : operation->changes) {
    InodeRef before = std::exchange(change.directory->entries[change.name], change.target);
    if (change.target == nullptr) {
      change.directory->entries.erase(change.name);
    } else {
      ++change.target->names;
    }
    if (before != nullptr) --before->names;
    auto& pending = change.directory->pending;
    if (pending.empty() || pending.back() != operation) pending.push_back(operation);
    if (before != nullptr) gone.push_back(std::move(before));
  }
  for (auto& inode : gone) releaseIfUnused(*inode);
}

void SimDisk::releaseIfUnused(Inode& inode) {
  if (inode.names > 0 || inode.handles > 0 || !inode.counted) return;
  inode.counted = false;  // its bytes may still come back with a power cut
  used_ -= inode.content.size();
}

void SimDisk::countSpace() {
  std::vector<InodeRef> inodes;
  for (auto& [number, weak] : all_) {
    if (auto inode = weak.lock()) inodes.push_back(std::move(inode));
  }
  for (auto& inode : inodes) inode->names = 0;
  std::vector<InodeRef> directories{root_};
  for (size_t i = 0; i < directories.size(); ++i) {
    for (auto& [name, entry] : InodeRef(directories[i])->entries) {
      ++entry->names;
      if (entry->directory) directories.push_back(entry);
    }
  }
  used_ = 0;
  for (auto& inode : inodes) {
    inode->counted = inode->names > 0 || inode->handles > 0;
    if (inode->counted) used_ += inode->content.size();
  }
}

void SimDisk::commit(const InodeRef& directory) {
  // A rename between directories is durable in both or in neither, and so is what came before it in the other.
  std::vector<InodeRef> directories{directory};
  std::map<uint64_t, std::shared_ptr<Operation>> operations;
  for (size_t i = 0; i < directories.size(); ++i) {
    for (auto& operation : std::exchange(directories[i]->pending, {})) {
      operations.emplace(operation->number, operation);
      for (auto& change : operation->changes) {
        if (std::ranges::find(directories, change.directory) == directories.end())
          directories.push_back(change.directory);
      }
    }
  }
  for (auto& [number, operation] : operations) {
    for (auto& change : operation->changes) {
      if (change.target == nullptr) {
        change.directory->durableEntries.erase(change.name);
      } else {
        change.directory->durableEntries[change.name] = change.target;
      }
    }
  }
}

void SimDisk::resize(Inode& file, uint64_t size) {
  uint64_t had = file.content.size();
  if (size == had) return;
  // Each page that is cut off or cut through changes, and so does the last one when zeros are put behind it.
  uint64_t first = std::min(had, size) / kPageBytes;
  for (uint64_t page = first; page * kPageBytes < had; ++page) file.remember(page);
  file.content.resize(size);
  if (file.counted) file.disk.used_ = file.disk.used_ - had + size;
}

void SimDisk::loseUnsyncedData(Inode& file) {
  // All of it may have been written back by now, or nothing: page by page alone, neither would ever come up.
  uint64_t fate = random_.below(4);
  if (fate == 0) {
    file.dirty.clear();
    file.inDoubt.clear();
    file.durableSize = file.content.size();
    return;
  }
  // The size after the crash.
  uint64_t size = file.content.size();
  if (size != file.durableSize) {
    uint64_t low = std::min(size, file.durableSize), high = std::max(size, file.durableSize);
    switch (fate == 1 ? 0 : random_.below(3)) {
      case 0: size = file.durableSize; break;
      case 1: break;
      default:
        size = std::min(high, (low / kPageBytes + 1 + random_.below((high - low) / kPageBytes + 1)) * kPageBytes);
    }
  }
  std::vector<uint8_t> after = file.content;
  after.resize(std::max({after.size(), static_cast<size_t>(file.durableSize), static_cast<size_t>(size)}));
  file.inDoubt.merge(file.dirty);
  for (auto& [page, old] : file.inDoubt) {
    size_t begin = page * kPageBytes;
    if (begin >= after.size()) continue;
    size_t length = std::min(kPageBytes, after.size() - begin);
    size_t kept = 0;  // bytes of the new content from the page's begin
    switch (fate == 1 ? 0 : random_.below(3)) {
      case 0: break;
      case 1: kept = length; break;
      default: kept = std::min(length, random_.below(kPageBytes / kSectorBytes) * kSectorBytes);
    }
    for (size_t i = kept; i < length; ++i) after[begin + i] = i < old.size() ? old[i] : 0;
  }
  after.resize(size);
  file.content = std::move(after);
  file.durableSize = size;
  file.dirty.clear();
  file.inDoubt.clear();
}

void SimDisk::loseUnsynced() {
  std::vector<InodeRef> inodes;
  for (auto& [number, weak] : all_) {
    if (auto inode = weak.lock()) inodes.push_back(std::move(inode));
  }
  std::map<uint64_t, std::shared_ptr<Operation>> operations;
  for (auto& inode : inodes) {
    if (!inode->directory) {
      loseUnsyncedData(*inode);
      continue;
    }
    size_t kept = inode->pending.empty() ? 0 : random_.below(inode->pending.size() + 1);
    for (size_t i = 0; i < inode->pending.size(); ++i) {
      operations.emplace(inode->pending[i]->number, inode->pending[i]);
      if (i >= kept) inode->pending[i]->lost = true;
    }
    inode->pending.clear();
  }
  for (auto& [number, operation] : operations) {
    if (operation->lost) continue;
    for (auto& change : operation->changes) {
      if (change.target == nullptr) {
        change.directory->durableEntries.erase(change.name);
      } else {
        change.directory->durableEntries[change.name] = change.target;
      }
    }
  }
  for (auto& inode : inodes) {
    if (inode->directory) inode->entries = inode->durableEntries;
  }
  countSpace();
}

bool SimDisk::flipBit(const std::string& path, uint64_t offset, unsigned bit) {
  InodeRef inode = find(path);
  if (inode == nullptr || inode->directory || offset >= inode->content.size()) return false;
  auto mask = static_cast<uint8_t>(1u << (bit % 8));
  inode->content[offset] ^= mask;
  for (auto* pages : {&inode->dirty, &inode->inDoubt}) {
    auto page = pages->find(offset / kPageBytes);
    size_t within = offset % kPageBytes;
    if (page != pages->end() && within < page->second.size()) page->second[within] ^= mask;
  }
  return true;
}

}  // namespace mq::sim
