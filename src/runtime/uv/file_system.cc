#include "runtime/uv/file_system.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <utility>

namespace mq {

namespace {

// Fresh page-cache pages cost 0.2 CPU s per GB in writes of 64-256 KiB, and up to 1.6 in writes of 1 MiB, where the
// kernel looks hard for large folios.
constexpr size_t kWriteBytesMax = 256 * 1024;
constexpr size_t kPiecesMax = 64;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  int get() const { return fd_; }

 private:
  int fd_;
};

Descriptor openDescriptor(const std::string& path, int flags) {
  for (;;) {
    int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (fd >= 0) return Descriptor(fd);
    if (errno != EINTR) throw ioError("open", path, errno);
  }
}

class RealFile final : public File {
 public:
  RealFile(std::string path, Descriptor descriptor) : path_(std::move(path)), descriptor_(std::move(descriptor)) {}

  const std::string& path() const override { return path_; }
  int descriptor() const override { return descriptor_.get(); }

  size_t read(uint64_t offset, MutableBytes into) const override {
    size_t done = 0;
    while (done < into.size()) {
      ssize_t count =
          ::pread(descriptor_.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (count == 0) break;
      if (count > 0) {
        done += static_cast<size_t>(count);
      } else if (errno != EINTR) {
        throw ioError("read", path_, errno);
      }
    }
    return done;
  }

  size_t readCached(uint64_t offset, MutableBytes into) const override {
    size_t done = 0;
    while (done < into.size()) {
      iovec rest{into.data() + done, into.size() - done};
      ssize_t count = ::preadv2(descriptor_.get(), &rest, 1, static_cast<off_t>(offset + done), RWF_NOWAIT);
      if (count > 0) {
        done += static_cast<size_t>(count);
      } else if (count == 0 || errno != EINTR) {
        break;  // the end, not in memory, or a file system that cannot say: read() tells
      }
    }
    return done;
  }

  void write(uint64_t offset, std::span<const Bytes> pieces) override {
    size_t piece = 0, within = 0;  // the next byte to write
    for (;;) {
      iovec vectors[kPiecesMax];
      size_t count = 0, bytes = 0;
      for (size_t p = piece, skip = within; p < pieces.size() && count < kPiecesMax && bytes < kWriteBytesMax; ++p) {
        size_t length = std::min(pieces[p].size() - skip, kWriteBytesMax - bytes);
        if (length > 0) vectors[count++] = {const_cast<uint8_t*>(pieces[p].data()) + skip, length};
        bytes += length;
        skip = 0;
      }
      if (bytes == 0) return;
      ssize_t wrote = ::pwritev(descriptor_.get(), vectors, static_cast<int>(count), static_cast<off_t>(offset));
      if (wrote < 0) {
        if (errno == EINTR) continue;
        throw ioError("write", path_, errno);
      }
      if (wrote == 0) throw ioError("write", path_, EIO);
      offset += static_cast<uint64_t>(wrote);
      for (auto left = static_cast<size_t>(wrote); piece < pieces.size();) {
        size_t step = std::min(left, pieces[piece].size() - within);
        within += step;
        left -= step;
        if (within < pieces[piece].size()) break;
        ++piece;
        within = 0;
      }
    }
  }

  void sync() override {
    // Once: after a failure the kernel may report success for pages that it has dropped.
    if (::fdatasync(descriptor_.get()) != 0) throw ioError("sync", path_, errno);
  }

  void truncate(uint64_t size) override {
    while (::ftruncate(descriptor_.get(), static_cast<off_t>(size)) != 0) {
      if (errno != EINTR) throw ioError("truncate", path_, errno);
    }
  }

  bool reserve(uint64_t size) override {
    uint64_t from = this->size();
    if (size <= from) return true;
    int failed = 0;
    do {
      failed = ::fallocate(descriptor_.get(), FALLOC_FL_KEEP_SIZE, static_cast<off_t>(from),
                           static_cast<off_t>(size - from));
    } while (failed != 0 && errno == EINTR);
    return failed == 0;
  }

  uint64_t size() const override {
    struct stat status;
    if (::fstat(descriptor_.get(), &status) != 0) throw ioError("look at", path_, errno);
    return static_cast<uint64_t>(status.st_size);
  }

 private:
  const std::string path_;
  const Descriptor descriptor_;
};

class RealLock final : public FileLock {
 public:
  explicit RealLock(Descriptor descriptor) : descriptor_(std::move(descriptor)) {}

