// GroupHistory: what simulated members of consumer groups were told, and whether it fits together.
//
//   one-owner     in one generation of a group no two members have the same partition
//   two-owners    in the consumer protocol no partition is a member's before the one that had it has given it back
//   generations   a member's generations grow
//   commits       an offset that is read is at least the last one that was acknowledged before the read began, and at
//                 most the highest that was ever sent: a commit is undone only by a later one. Members commit ever
//                 higher offsets of a partition, and go on from the one they read, so a lower one is a lost commit.
//                 What was read counts as acknowledged: nobody may be told what can still be lost.
//
// A violation is thrown as kj::Exception that begins with the check's name. One thread, no I/O.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/types.h"

namespace mq::sim {

class GroupHistory {
 public:
  void assigned(const std::string& group, int32_t generation, const std::string& member,
                const std::vector<int32_t>& partitions);

  // In the consumer protocol: the member has these partitions and no others until it says otherwise, or until its own
  // patience with a silent coordinator ends.
  void owns(const std::string& group, const std::string& member, const std::vector<int32_t>& partitions, Instant now,
            Instant until);

  void committing(const std::string& group, int32_t partition, int64_t offset);
  void committed(const std::string& group, int32_t partition, int64_t offset);
  // What a read that begins now may not fall behind; -1: nothing was acknowledged yet.
  int64_t acknowledged(const std::string& group, int32_t partition) const;
  // `offset` was read; -1: none is committed. `floor` is what acknowledged() said when the read began.
  void read(const std::string& group, int32_t partition, int64_t offset, int64_t floor);
  // While leaders change, one that does not know yet that it is deposed may tell what was committed before.
  void mayBeDeposed(bool may) { mayBeDeposed_ = may; }

  uint64_t commits() const { return commits_; }
  uint64_t assignments() const { return assignments_; }

 private:
  bool mayBeDeposed_ = false;
  struct Progress {
    int64_t sent = -1;
    int64_t acknowledged = -1;
  };
  std::map<std::pair<std::string, int32_t>, Progress> progress_;
  // group, generation, partition → member
  std::map<std::tuple<std::string, int32_t, int32_t>, std::string> owners_;
  struct Holder {
    std::string member;
    Instant until;
  };
  std::map<std::pair<std::string, int32_t>, Holder> holders_;           // group, partition: who has it
  std::map<std::pair<std::string, std::string>, int32_t> generations_;  // group, member → latest
  uint64_t commits_ = 0, assignments_ = 0;
};

}  // namespace mq::sim
