// PendingOffsets: what producers have committed for groups inside transactions that are still open. A commit marker
// makes them the groups' own, an abort marker drops them.
//
// As in Kafka, of two commits for one partition the later record counts, not the later marker: what a plain commit or
// another transaction has overtaken stays pending until its marker comes, and then changes nothing.
#pragma once
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "base/types.h"
#include "coordinator/committed_offsets.h"

namespace mq::coordinator {

class PendingOffsets {
 public:
  struct Place {
    std::string group;
    std::string topic;
    int32_t partition = 0;
    friend auto operator<=>(const Place&, const Place&) = default;
  };
  struct Offset {
    TopicId topicId;
    CommittedOffset offset;
    uint64_t order = 0;  // grows with each one added
    bool isOvertaken = false;
  };
  using Offsets = std::map<Place, Offset>;

  void add(ProducerId producer, const Place& place, Offset offset);
  void overtake(const Place& place, uint64_t order = UINT64_MAX);  // what was committed there at that order counts
  void remove(const Place& place);                                 // the offset was deleted
  // Takes out all of the producer's, for its marker; empty if there are none. The rest is as before.
  Offsets take(ProducerId producer);

  bool has(const std::string& group) const;
  bool has(const Place& place) const { return byPlace_.contains(place); }
  std::vector<Place> placesOf(const std::string& group) const;
  size_t size() const { return size_; }

 private:
  using Places = std::map<Place, std::set<ProducerId>>;
  Places::const_iterator firstOf(const std::string& group) const;

  std::map<ProducerId, Offsets> byProducer_;
  Places byPlace_;  // in the order of groups
  size_t size_ = 0;
  uint64_t lastOrder_ = 0;
};

}  // namespace mq::coordinator
