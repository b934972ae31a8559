#include "coordinator/assignors.h"

#include <algorithm>

namespace mq::coordinator {
namespace {

using Assignments = std::map<std::string, Assignment>;
using Place = std::pair<TopicId, int32_t>;  // topic, partition

struct Load {
  const std::string* member;
  const AssignorInput::Member* from;
  std::vector<Place> has;  // what it keeps comes first
  bool reads(const TopicId& topic) const { return from->topics.contains(topic); }
};

// Partitions that somebody reads, none of them owned yet; each member with what it had and may keep, at most `quota` of
// it where the quota is known.
struct Start {
  std::vector<Load> loads;  // by member id
  std::vector<Place> free;
};

Start startOf(const AssignorInput& input) {
  Start start;
  std::map<Place, bool> taken;
  for (const auto& [topic, count] : input.partitions) {
    bool isRead = std::any_of(input.members.begin(), input.members.end(),
                              [&](const auto& entry) { return entry.second.topics.contains(topic); });
    if (!isRead) continue;
    for (int32_t i = 0; i < count; ++i) taken[{topic, i}] = false;
  }
  for (const auto& [id, member] : input.members) {
    Load& load = start.loads.emplace_back(Load{&id, &member, {}});
    for (const auto& [topic, partitions] : member.before) {
      if (!member.topics.contains(topic)) continue;
      for (int32_t partition : partitions) {
        auto at = taken.find({topic, partition});
        if (at == taken.end() || at->second) continue;  // gone, or two had it
        at->second = true;
        load.has.push_back(at->first);
      }
    }
  }
  for (const auto& [place, isTaken] : taken) {
    if (!isTaken) start.free.push_back(place);
  }
  return start;
}

// Everybody reads the same: quotas are known beforehand, and nothing moves twice.
void balanceEqual(Start& start, size_t total) {
  size_t count = start.loads.size();
  size_t least = total / count, more = total % count;  // so many get one more
  // Those who have more than the least keep one more, as long as there is some to keep.
  for (Load& load : start.loads) {
    size_t quota = least;
    if (load.has.size() > least && more > 0) {
      ++quota;
      --more;
    }
    while (load.has.size() > quota) {
      start.free.push_back(load.has.back());
      load.has.pop_back();
    }
  }
  std::sort(start.free.begin(), start.free.end());
  auto next = start.free.begin();
  for (Load& load : start.loads) {
    size_t quota = least;
    if (load.has.size() > least) continue;  // has its one more
    if (more > 0) {
      ++quota;
      --more;
    }
    while (load.has.size() < quota && next != start.free.end()) load.has.push_back(*next++);
  }
}

// Subscriptions differ: free partitions go to whoever has least and reads them, those with the fewest readers first;
// then single partitions move from who has more to who has less, until no move makes it more even.
void balanceGeneral(Start& start) {
  std::map<TopicId, size_t> readers;
  for (const Load& load : start.loads)
    for (const TopicId& topic : load.from->topics) ++readers[topic];
  std::sort(start.free.begin(), start.free.end(), [&](const Place& a, const Place& b) {
    size_t ofA = readers[a.first], ofB = readers[b.first];
    return ofA != ofB ? ofA < ofB : a < b;
  });
  for (const Place& place : start.free) {
    Load* least = nullptr;
    for (Load& load : start.loads) {
      if (load.reads(place.first) && (least == nullptr || load.has.size() < least->has.size())) least = &load;
    }
    if (least != nullptr) least->has.push_back(place);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Load& to : start.loads) {
      Load* from = nullptr;
      size_t at = 0;
      for (Load& other : start.loads) {
        if (other.has.size() < to.has.size() + 2 || (from != nullptr && other.has.size() <= from->has.size())) continue;
        for (size_t i = other.has.size(); i > 0; --i) {
          if (!to.reads(other.has[i - 1].first)) continue;
          from = &other;
          at = i - 1;
          break;
        }
      }
      if (from == nullptr) continue;
      to.has.push_back(from->has[at]);
      from->has.erase(from->has.begin() + static_cast<ptrdiff_t>(at));
      moved = true;
    }
  }
}

Assignments uniform(const AssignorInput& input) {
  Assignments result;
  if (input.members.empty()) return result;
  Start start = startOf(input);
  const auto& first = input.members.begin()->second.topics;
  bool isEqual = std::all_of(input.members.begin(), input.members.end(),
                             [&](const auto& entry) { return entry.second.topics == first; });
  if (isEqual) {
    size_t total = start.free.size();
    for (const Load& load : start.loads) total += load.has.size();
    balanceEqual(start, total);
  } else {
    balanceGeneral(start);
  }
  for (const Load& load : start.loads) {
    Assignment& assignment = result[*load.member];
    for (const Place& place : load.has) assignment[place.first].insert(place.second);
  }
  return result;
}

Assignments range(const AssignorInput& input) {
  Assignments result;
  // Static members by their instance, so that a process that comes back gets what it had.
  std::vector<std::pair<std::string, const std::string*>> order;
  for (const auto& [id, member] : input.members) {
    result[id];
    order.emplace_back(member.instance.value_or(id), &id);
  }
  std::sort(order.begin(), order.end(), [&](const auto& a, const auto& b) {
    bool aStatic = input.members.at(*a.second).instance.has_value();
    bool bStatic = input.members.at(*b.second).instance.has_value();
    if (aStatic != bStatic) return aStatic;
    return a.first < b.first;
  });
  for (const auto& [topic, count] : input.partitions) {
    std::vector<const std::string*> readers;
    for (const auto& [name, id] : order) {
      if (input.members.at(*id).topics.contains(topic)) readers.push_back(id);
    }
    if (readers.empty()) continue;
    auto size = static_cast<int32_t>(readers.size());
    int32_t least = count / size, more = count % size, next = 0;
    for (int32_t i = 0; i < size; ++i) {
      int32_t end = next + least + (i < more ? 1 : 0);
      for (; next < end; ++next) result[*readers[static_cast<size_t>(i)]][topic].insert(next);
    }
  }
  return result;
}

}  // namespace

Assignor findAssignor(std::string_view name) {
  if (name == "uniform") return uniform;
  if (name == "range") return range;
  return nullptr;
}

}  // namespace mq::coordinator
