#include "group_history.h"

#include <fmt/format.h>
#include <kj/debug.h>

#include <algorithm>

namespace mq::sim {
namespace {

template <class... Args>
[[noreturn]] void violated(fmt::format_string<Args...> format, Args&&... args) {
  kj::throwFatalException(KJ_EXCEPTION(FAILED, kj::str(fmt::format(format, std::forward<Args>(args)...).c_str())));
}

}  // namespace

void GroupHistory::assigned(const std::string& group, int32_t generation, const std::string& member,
                            const std::vector<int32_t>& partitions) {
  ++assignments_;
  int32_t& latest = generations_.try_emplace({group, member}, -1).first->second;
  if (generation < latest) violated("generations: {} of {} was in {} and now in {}", member, group, latest, generation);
  latest = generation;
  for (int32_t partition : partitions) {
    auto [at, isNew] = owners_.try_emplace({group, generation, partition}, member);
    if (!isNew && at->second != member) {
      violated("one-owner: partition {} of {} in generation {} was given to {} and to {}", partition, group, generation,
               at->second, member);
    }
  }
}

void GroupHistory::owns(const std::string& group, const std::string& member, const std::vector<int32_t>& partitions,
                        Instant now, Instant until) {
  std::erase_if(holders_,
                [&](const auto& entry) { return entry.first.first == group && entry.second.member == member; });
  for (int32_t partition : partitions) {
    ++assignments_;
    Holder& holder = holders_[{group, partition}];
    if (!holder.member.empty() && now < holder.until) {
      violated("two-owners: partition {} of {} was given to {}, and {} still has it", partition, group, member,
               holder.member);
    }
    holder = {member, until};
  }
}

void GroupHistory::committing(const std::string& group, int32_t partition, int64_t offset) {
  Progress& progress = progress_[{group, partition}];
  progress.sent = std::max(progress.sent, offset);
}

void GroupHistory::committed(const std::string& group, int32_t partition, int64_t offset) {
  ++commits_;
  Progress& progress = progress_[{group, partition}];
  progress.acknowledged = std::max(progress.acknowledged, offset);
}

int64_t GroupHistory::acknowledged(const std::string& group, int32_t partition) const {
  auto found = progress_.find({group, partition});
  return found == progress_.end() ? -1 : found->second.acknowledged;
}

void GroupHistory::read(const std::string& group, int32_t partition, int64_t offset, int64_t floor) {
  auto found = progress_.find({group, partition});
  int64_t sent = found == progress_.end() ? -1 : found->second.sent;
  if (offset < floor && !mayBeDeposed_)
    violated("commits: {} of {} is {}, but {} was acknowledged", partition, group, offset, floor);
  if (offset > sent) violated("commits: {} of {} is {}, but only {} was ever sent", partition, group, offset, sent);
  if (found != progress_.end()) found->second.acknowledged = std::max(found->second.acknowledged, offset);
}

}  // namespace mq::sim
