// The server side assignors of KIP-848: who of a group's members reads which partitions. Pure.
//
//   uniform  as even as the subscriptions allow; keeps what members have, so that a change moves only what must move
//   range    of each topic a contiguous range per member in the order of their ids, so that members with equal
//            subscriptions get the same partitions of equally large topics
#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.h"

namespace mq::coordinator {

using Assignment = std::map<TopicId, std::set<int32_t>>;  // no topic without partitions

struct AssignorInput {
  struct Member {
    std::optional<std::string> instance;
    std::set<TopicId> topics;  // that it subscribes to and that exist
    Assignment before;         // its last target
  };
  std::map<std::string, Member> members;
  std::map<TopicId, int32_t> partitions;  // of every topic that anybody subscribes to
};

using Assignor = std::map<std::string, Assignment> (*)(const AssignorInput& input);  // every member is in it

Assignor findAssignor(std::string_view name);  // null: there is none of that name
inline constexpr std::string_view kDefaultAssignor = "uniform";

}  // namespace mq::coordinator