 private:
  const Descriptor descriptor_;  // closing it unlocks
};

class RealFileSystem final : public FileSystem {
 public:
  FileRef open(const std::string& path, OpenMode mode) override {
    int flags = mode == OpenMode::read ? O_RDONLY : O_RDWR;
    if (mode == OpenMode::create) flags |= O_CREAT;
    if (mode == OpenMode::createNew) flags |= O_CREAT | O_EXCL;
    return std::make_shared<RealFile>(path, openDescriptor(path, flags));
  }

  std::vector<DirectoryEntry> list(const std::string& directory) override {
    std::unique_ptr<DIR, int (*)(DIR*)> open(::opendir(directory.c_str()), &::closedir);
    if (open == nullptr) throw ioError("list", directory, errno);
    std::vector<DirectoryEntry> entries;
    for (;;) {
      errno = 0;
      dirent* found = ::readdir(open.get());
      if (found == nullptr) {
        if (errno != 0) throw ioError("list", directory, errno);
        break;
      }
      std::string name = found->d_name;
      if (name == "." || name == "..") continue;
      struct stat status;
      if (::fstatat(::dirfd(open.get()), name.c_str(), &status, 0) != 0) {
        if (errno == ENOENT) continue;  // gone meanwhile, or a link to nowhere
        throw ioError("look at", directory + "/" + name, errno);
      }
      uint64_t size = S_ISREG(status.st_mode) ? static_cast<uint64_t>(status.st_size) : 0;
      entries.push_back({.name = std::move(name),
                         .isDirectory = S_ISDIR(status.st_mode),
                         .size = size,
                         .modified = WallMs(status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1'000'000)});
    }
    std::ranges::sort(entries, {}, &DirectoryEntry::name);
    return entries;
  }

  bool exists(const std::string& path) override {
    struct stat status;
    if (::stat(path.c_str(), &status) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    throw ioError("look at", path, errno);
  }

  void makeDirectory(const std::string& path) override {
    if (::mkdir(path.c_str(), 0755) == 0) return;
    int error = errno;
    if (error == ENOENT) {
      size_t slash = path.find_last_not_of('/');
      slash = slash == std::string::npos ? slash : path.rfind('/', slash);
      if (slash != std::string::npos && slash > 0) {
        makeDirectory(path.substr(0, slash));
        if (::mkdir(path.c_str(), 0755) == 0) return;
        error = errno;
      }
    }
    struct stat status;
    if (error == EEXIST && ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode)) return;
    throw ioError("make directory", path, error);
  }

  void removeDirectory(const std::string& path) override {
    if (::rmdir(path.c_str()) != 0) throw ioError("remove directory", path, errno);
  }

  void remove(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) throw ioError("remove", path, errno);
  }

  void rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) throw ioError(("rename to " + to + " the file").c_str(), from, errno);
  }

  void syncDirectory(const std::string& path) override {
    Descriptor directory = openDescriptor(path, O_RDONLY | O_DIRECTORY);
    if (::fsync(directory.get()) != 0) throw ioError("sync directory", path, errno);
  }

  DiskSpace space(const std::string& path) override {
    struct statvfs status;
    while (::statvfs(path.c_str(), &status) != 0) {
      if (errno != EINTR) throw ioError("ask for the space of", path, errno);
    }
    return {.total = static_cast<uint64_t>(status.f_blocks) * status.f_frsize,
            .available = static_cast<uint64_t>(status.f_bavail) * status.f_frsize};
  }

  std::optional<std::unique_ptr<FileLock>> lock(const std::string& path, int64_t* holder) override {
    Descriptor file = openDescriptor(path, O_RDWR | O_CREAT);
    char text[32] = {};
    while (::flock(file.get(), LOCK_EX | LOCK_NB) != 0) {
      if (errno == EINTR) continue;
      if (errno != EWOULDBLOCK) throw ioError("lock", path, errno);
      ssize_t count = ::pread(file.get(), text, sizeof text - 1, 0);
      if (holder != nullptr && count > 0) std::from_chars(text, text + count, *holder);
      return std::nullopt;
    }
    // The pid is a courtesy to whoever is refused; the lock holds without it, even on a full disk.
    auto end = std::to_chars(text, text + sizeof text - 1, ::getpid()).ptr;
    *end++ = '\n';
    if (::ftruncate(file.get(), 0) == 0) {
      [[maybe_unused]] ssize_t wrote = ::pwrite(file.get(), text, static_cast<size_t>(end - text), 0);
    }
    return std::make_unique<RealLock>(std::move(file));
  }
};

}  // namespace

std::unique_ptr<FileSystem> realFileSystem() { return std::make_unique<RealFileSystem>(); }

}  // namespace mq
