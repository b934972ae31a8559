// ClassicGroup: who may join, and what a join leads to.
#include <algorithm>

#include "base/check.h"
#include "coordinator/classic_group.h"

namespace mq::coordinator {
namespace {

constexpr int16_t kMemberIdRequiredFrom = 4;  // KIP-394
constexpr int16_t kSkipAssignmentFrom = 9;    // KIP-814
// How long a member that has not been told its id yet may wait for the others: nobody can send heartbeats in its name.
constexpr Duration kNewMemberWait = 300s;

bool sameProtocols(const std::vector<wire::JoinGroupRequest::JoinGroupRequestProtocol>& a,
                   const std::vector<wire::JoinGroupRequest::JoinGroupRequestProtocol>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const auto& x, const auto& y) { return x.name == y.name && x.metadata == y.metadata; });
}

}  // namespace

void ClassicGroup::join(const Caller& caller, wire::JoinGroupRequest&& asked, const Now& now, JoinAnswer answer,
                        Effects& effects) {
  if (!admits(asked.memberId)) return effects.answer(std::move(answer), Error::groupMaxSizeReached);
  if (!supports(asked.protocolType, asked.protocols))
    return effects.answer(std::move(answer), Error::inconsistentGroupProtocol);
  Joining joining{caller, asked, now, effects};
  if (asked.memberId.empty()) {
    joinNew(joining, std::move(answer));
  } else {
    joinAgain(joining, std::move(answer));
  }
}

// group.max.size: of those who wait for a rebalance the first ones get in, of those who are in all may stay.
bool ClassicGroup::admits(const std::string& id) const {
  auto size = static_cast<size_t>(std::max(settings_.sizeMax, 0));
  auto found = members_.find(id);
  bool isMember = found != members_.end();
  switch (state_) {
    case State::empty: return true;
    case State::preparingRebalance: {
      auto joined = static_cast<size_t>(std::count_if(
          members_.begin(), members_.end(), [](const auto& entry) { return static_cast<bool>(entry.second.join); }));
      return (isMember && found->second.join) || joined < size;
    }
    case State::completingRebalance:
    case State::stable: return isMember || members_.size() < size;
  }
  return true;
}

bool ClassicGroup::supports(const std::string& type, const Protocols& protocols) const {
  if (members_.empty()) return !type.empty() && !protocols.empty();
  if (type != protocolType_) return false;
  return std::any_of(protocols.begin(), protocols.end(), [&](const auto& protocol) {
    auto count = protocolCounts_.find(protocol.name);
    return count != protocolCounts_.end() && count->second == static_cast<int>(members_.size());
  });
}

std::string ClassicGroup::newMemberId(const Joining& joining) const {
  Uuid random = joining.now.random.uuid();
  const auto& name = joining.asked.groupInstanceId ? *joining.asked.groupInstanceId : joining.caller.clientId;
  const auto& b = random.bytes;
  return fmt::format("{}-{:02x}-{:02x}-{:02x}-{:02x}-{:02x}", name, fmt::join(b.begin(), b.begin() + 4, ""),
                     fmt::join(b.begin() + 4, b.begin() + 6, ""), fmt::join(b.begin() + 6, b.begin() + 8, ""),
                     fmt::join(b.begin() + 8, b.begin() + 10, ""), fmt::join(b.begin() + 10, b.end(), ""));
}

void ClassicGroup::joinNew(Joining joining, JoinAnswer answer) {
  const auto& instance = joining.asked.groupInstanceId;
  if (instance) {
    auto holder = instances_.find(*instance);
    if (holder != instances_.end()) {
      std::string old = holder->second;
      return replaceStatic(joining, old, std::move(answer));
    }
  }
  std::string id = newMemberId(joining);
  if (!instance && joining.caller.version >= kMemberIdRequiredFrom) {
    pending_[id] = joining.now.instant + std::chrono::milliseconds(joining.asked.sessionTimeoutMs);
    wire::JoinGroupResponse response;
    response.errorCode = Error::memberIdRequired;
    response.memberId = id;
    return joining.effects.answer(std::move(answer), std::move(response));
  }
  Member& member = add(joining, id);
  await(member, std::move(answer), joining.effects);
  if (state_ == State::preparingRebalance) {
    completeIfAllJoined(joining.now, joining.effects);
  } else {
    prepare(joinReason(joining, "joined", id), joining.now, joining.effects);
  }
}

void ClassicGroup::joinAgain(Joining joining, JoinAnswer answer) {
  wire::JoinGroupRequest& asked = joining.asked;
  if (!asked.groupInstanceId && pending_.erase(asked.memberId) > 0) {
    Member& member = add(joining, asked.memberId);
    await(member, std::move(answer), joining.effects);
    if (state_ == State::preparingRebalance) {
      completeIfAllJoined(joining.now, joining.effects);
    } else {
      prepare(joinReason(joining, "joined", asked.memberId), joining.now, joining.effects);
    }
    return;
  }
  if (Error error = known(asked.memberId, asked.groupInstanceId); error != Error::none)
    return joining.effects.answer(std::move(answer), error);

  Member& member = members_.at(asked.memberId);
  bool isSame = sameProtocols(member.protocols, asked.protocols);
  bool isLeader = member.id == leader_;
  switch (state_) {
    case State::empty: return joining.effects.answer(std::move(answer), Error::unknownMemberId);
    case State::preparingRebalance:
      update(member, joining);
      await(member, std::move(answer), joining.effects);
      return completeIfAllJoined(joining.now, joining.effects);
    case State::completingRebalance:
      // The answer to its join was lost: it hears again what it should know.
      if (isSame) {
        keepAlive(member, joining.now);
        return answerNow(member, std::move(answer), joining.effects);
      }
      break;
    case State::stable:
      // A leader that joins asks for another assignment; a follower may just have missed the last one.
      if (isSame && !isLeader) {
        keepAlive(member, joining.now);
        return answerNow(member, std::move(answer), joining.effects);
      }
      break;
  }
  std::string reason = joinReason(
      joining, isSame ? "asked for a new assignment as leader" : "changed what it reads or supports", member.id);
  update(member, joining);
  await(member, std::move(answer), joining.effects);
  prepare(std::move(reason), joining.now, joining.effects);
}

