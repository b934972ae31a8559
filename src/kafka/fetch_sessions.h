// Incremental fetch sessions (KIP-227): the broker remembers what a consumer reads, requests name only what changed in
// that, and answers only what is new.
//
//   request epoch  -1   no session; ends the one named
//                   0   a full list that wants to become a session; ends the one named
//                   n   the n-th request of the session: changes to its list
//
// A fetch costs what changed: the owners of the partitions remember where each one is read from (replica::Reader), and
// tell of those that have news. The session keeps the client's list, what the client was told last, and what the owners
// are still to be told: which entries are stale, which partitions were dropped, which were served.
//
// Slots are few. A new session may take the place of one that nobody used for kEvictAfter; otherwise the client goes on
// without one. Sessions belong to a shard: a client that comes back on another shard gets FETCH_SESSION_ID_NOT_FOUND,
// and starts anew.
#pragma once
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "base/types.h"
#include "replica/partition.h"

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
    TopicIdPartition followed;  // as its owner knows it; zero topic: it does not
    // What the client was told last; -1: nothing yet, or an error.
    Offset highWatermark{-1};
    Offset logStart{-1};
    bool told = false;
  };
  using Entries = std::map<uint64_t, Entry>;  // by a number that is given in the order of the client's list

  FetchSession(int32_t id, bool byTopicId) : id_(id), byTopicId_(byTopicId) {}
  ~FetchSession() {
    if (onEnd) onEnd();
  }
  FetchSession(const FetchSession&) = delete;

  bool inUse = false;  // a request of it is being served
  // Of the handler: under which token which shards know of the session, and what they were told to look for.
  uint64_t token = 0;
  std::set<uint32_t> owners;
  replica::Isolation isolation = replica::Isolation::readUncommitted;
  bool isAnswered = true;  // the last request came to its end, so the client knows what was meant for it
  std::function<void()> onEnd;

  int32_t id() const { return id_; }
  int32_t nextEpoch() const { return nextEpoch_; }
  bool byTopicId() const { return byTopicId_; }
  size_t size() const { return byTarget_.size(); }

  void update(FetchWish wish);
  void forget(const FetchTarget& target);
  // The entry of that number; null: it was forgotten.
  Entry* find(uint64_t number);
  const Entries& entries() const { return entries_; }

  // What the owners are still to be told. Whoever takes it tells them.
  std::vector<uint64_t> takeStale();
  std::vector<TopicIdPartition> takeDropped() { return std::exchange(dropped_, {}); }
  std::vector<TopicIdPartition> takeServed() { return std::exchange(served_, {}); }
  void setStale(uint64_t number) { stale_.insert(number); }
  void setAllStale();
  void addDropped(const TopicIdPartition& id) { dropped_.push_back(id); }
  void addServed(const TopicIdPartition& id) { served_.push_back(id); }

  void advance() { nextEpoch_ = nextEpoch_ == INT32_MAX ? 1 : nextEpoch_ + 1; }

 private:
  int32_t id_;
  bool byTopicId_;
  int32_t nextEpoch_ = 1;
  Entries entries_;
  uint64_t nextNumber_ = 0;
  std::map<FetchTarget, uint64_t> byTarget_;  // keys view into the entries
  std::set<uint64_t> stale_;
  std::vector<TopicIdPartition> dropped_;
  std::vector<TopicIdPartition> served_;
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
  FetchSession& operator*() const { return *session_; }

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
