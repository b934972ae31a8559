// SortedMap: an ordered map that is cheap to copy and to change a copy of. The entries lie in sorted chunks that copies
// share; a change copies the list of chunks (once per copy of the map) and the one chunk it touches.
//
//   map      [chunk a..f] [chunk g..m] [chunk n..z]        chunks: 1..kChunkMax entries, none empty
//   copy         same         own          same            after copy.set("h", ...)
//
// So an image of 10,000 topics is followed by the next one for a few hundred pointers. Iteration is in key order.
// A map that is shared between threads must not be changed; change a copy. Pointers and iterators are good until the
// next change of this map or, if it is never changed, as long as it lives.
#pragma once
#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace mq::metadata {

template <class Key, class Value>
class SortedMap {
 public:
  using Entry = std::pair<Key, Value>;

 private:
  static constexpr size_t kChunkMax = 128;
  static constexpr size_t kChunkMin = 32;  // smaller ones are merged with a neighbour where that fits
  using Chunk = std::vector<Entry>;

 public:
  class Iterator {
   public:
    using value_type = Entry;
    using difference_type = std::ptrdiff_t;
    Iterator() = default;
    const Entry& operator*() const { return (*map_->chunks_[chunk_])[at_]; }
    const Entry* operator->() const { return &**this; }
    Iterator& operator++() {
      if (++at_ == map_->chunks_[chunk_]->size()) at_ = 0, ++chunk_;
      return *this;
    }
    Iterator operator++(int) {
      Iterator before = *this;
      ++*this;
      return before;
    }
    friend bool operator==(const Iterator&, const Iterator&) = default;

   private:
    friend class SortedMap;
    Iterator(const SortedMap* map, size_t chunk, size_t at) : map_(map), chunk_(chunk), at_(at) {}
    const SortedMap* map_ = nullptr;
    size_t chunk_ = 0;
    size_t at_ = 0;
  };

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Iterator begin() const { return {this, 0, 0}; }
  Iterator end() const { return {this, chunks_.size(), 0}; }

  // The first entry whose key is not less than `key`. K: anything the key compares with, std::string_view for strings.
  template <class K>
  Iterator lowerBound(const K& key) const {
    size_t chunk = chunkFor(key);
    if (chunk == chunks_.size()) return end();
    size_t at = placeIn(*chunks_[chunk], key);
    return at == chunks_[chunk]->size() ? Iterator{this, chunk + 1, 0} : Iterator{this, chunk, at};
  }

  // Null: not there.
  template <class K>
  const Value* find(const K& key) const {
    size_t chunk = chunkFor(key);
    if (chunk == chunks_.size()) return nullptr;
    size_t at = placeIn(*chunks_[chunk], key);
    if (at == chunks_[chunk]->size() || !((*chunks_[chunk])[at].first == key)) return nullptr;
    return &(*chunks_[chunk])[at].second;
  }

  void set(Key key, Value value) {
    if (chunks_.empty()) {
      chunks_.push_back(std::make_shared<Chunk>(1, Entry(std::move(key), std::move(value))));
      size_ = 1;
      return;
    }
    size_t index = std::min(chunkFor(key), chunks_.size() - 1);
    Chunk& chunk = own(index);
    size_t at = placeIn(chunk, key);
    if (at < chunk.size() && chunk[at].first == key) {
      chunk[at].second = std::move(value);
      return;
    }
    chunk.insert(chunk.begin() + static_cast<std::ptrdiff_t>(at), Entry(std::move(key), std::move(value)));
    ++size_;
    if (chunk.size() > kChunkMax) split(index);
  }

  template <class K>
  bool erase(const K& key) {
    size_t index = chunkFor(key);
    if (index == chunks_.size()) return false;
    size_t at = placeIn(*chunks_[index], key);
    if (at == chunks_[index]->size() || !((*chunks_[index])[at].first == key)) return false;
    Chunk& chunk = own(index);
    chunk.erase(chunk.begin() + static_cast<std::ptrdiff_t>(at));
    --size_;
    if (chunk.size() < kChunkMin) merge(index);
    return true;
  }

 private:
  // The only chunk that may hold the key: the first whose last key is not less. chunks_.size(): the key is past them
  // all.
  template <class K>
  size_t chunkFor(const K& key) const {
    auto found = std::lower_bound(chunks_.begin(), chunks_.end(), key,
                                  [](const std::shared_ptr<Chunk>& c, const K& k) { return c->back().first < k; });
    return static_cast<size_t>(found - chunks_.begin());
  }
  template <class K>
  static size_t placeIn(const Chunk& chunk, const K& key) {
    auto found =
        std::lower_bound(chunk.begin(), chunk.end(), key, [](const Entry& e, const K& k) { return e.first < k; });
    return static_cast<size_t>(found - chunk.begin());
  }

  // A chunk nobody else shares may be changed in place. The count cannot fall to one under our feet: whoever changes a
  // copy keeps the map it was copied from alive until it is done.
  Chunk& own(size_t index) {
    if (chunks_[index].use_count() != 1) {
      auto copy = std::make_shared<Chunk>();
      copy->reserve(chunks_[index]->size() + 1);
      *copy = *chunks_[index];
      chunks_[index] = std::move(copy);
    }
    return *chunks_[index];
  }
  void split(size_t index) {
    Chunk& low = *chunks_[index];
    auto middle = low.begin() + static_cast<std::ptrdiff_t>(low.size() / 2);
    auto high = std::make_shared<Chunk>(std::make_move_iterator(middle), std::make_move_iterator(low.end()));
    low.erase(middle, low.end());
    chunks_.insert(chunks_.begin() + static_cast<std::ptrdiff_t>(index) + 1, std::move(high));
  }
  void merge(size_t index) {
    if (chunks_[index]->empty()) {
      chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(index));
      return;
    }
    size_t low = index + 1 < chunks_.size() ? index : index - 1;
    if (chunks_.size() < 2 || chunks_[low]->size() + chunks_[low + 1]->size() > kChunkMax) return;
    Chunk& into = own(low);
    into.insert(into.end(), chunks_[low + 1]->begin(), chunks_[low + 1]->end());
    chunks_.erase(chunks_.begin() + static_cast<std::ptrdiff_t>(low) + 1);
  }

  std::vector<std::shared_ptr<Chunk>> chunks_;
  size_t size_ = 0;
};

}  // namespace mq::metadata
