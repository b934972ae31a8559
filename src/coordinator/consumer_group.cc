// ConsumerGroup: from a heartbeat to what the member should have. Records and what is told are in consumer_state.cc.
#include "coordinator/consumer_group.h"

#include <algorithm>

#include "base/check.h"
#include "base/crc32c.h"
#include "coordinator/records.h"

namespace mq::coordinator {
namespace {

using Response = wire::ConsumerGroupHeartbeatResponse;

// Member epochs that are requests; -1 is to leave for good.
constexpr int32_t kJoin = 0, kLeaveStatic = -2;
constexpr size_t kReasonMax = 512;
constexpr int16_t kClientNamesMemberFrom = 1;
constexpr Duration kHeartbeatWhileMoving = 1s;  // at most

Assignment assignmentOf(const std::vector<wire::ConsumerGroupHeartbeatRequest::TopicPartitions>& topics) {
  Assignment assignment;
  for (const auto& topic : topics) {
    if (!topic.partitions.empty()) assignment[topic.topicId].insert(topic.partitions.begin(), topic.partitions.end());
  }
  return assignment;
}

bool contains(const Assignment& all, const Assignment& some) {
  return std::all_of(some.begin(), some.end(), [&](const auto& entry) {
    auto found = all.find(entry.first);
    return found != all.end() &&
           std::includes(found->second.begin(), found->second.end(), entry.second.begin(), entry.second.end());
  });
}

bool overlaps(const Assignment& a, const Assignment& b) {
  return std::any_of(a.begin(), a.end(), [&](const auto& entry) {
    auto found = b.find(entry.first);
    return found != b.end() && std::any_of(entry.second.begin(), entry.second.end(),
                                           [&](int32_t partition) { return found->second.contains(partition); });
  });
}

Assignment without(const Assignment& from, const Assignment& what) {
  Assignment rest;
  for (const auto& [topic, partitions] : from) {
    auto found = what.find(topic);
    for (int32_t partition : partitions) {
      if (found == what.end() || !found->second.contains(partition)) rest[topic].insert(partition);
    }
  }
  return rest;
}

}  // namespace

Result<void> ConsumerGroup::check(const wire::ConsumerGroupHeartbeatRequest& asked, int16_t version) {
  auto invalid = [](std::string_view what) { return Failure(Error::invalidRequest, std::string(what)); };
  if (asked.groupId.empty()) return invalid("GroupId can't be empty.");
  if (asked.instanceId && asked.instanceId->empty()) return invalid("InstanceId can't be empty.");
  if (asked.rackId && asked.rackId->empty()) return invalid("RackId can't be empty.");
  if (asked.memberEpoch < kLeaveStatic) return invalid("MemberEpoch is invalid.");
  if (asked.memberId.empty() && (version >= kClientNamesMemberFrom || asked.memberEpoch != kJoin))
    return invalid("MemberId can't be empty.");
  if (asked.memberEpoch == kLeaveStatic && !asked.instanceId) return invalid("InstanceId can't be null.");
  if (asked.memberEpoch == kJoin) {
    if (asked.rebalanceTimeoutMs == -1) return invalid("RebalanceTimeoutMs must be provided in first request.");
    if (!asked.topicPartitions || !asked.topicPartitions->empty())
      return invalid("TopicPartitions must be empty when (re-)joining.");
    bool hasNames = asked.subscribedTopicNames && !asked.subscribedTopicNames->empty();
    bool hasRegex = asked.subscribedTopicRegex && !asked.subscribedTopicRegex->empty();
    if (!hasNames && !hasRegex)
      return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-empty when (re-)joining.");
  }
  if (asked.serverAssignor && findAssignor(*asked.serverAssignor) == nullptr) {
    return failure(Error::unsupportedAssignor,
                   "ServerAssignor {} is not supported. Supported assignors: uniform, range.", *asked.serverAssignor);
  }
  return {};
}

Result<Response> ConsumerGroup::heartbeat(const Caller& caller, const wire::ConsumerGroupHeartbeatRequest& asked,
                                          const Now& now, const Write& write, Effects& effects) {
  if (asked.memberEpoch < 0) return leave(asked, now, write, effects);
  if (auto known = identify(asked, write, effects); !known) return known.failure();
  const std::string& id = asked.memberId;
  bool isNew = !members_.contains(id);
  auto changed = updateMember(caller, asked, write);
  if (!changed) return changed.failure();
  Member& member = members_.at(id);
  member.sessionEnd = now.instant + session(member, now.image);
  member.classicEnd.reset();
  const auto& instance = asked.instanceId;
  refresh(*changed ? fmt::format("member {}{} {}", id, instance ? " (" + *instance + ")" : "",
                                 isNew ? "joined" : "changed what it reads")
                   : "",
          now, write, effects);

  std::optional<Assignment> owned;
  if (asked.topicPartitions) owned = assignmentOf(*asked.topicPartitions);
  Assignment before = member.assigned;
  reconcile(id, owned, now, write);
  settleHistory(now, effects);

  Response response;
  response.memberId = id;
  response.memberEpoch = member.epoch;
  response.heartbeatIntervalMs = static_cast<int32_t>(heartbeatInterval(now) / 1ms);
  bool tellsAll = asked.rebalanceTimeoutMs != -1 && (asked.subscribedTopicNames || asked.subscribedTopicRegex) && owned;
  if (asked.memberEpoch == kJoin || tellsAll || before != member.assigned) {
    response.assignment.emplace();
    for (const auto& [topic, partitions] : member.assigned)
      response.assignment->topicPartitions.push_back(
          {.topicId = topic, .partitions = {partitions.begin(), partitions.end()}});
  } else {
    response.assignment.reset();
  }
  return response;
}

void ConsumerGroup::refresh(std::string reason, const Now& now, const Write& write, Effects& effects) {
  if (!reason.empty() || hashedAt_ != now.image.offset()) {
    hashedAt_ = now.image.offset();
    int64_t hash = hashOf(now.image);
    if (reason.empty() && hash != hash_) reason = "topics changed";
    if (!reason.empty()) bump(std::move(reason), hash, now, write, effects);
  }
  if (epoch_ > targetEpoch_) assign(now, write);
}

// Nothing moves but with a heartbeat: who has to give something back hears of it in one, and who gets it in another. So
// they come closer together while the group is not stable, and for as long as somebody may not have heard of it.
Duration ConsumerGroup::heartbeatInterval(const Now& now) {
  Duration usual = std::chrono::milliseconds(times(now.image).heartbeatMs);
  bool moves = (bumped_ && now.instant - *bumped_ < usual) || state() != State::stable;
  return moves ? std::min(usual, kHeartbeatWhileMoving) : usual;
}

Duration ConsumerGroup::session(const Member& member, const metadata::Image& image) {
  return std::chrono::milliseconds(isClassic(member) ? member.wants.classicMemberMetadata->sessionTimeoutMs
                                                     : times(image).sessionMs);
}

wire::ConsumerGroupMemberMetadataValue ConsumerGroup::noWishes() {
  wire::ConsumerGroupMemberMetadataValue wants;
  wants.instanceId.reset();
  wants.rackId.reset();
  wants.subscribedTopicRegex = "";
  wants.serverAssignor.reset();
  wants.classicMemberMetadata.reset();
  return wants;
}

Result<void> ConsumerGroup::identify(const wire::ConsumerGroupHeartbeatRequest& asked, const Write& write,
                                     Effects& effects) {
  const bool joins = asked.memberEpoch == kJoin;
  if (asked.instanceId) {
    auto holder = instances_.find(*asked.instanceId);
    if (joins && holder != instances_.end() && holder->second != asked.memberId) {
      if (members_.at(holder->second).epoch != kLeaveStatic) {
        return failure(Error::unreleasedInstanceId, "Static member {} is owned by member {}, which has not left.",
                       *asked.instanceId, holder->second);
      }
      replace(std::string(holder->second), asked.memberId, write, effects);
    } else if (!joins && holder == instances_.end()) {
      return failure(Error::unknownMemberId, "Instance id {} is unknown.", *asked.instanceId);
    } else if (!joins && holder->second != asked.memberId) {
      return failure(Error::fencedInstanceId, "Static member {} was taken over by member {}.", *asked.instanceId,
                     holder->second);
    }
  }
  auto found = members_.find(asked.memberId);
  if (found == members_.end()) {
    if (!joins) return failure(Error::unknownMemberId, "Member {} is not a member of group {}.", asked.memberId, id_);
    if (members_.size() >= static_cast<size_t>(settings_.consumerSizeMax)) {
      return failure(Error::groupMaxSizeReached, "The group has its maximum of {} members.", settings_.consumerSizeMax);
    }
    return {};
  }
  const Member& member = found->second;
  if (joins || asked.memberEpoch == member.epoch) return {};
  // The answer that told it its new epoch was lost: it may go on, if it has nothing that is not its own.
  bool missedOne = asked.memberEpoch == member.previousEpoch &&
                   (!asked.topicPartitions || contains(member.assigned, assignmentOf(*asked.topicPartitions)));
  if (missedOne && asked.memberEpoch < member.epoch) return {};
  return failure(Error::fencedMemberEpoch,
                 "The member is at epoch {}, the request says {}: it must give up its partitions and join again.",
                 member.epoch, asked.memberEpoch);
}

// A static member that comes back under another id takes the place, the target and the partitions of the old one.
void ConsumerGroup::replace(const std::string& oldId, const std::string& newId, const Write& write, Effects& effects) {
  effects.notes.push_back(
      {"group-member-replaced", fmt::format("{}: instance {} is {} now, not {}", id_,
                                            members_.at(oldId).wants.instanceId.value_or(""), newId, oldId)});
  auto wants = members_.at(oldId).wants;
  Assignment assigned = members_.at(oldId).assigned, target = target_[oldId];
  remove(oldId, write);
  write(memberRecord(id_, newId, wants));
  write(targetRecord(id_, newId, target));
  write(currentRecord(id_, newId,
                      {.epoch = kJoin, .previousEpoch = kJoin, .state = 0, .assigned = assigned, .pending = {}}));
}

Result<bool> ConsumerGroup::updateMember(const Caller& caller, const wire::ConsumerGroupHeartbeatRequest& asked,
                                         const Write& write) {
  auto found = members_.find(asked.memberId);
  const bool isNew = found == members_.end();
  wire::ConsumerGroupMemberMetadataValue wants = isNew ? noWishes() : found->second.wants;
  wants.classicMemberMetadata.reset();
  if (asked.instanceId) wants.instanceId = asked.instanceId;
  if (asked.rackId) wants.rackId = asked.rackId;
  if (asked.rebalanceTimeoutMs != -1) wants.rebalanceTimeoutMs = asked.rebalanceTimeoutMs;
  if (asked.serverAssignor) wants.serverAssignor = asked.serverAssignor;
  if (asked.subscribedTopicNames) {
    std::set<std::string> sorted(asked.subscribedTopicNames->begin(), asked.subscribedTopicNames->end());
    wants.subscribedTopicNames.assign(sorted.begin(), sorted.end());
  }
  if (asked.subscribedTopicRegex) {
    const std::string& expression = *asked.subscribedTopicRegex;
    if (!expression.empty() && !patterns_.contains(expression)) {
      auto pattern = TopicPattern::compile(expression);
      if (!pattern) return pattern.failure();
      patterns_.emplace(expression, std::move(*pattern));
    }
    wants.subscribedTopicRegex = expression;
  }
  wants.clientId = caller.clientId;
  wants.clientHost = caller.host;
  bool changed = isNew || wants.subscribedTopicNames != found->second.wants.subscribedTopicNames ||
                 wants.subscribedTopicRegex != found->second.wants.subscribedTopicRegex;
  if (isNew || !(wants == found->second.wants)) write(memberRecord(id_, asked.memberId, wants));
  return changed;
}

// Members have gone.
void ConsumerGroup::lost(std::string reason, const Now& now, const Write& write, Effects& effects) {
  if (isForClassic()) return begin(std::move(reason), now, effects);  // its members may go on with their generation
  bump(std::move(reason), hashOf(now.image), now, write, effects);
  if (members_.empty()) emptySince_ = now.wall;
  settleHistory(now, effects);
}

void ConsumerGroup::bump(std::string reason, int64_t hash, const Now& now, const Write& write, Effects& effects) {
  begin(std::move(reason), now, effects);
  bumped_ = now.instant;
  write(consumerGroupRecord(id_, {.epoch = epoch_ + 1, .metadataHash = hash}));
}

void ConsumerGroup::begin(std::string reason, const Now& now, Effects& effects) {
  effects.notes.push_back({"group-rebalance", fmt::format("{}: epoch {} ends: {}", id_, epoch_, reason)});
  if (!history_.empty() && history_.back().ended == kNoTimestamp) {
    if (history_.back().reason.size() < kReasonMax) history_.back().reason += "; then " + reason;
  } else {
    if (history_.size() == kHistoryMax) history_.pop_front();
    history_.push_back({.began = now.wall, .generation = epoch_, .reason = std::move(reason)});
  }
}

void ConsumerGroup::settleHistory(const Now& now, Effects& effects) {
  if (history_.empty() || history_.back().ended != kNoTimestamp) return;
  State at = state();
  if (at != State::stable && at != State::empty) return;
  history_.back().ended = now.wall;
  history_.back().generation = epoch_;
  history_.back().members = members_.size();
  effects.notes.push_back({at == State::empty ? "group-empty" : "group-stable",
                           fmt::format("{}: epoch {}, {} members", id_, epoch_, members_.size())});
}

// The one that most members ask for; of equals the first by name.
std::string ConsumerGroup::preferredAssignor() const {
  std::map<std::string, int> votes;
  for (const auto& [id, member] : members_) {
    if (member.wants.serverAssignor) ++votes[*member.wants.serverAssignor];
  }
  std::string best(kDefaultAssignor);
  int most = 0;
  for (const auto& [name, count] : votes) {
    if (count > most && findAssignor(name) != nullptr) {
      most = count;
      best = name;
    }
  }
  return best;
}

void ConsumerGroup::assign(const Now& now, const Write& write) {
  AssignorInput input;
  for (const auto& [id, member] : members_) {
    AssignorInput::Member& in = input.members[id];
    in.instance = member.wants.instanceId;
    for (const std::string& name : namesOf(member, now.image)) {
      if (auto topic = now.image.topic(name)) {
        in.topics.insert(topic->id);
        input.partitions[topic->id] = topic->partitionCount();
      }
    }
    if (auto before = target_.find(id); before != target_.end()) in.before = before->second;
  }
  for (auto& [id, assignment] : findAssignor(preferredAssignor())(input)) {
    auto before = target_.find(id);
    if (before == target_.end() || before->second != assignment) write(targetRecord(id_, id, assignment));
  }
  write(targetEpochRecord(id_, {.assignmentEpoch = epoch_, .assignmentTimestamp = now.wall.value()}));
}

bool ConsumerGroup::isFree(const TopicId& topic, int32_t partition, const std::string& forWhom) const {
  auto owner = owners_.find({topic, partition});
  return owner == owners_.end() || owner->second == forWhom;
}

void ConsumerGroup::reconcile(const std::string& id, const std::optional<Assignment>& owned, const Now& now,
                              const Write& write) {
  Member& member = members_.at(id);
  // Without a list of what it owns it may still have all that it was given.
  auto stillOwns = [&](const Assignment& what) { return !what.empty() && (!owned || overlaps(*owned, what)); };
  if (member.state == MemberState::stable && member.epoch == targetEpoch_) return;
  if (member.state == MemberState::unrevoked && stillOwns(member.pendingRevocation)) return;

  const Assignment& target = target_[id];
  CurrentAssignment next{
      .epoch = targetEpoch_, .previousEpoch = member.epoch, .state = 0, .assigned = {}, .pending = {}};
  Assignment tooMuch = without(member.assigned, target);
  Assignment missing = without(target, member.assigned);
  bool hasUnreleased = false;
  for (auto topic = missing.begin(); topic != missing.end();) {
    hasUnreleased |=
        std::erase_if(topic->second, [&](int32_t partition) { return !isFree(topic->first, partition, id); }) > 0;
    topic = topic->second.empty() ? missing.erase(topic) : std::next(topic);
  }
  next.assigned = without(member.assigned, tooMuch);
  if (stillOwns(tooMuch)) {
    next.state = static_cast<int8_t>(MemberState::unrevoked);
    next.epoch = member.epoch;
    next.previousEpoch = member.previousEpoch;
    next.pending = std::move(tooMuch);
  } else {
    for (const auto& [topic, partitions] : missing) next.assigned[topic].insert(partitions.begin(), partitions.end());
    if (hasUnreleased) next.state = static_cast<int8_t>(MemberState::unreleased);
    if (member.epoch == targetEpoch_) next.previousEpoch = member.previousEpoch;
  }
  bool isSame = next.epoch == member.epoch && next.state == static_cast<int8_t>(member.state) &&
                next.assigned == member.assigned && next.pending == member.pendingRevocation;
  if (!isSame) write(currentRecord(id_, id, next));
  if (member.state == MemberState::unrevoked) {
    if (!member.revocationEnd)
      member.revocationEnd = now.instant + std::chrono::milliseconds(member.wants.rebalanceTimeoutMs);
  } else {
    member.revocationEnd.reset();
  }
}

Result<Response> ConsumerGroup::leave(const wire::ConsumerGroupHeartbeatRequest& asked, const Now& now,
                                      const Write& write, Effects& effects) {
  const std::string& id = asked.memberId;
  if (asked.instanceId) {
    auto holder = instances_.find(*asked.instanceId);
    if (holder == instances_.end())
      return failure(Error::unknownMemberId, "Instance id {} is unknown.", *asked.instanceId);
    if (holder->second != id)
      return failure(Error::fencedInstanceId, "Static member {} was taken over by member {}.", *asked.instanceId,
                     holder->second);
  }
  auto found = members_.find(id);
  if (found == members_.end())
    return failure(Error::unknownMemberId, "Member {} is not a member of group {}.", id, id_);
  Response response;
  response.memberId = id;
  response.memberEpoch = asked.memberEpoch;
  response.assignment.reset();
  if (asked.memberEpoch == kLeaveStatic) {  // it means to come back within its session
    const Member& member = found->second;
    write(currentRecord(id_, id,
                        {.epoch = kLeaveStatic,
                         .previousEpoch = member.epoch,
                         .state = 0,
                         .assigned = member.assigned,
                         .pending = {}}));
    return response;
  }
  remove(id, write);
  lost(fmt::format("member {} left", id), now, write, effects);
  return response;
}

Error ConsumerGroup::removeMember(const wire::LeaveGroupRequest::MemberIdentity& asked, const Now& now,
                                  const Write& write, Effects& effects) {
  std::string id = asked.memberId;
  if (asked.groupInstanceId) {
    auto holder = instances_.find(*asked.groupInstanceId);
    if (holder == instances_.end()) return Error::unknownMemberId;
    if (!id.empty() && holder->second != id) return Error::fencedInstanceId;
    id = holder->second;
  }
  if (!members_.contains(id)) return Error::unknownMemberId;
  const bool leaves = isClassic(members_.at(id));  // LeaveGroup is its own way to leave
  remove(id, write);
  lost(fmt::format("member {} {}{}", id, leaves ? "left" : "was removed",
                   asked.reason && !asked.reason->empty() ? ": " + *asked.reason : ""),
       now, write, effects);
  return Error::none;
}

void ConsumerGroup::remove(const std::string& id, const Write& write) {
  const std::string member = id;  // `id` may lie in what goes
  write(currentTombstone(id_, member));
  write(targetTombstone(id_, member));
  write(memberTombstone(id_, member));
}

void ConsumerGroup::expire(const Now& now, const Write& write, Effects& effects) {
  std::vector<std::pair<std::string, std::string>> gone;
  for (const auto& [id, member] : members_) {
    if (member.sessionEnd <= now.instant) {
      gone.emplace_back(id, fmt::format("the session of {} ended", id));
    } else if (member.revocationEnd && *member.revocationEnd <= now.instant) {
      gone.emplace_back(id, fmt::format("{} did not give back its partitions in time", id));
    } else if (member.classicEnd && *member.classicEnd <= now.instant) {
      gone.emplace_back(id, fmt::format("{} did not join again, or ask for its assignment, in time", id));
    }
  }
  for (const auto& [id, reason] : gone) {
    effects.notes.push_back({"group-member-removed", fmt::format("{}: {}", id_, reason)});
    remove(id, write);
    lost(reason, now, write, effects);
  }
}

std::set<std::string> ConsumerGroup::namesOf(const Member& member, const metadata::Image& image) const {
  std::set<std::string> names(member.wants.subscribedTopicNames.begin(), member.wants.subscribedTopicNames.end());
  const std::string expression = member.wants.subscribedTopicRegex.value_or("");
  if (expression.empty()) return names;
  auto pattern = patterns_.find(expression);
  if (pattern == patterns_.end()) {  // of a member that the log brought back
    auto compiled = TopicPattern::compile(expression);
    if (!compiled) return names;
    pattern = patterns_.emplace(expression, std::move(*compiled)).first;
  }
  for (const auto& [name, topic] : image.topics()) {
    if (pattern->second.matches(name)) names.insert(name);
  }
  return names;
}

// Of the topics that are read and their sizes: another one means that the target may be another.
int64_t ConsumerGroup::hashOf(const metadata::Image& image) const {
  std::set<std::string> names;
  for (const auto& [id, member] : members_) names.merge(namesOf(member, image));
  Buffer bytes;
  ByteWriter writer(bytes);
  for (const std::string& name : names) {
    auto topic = image.topic(name);
    if (topic == nullptr) continue;
    writer.uuid(topic->id);
    writer.int32(topic->partitionCount());
  }
  uint64_t low = crc32c(bytes);
  writer.int8(1);
  uint64_t high = crc32c(bytes);
  return static_cast<int64_t>(high << 32 | low);
}

}  // namespace mq::coordinator
