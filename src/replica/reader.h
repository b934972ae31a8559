// Reader: a client's standing list of partitions on one shard, most of which have nothing new most of the time. It
// knows from where each is read and which ones may have something to tell, so that a look costs what changed and not
// what is listed.
//
// A partition is due when it is named, when it becomes readable further, and when it changes otherwise; until a look
// finds that the client has all of it and nothing is wrong.
#pragma once
#include <cstdint>
#include <list>
#include <map>
#include <vector>

#include <kj/async.h>

#include "replica/partition.h"

namespace mq::replica {

class Reader {
 public:
  struct Place {
    TopicIdPartition id;
    uint64_t tag = 0;  // the caller's name for it, given back with what is found
    Fetch fetch;       // bytesMax as the client asks; firstBatchWhole is decided by each look
  };
  struct Found {
    uint64_t tag = 0;
    Fetched fetched;
  };

  void name(const Place& place);  // a new one, or from elsewhere than before
  void drop(const TopicIdPartition& id);
  // Its bytes were sent: the others come first next time, so that a small answer starves nobody.
  void serveLast(const TopicIdPartition& id);
  bool has(const TopicIdPartition& id) const { return places_.contains(id); }
  size_t size() const { return places_.size(); }
  size_t dueCount() const { return due_.size(); }
  template <class Fn>
  void forEach(Fn fn) const {
    for (const auto& [id, kept] : places_) fn(id);
  }

  // Looks at what is due, in order. `fetch(id, request)` answers for one partition.
  template <class Fn>
  std::vector<Found> look(uint64_t bytesMax, Fn fetch);

  void readable(const TopicIdPartition& id, uint64_t bytes);
  void changed(const TopicIdPartition& id, bool isUrgent);

  // Resolves when so many bytes have become readable since the last look, when something urgent has changed since, or
  // by endWait(). One wait at a time: a second one ends the first.
  kj::Promise<void> wait(uint64_t bytesWanted);
  void endWait();

 private:
  using Due = std::list<TopicIdPartition>;
  struct Kept {
    uint64_t tag;
    Fetch fetch;
    bool isDue = false;
    Due::iterator due;  // if it is
  };
  void makeDue(const TopicIdPartition& id, Kept& kept);
  bool isOver() const { return urgent_ || readable_ >= wanted_; }

  std::map<TopicIdPartition, Kept> places_;
  Due due_;  // in the order of service
  uint64_t readable_ = 0;
  bool urgent_ = false;
  uint64_t wanted_ = 0;
  kj::Own<kj::PromiseFulfiller<void>> waiting_;
};

template <class Fn>
std::vector<Reader::Found> Reader::look(uint64_t bytesMax, Fn fetch) {
  readable_ = 0;
  urgent_ = false;
  std::vector<Found> found;
  found.reserve(due_.size());
  bool first = true;
  for (auto next = due_.begin(); next != due_.end();) {
    auto at = next++;
    Kept& kept = places_.at(*at);
    Fetch request = kept.fetch;
    request.bytesMax = static_cast<uint32_t>(std::min<uint64_t>(request.bytesMax, bytesMax));
    request.firstBatchWhole = first;
    Fetched fetched = fetch(*at, request);
    if (fetched.length > 0) first = false;
    bytesMax -= std::min<uint64_t>(bytesMax, fetched.length);
    Offset end = request.isolation == Isolation::readCommitted ? fetched.lastStableOffset : fetched.highWatermark;
    bool hasAll =
        fetched.error == Error::none && fetched.diverging.end.value() < 0 && fetched.length == 0 && request.from >= end;
    if (hasAll) {
      kept.isDue = false;
      due_.erase(at);
    }
    found.push_back({kept.tag, std::move(fetched)});
  }
  return found;
}

}  // namespace mq::replica
