// Incremental fetch sessions (KIP-227): the broker remembers what a consumer reads, requests name only what changed in
// that, and answers only what is new.
//
//   request epoch  -1   no session; ends the one named
//                   0   a full list that wants to become a session; ends the one named
//                   n   the n-th request of the session: changes to its list
//
// The list is kept in the order in which partitions should be served: one that returned data moves to the end, so a
// full answer never starves the rest.
//
// Slots are few. A new session may take the place of one that nobody used for kEvictAfter; otherwise the client goes on
// without one. Sessions belong to a shard: a client that comes back on another shard gets FETCH_SESSION_ID_NOT_FOUND,
// and starts anew.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/types.h"

namespace mq::kafka {

// What a client wants of one partition. Topics go by name below Fetch v13 (id is then zero) and by id from there on.
struct FetchWish {
  std::string topic;
  TopicId id;
  int32_t partition = 0;
  Offset from;
  int32_t bytesMax = 0;
  LeaderEpoch currentLeaderEpoch = kNoLeaderEpoch;
  LeaderEpoch lastFetchedEpoch = kNoLeaderEpoch;
};

// Names one partition in a session.
struct FetchTarget {
  std::string_view topic;
  TopicId id;
  int32_t partition = 0;
  friend auto operator<=>(const FetchTarget&, const FetchTarget&) = default;
};

class FetchSession {
 public:
  struct Entry {
    FetchWish wish;
    // What the client was told last; -1: nothing yet, or an error.
    Offset highWatermark{-1};
    Offset logStart{-1};
    bool told = false;
  };
  using Entries = std::list<Entry>;

  FetchSession(int32_t id, bool byTopicId) : id_(id), byTopicId_(byTopicId) {}
  FetchSession(const FetchSession&) = delete;

  bool inUse = false;  // a request of it is being served, and holds iterators into entries()

  int32_t id() const { return id_; }
  int32_t nextEpoch() const { return nextEpoch_; }
  bool byTopicId() const { return byTopicId_; }
  size_t size() const { return byTarget_.size(); }

  void update(FetchWish wish);
  void forget(const FetchTarget& target);
  Entries& entries() { return entries_; }  // in the order of service
  void moveToEnd(Entries::iterator entry) { entries_.splice(entries_.end(), entries_, entry); }
  void advance() { nextEpoch_ = nextEpoch_ == INT32_MAX ? 1 : nextEpoch_ + 1; }

 private:
  int32_t id_;
  bool byTopicId_;
  int32_t nextEpoch_ = 1;
  Entries entries_;
  std::map<FetchTarget, Entries::iterator> byTarget_;  // keys view into the entries
};

// The session for the time that one request takes. Ending the session meanwhile is safe; a second request is refused.
class FetchSessionUse {
 public:
  FetchSessionUse() = default;
  explicit FetchSessionUse(std::shared_ptr<FetchSession> session) : session_(std::move(session)) {
    session_->inUse = true;
  }
  FetchSessionUse(FetchSessionUse&&) = default;
  FetchSessionUse& operator=(FetchSessionUse&& other) noexcept {
    std::swap(session_, other.session_);
    return *this;
  }
  ~FetchSessionUse() {
    if (session_) session_->inUse = false;
  }
  explicit operator bool() const { return session_ != nullptr; }
  FetchSession* operator->() const { return session_.get(); }

 private:
  std::shared_ptr<FetchSession> session_;
};

class FetchSessions {
 public:
  static constexpr Duration kEvictAfter = 2min;

  // Ids are unique in the node, and never 0.
  FetchSessions(Prng& random, uint32_t shard, uint32_t shards, size_t slots)
      : random_(random), shard_(shard), shards_(shards), slots_(slots) {}

  // Empty: no slot is free.
  FetchSessionUse create(bool byTopicId, Instant now);
  // The session for its n-th request, whose epoch is checked and advanced. Errors: fetchSessionIdNotFound,
  // invalidFetchSessionEpoch (also while another request of it is served), fetchSessionTopicIdError.
  Result<FetchSessionUse> resume(int32_t id, int32_t epoch, bool byTopicId, Instant now);
  void close(int32_t id);
  size_t size() const { return sessions_.size(); }

 private:
  struct Slot {
    std::shared_ptr<FetchSession> session;
    std::list<int32_t>::iterator use;
    Instant lastUsed;
  };

  Prng& random_;
  uint32_t shard_;
  uint32_t shards_;
  size_t slots_;
  std::map<int32_t, Slot> sessions_;
  std::list<int32_t> uses_;  // least recently used first
};

}  // namespace mq::kafka
