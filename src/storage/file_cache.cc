#include "storage/file_cache.h"

#include "base/check.h"

namespace mq::storage {
namespace {
// How many pinned files are passed over before the search for one to close ends: the cost of an open stays bounded.
constexpr size_t kPinnedPassedMax = 64;
}  // namespace

FileCache::FileCache(FileSystem& system, size_t openMax) : system_(system), openMax_(openMax) { MQ_CHECK(openMax > 0); }

FileCache::~FileCache() {
  // Slots that outlive the cache keep their file but may no longer be used.
  while (oldest_ != nullptr) oldest_->close();
}

void FileCache::Slot::close() {
  if (cache_ == nullptr) return;
  cache_->detach(*this);
  --cache_->openCount_;
  cache_ = nullptr;
  file_ = nullptr;
}

FileRef FileCache::openInto(Slot& slot, const std::string& path, OpenMode mode) {
  makePlace();
  FileRef file = system_.open(path, mode);
  slot.file_ = file;
  slot.cache_ = this;
  ++openCount_;
  ++opened_;
  attach(slot);
  return file;
}

void FileCache::touch(Slot& slot) {
  if (&slot == newest_) return;
  detach(slot);
  attach(slot);
}

void FileCache::attach(Slot& slot) {
  slot.older_ = newest_;
  slot.newer_ = nullptr;
  (newest_ != nullptr ? newest_->newer_ : oldest_) = &slot;
  newest_ = &slot;
}

void FileCache::detach(Slot& slot) {
  (slot.older_ != nullptr ? slot.older_->newer_ : oldest_) = slot.newer_;
  (slot.newer_ != nullptr ? slot.newer_->older_ : newest_) = slot.older_;
  slot.older_ = slot.newer_ = nullptr;
}

void FileCache::makePlace() {
  Slot* slot = oldest_;
  for (size_t passed = 0; openCount_ >= openMax_ && slot != nullptr && passed < kPinnedPassedMax;) {
    Slot* next = slot->newer_;
    if (slot->file_.use_count() == 1) {
      slot->close();
    } else {
      ++passed;
    }
    slot = next;
  }
}

}  // namespace mq::storage