// A static member that comes without its id is a new process in the place of an old one, which is fenced (KIP-345).
void ClassicGroup::replaceStatic(Joining joining, const std::string& oldId, JoinAnswer answer) {
  Effects& effects = joining.effects;
  auto node = members_.extract(oldId);
  MQ_CHECK(!node.empty(), id_, oldId);
  Member& old = node.mapped();
  if (old.join) effects.answer(std::move(old.join), Error::fencedInstanceId);
  if (old.sync) effects.answer(std::move(old.sync), Error::fencedInstanceId);
  std::string id = newMemberId(joining);
  const std::string before = leader_;
  bool wasUnsynced = unsynced_.erase(oldId) > 0;
  if (wasUnsynced) unsynced_.insert(id);
  Buffer subscription(subscriptionOf(old).begin(), subscriptionOf(old).end());
  std::optional<std::string> protocol = protocol_;
  old.id = id;
  if (leader_ == oldId) leader_ = id;
  instances_[*old.instance] = id;
  node.key() = id;
  Member& member = members_.insert(std::move(node)).position->second;
  update(member, joining);
  keepAlive(member, joining.now);
  effects.notes.push_back(
      {"group-member-replaced", fmt::format("{}: instance {} is {} now, not {}", id_, *member.instance, id, oldId)});

  switch (state_) {
    case State::preparingRebalance:
      await(member, std::move(answer), effects);
      return completeIfAllJoined(joining.now, effects);
    case State::stable: {
      Bytes now = subscriptionOf(member);
      if (select() == protocol && std::equal(now.begin(), now.end(), subscription.begin(), subscription.end())) {
        // Nothing changes for the others, nor for its assignment.
        record(effects);
        wire::JoinGroupResponse response = joined(member);
        if (id == leader_ && joining.caller.version < kSkipAssignmentFrom) {
          // It would compute an assignment that nobody waits for: it is told that the old process leads.
          response.leader = before;
          response.members.clear();
        } else if (id == leader_) {
          response.skipAssignment = true;
        }
        return effects.answer(std::move(answer), std::move(response));
      }
      break;
    }
    case State::completingRebalance:
    case State::empty: break;
  }
  await(member, std::move(answer), effects);
  prepare(joinReason(joining, "came back changed", id), joining.now, effects);
}

ClassicGroup::Member& ClassicGroup::add(Joining& joining, const std::string& id) {
  wire::JoinGroupRequest& asked = joining.asked;
  if (members_.empty()) protocolType_ = asked.protocolType;
  if (leader_.empty()) leader_ = id;
  if (asked.groupInstanceId) instances_[*asked.groupInstanceId] = id;
  Member& member = members_[id];
  member.id = id;
  member.instance = asked.groupInstanceId;
  update(member, joining);
  member.sessionEnd = joining.now.instant + kNewMemberWait;
  joinedMeanwhile_ = true;
  return member;
}

void ClassicGroup::update(Member& member, Joining& joining) {
  wire::JoinGroupRequest& asked = joining.asked;
  countProtocols(member, -1);
  member.protocols = std::move(asked.protocols);
  countProtocols(member, 1);
  member.clientId = joining.caller.clientId;
  member.clientHost = joining.caller.host;
  member.sessionTimeout = std::chrono::milliseconds(asked.sessionTimeoutMs);
  // Version 0 had one time-out for both.
  member.rebalanceTimeout =
      std::chrono::milliseconds(asked.rebalanceTimeoutMs >= 0 ? asked.rebalanceTimeoutMs : asked.sessionTimeoutMs);
}

void ClassicGroup::await(Member& member, JoinAnswer answer, Effects& effects) {
  // A second join of the same member takes the place of the first, whose connection is most likely gone.
  if (member.join) effects.answer(std::move(member.join), Error::rebalanceInProgress);
  member.join = std::move(answer);
}

void ClassicGroup::answerNow(const Member& member, JoinAnswer answer, Effects& effects) const {
  effects.answer(std::move(answer), joined(member));
}

wire::JoinGroupResponse ClassicGroup::joined(const Member& member) const {
  wire::JoinGroupResponse response;
  response.generationId = generation_;
  response.protocolType = protocolType_;
  response.protocolName = protocol_;
  response.leader = leader_;
  response.memberId = member.id;
  if (member.id == leader_) {
    for (const auto& [id, other] : members_) {
      response.members.push_back(
          {.memberId = id, .groupInstanceId = other.instance, .metadata = wire::Blob::copyOf(subscriptionOf(other))});
    }
  }
  return response;
}

std::string ClassicGroup::joinReason(const Joining& joining, std::string_view what, const std::string& member) const {
  const auto& reason = joining.asked.reason;
  return fmt::format("member {} {}{}", member, what, reason && !reason->empty() ? " (" + *reason + ")" : "");
}

}  // namespace mq::coordinator
