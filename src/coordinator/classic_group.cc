// ClassicGroup: rebalancing, and what members ask of a group they belong to. Joining is in classic_join.cc.
#include "coordinator/classic_group.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/consumer_protocol.h"
#include "coordinator/records.h"

namespace mq::coordinator {
namespace {

constexpr size_t kReasonMax = 512;

Duration ofMs(int32_t ms) { return std::chrono::milliseconds(ms); }
int32_t inMs(Duration duration) { return static_cast<int32_t>(duration / 1ms); }

}  // namespace

std::string_view ClassicGroup::nameOf(State state) {
  switch (state) {
    case State::empty: return "Empty";
    case State::preparingRebalance: return "PreparingRebalance";
    case State::completingRebalance: return "CompletingRebalance";
    case State::stable: return "Stable";
  }
  return "";
}

ClassicGroup::ClassicGroup(std::string id, const GroupSettings& settings, const wire::GroupMetadataValue& record)
    : id_(std::move(id)),
      settings_(settings),
      state_(record.members.empty() ? State::empty : State::stable),
      recorded_(true),
      stateSince_(record.currentStateTimestamp),
      generation_(record.generation),
      protocolType_(record.protocolType),
      protocol_(record.protocol),
      leader_(record.leader.value_or("")) {
  for (const auto& from : record.members) {
    ClassicMember member{
        .id = from.memberId,
        .instance = from.groupInstanceId,
        .clientId = from.clientId,
        .clientHost = from.clientHost,
        .rebalanceTimeout = ofMs(from.rebalanceTimeout >= 0 ? from.rebalanceTimeout : from.sessionTimeout),
        .sessionTimeout = ofMs(from.sessionTimeout),
        .assignment = wire::Blob::copyOf(from.assignment.view())};
    if (protocol_) member.protocols.push_back({*protocol_, wire::Blob::copyOf(from.subscription.view()), {}});
    take(std::move(member));
  }
}

void ClassicGroup::take(ClassicMember&& from) {
  std::string id = from.id;
  Member member;
  static_cast<ClassicMember&>(member) = std::move(from);
  member.isNew = false;
  if (member.instance) instances_[*member.instance] = id;
  countProtocols(member, 1);
  members_.insert_or_assign(std::move(id), std::move(member));
}

// --- to and from the consumer protocol

ClassicGroup::ClassicGroup(std::string id, const GroupSettings& settings, Migrated from, const Now& now,
                           Effects& effects)
    : id_(std::move(id)),
      settings_(settings),
      state_(State::stable),
      stateSince_(now.wall),
      generation_(from.generation),
      protocolType_(kConsumerProtocol),
      history_(std::move(from.history)) {
  for (ClassicMember& member : from.members) take(std::move(member));
  MQ_CHECK(!members_.empty(), id_);
  leader_ = members_.begin()->first;
  protocol_ = select();
  restart(now);
  record(effects);
  prepare("the last member of the consumer protocol is gone", now, effects);
}

ClassicGroup::Migrated ClassicGroup::release(Effects& effects) {
  Migrated to{.generation = generation_, .members = {}, .history = std::move(history_)};
  for (auto& [id, member] : members_) {
    if (member.join) effects.answer(std::move(member.join), Error::rebalanceInProgress);
    if (member.sync) effects.answer(std::move(member.sync), Error::rebalanceInProgress);
    if (!member.isNew) to.members.push_back(std::move(static_cast<ClassicMember&>(member)));
  }
  return to;
}

void ClassicGroup::restart(const Now& now) {
  for (auto& [id, member] : members_) keepAlive(member, now);
}

// --- members that are there

Error ClassicGroup::known(const std::string& member, const std::optional<std::string>& instance) const {
  if (instance) {
    auto holder = instances_.find(*instance);
    if (holder == instances_.end()) return Error::unknownMemberId;
    if (holder->second != member) return Error::fencedInstanceId;
  }
  return members_.contains(member) ? Error::none : Error::unknownMemberId;
}

Error ClassicGroup::heartbeat(const std::string& id, const std::optional<std::string>& instance, int32_t generation,
                              const Now& now) {
  if (Error error = known(id, instance); error != Error::none) return error;
  if (generation != generation_) return Error::illegalGeneration;
  keepAlive(members_.at(id), now);
  return state_ == State::preparingRebalance ? Error::rebalanceInProgress : Error::none;
}

Error ClassicGroup::admitCommit(const std::string& id, const std::optional<std::string>& instance, int32_t generation,
                                const Now& now, CommitKind kind) {
  const bool isPlain = kind == CommitKind::plain;
  if (generation < 0 && isEmpty()) return Error::none;  // a consumer without a group protocol, or a tool
  if (generation < 0 && id.empty() && !instance) return isPlain ? Error::unknownMemberId : Error::none;
  if (Error error = known(id, instance); error != Error::none) return error;
  if (generation != generation_) return Error::illegalGeneration;
  if (isPlain && state_ == State::completingRebalance) return Error::rebalanceInProgress;
  keepAlive(members_.at(id), now);
  return Error::none;
}

void ClassicGroup::sync(wire::SyncGroupRequest&& asked, const Now& now, SyncAnswer answer, Effects& effects) {
  if (Error error = known(asked.memberId, asked.groupInstanceId); error != Error::none)
    return effects.answer(std::move(answer), error);
  if (asked.generationId != generation_) return effects.answer(std::move(answer), Error::illegalGeneration);
  if ((asked.protocolType && *asked.protocolType != protocolType_) ||
      (asked.protocolName && asked.protocolName != protocol_)) {
    return effects.answer(std::move(answer), Error::inconsistentGroupProtocol);
  }
  Member& member = members_.at(asked.memberId);
  switch (state_) {
    case State::empty: return effects.answer(std::move(answer), Error::unknownMemberId);
    case State::preparingRebalance: return effects.answer(std::move(answer), Error::rebalanceInProgress);
    case State::completingRebalance:
      unsynced_.erase(member.id);
      keepAlive(member, now);
      if (member.sync) effects.answer(std::move(member.sync), Error::rebalanceInProgress);  // asked again
      member.sync = std::move(answer);
      if (member.id == leader_) becomeStable(asked, now, effects);
      return;
    case State::stable:
      unsynced_.erase(member.id);
      keepAlive(member, now);
      wire::SyncGroupResponse response;
      response.protocolType = protocolType_;
      response.protocolName = protocol_;
      response.assignment = member.assignment;
      return effects.answer(std::move(answer), std::move(response));
  }
}

void ClassicGroup::becomeStable(wire::SyncGroupRequest& asked, const Now& now, Effects& effects) {
  for (auto& [id, member] : members_) member.assignment = {};
  for (auto& given : asked.assignments) {
    auto found = members_.find(given.memberId);
    if (found != members_.end()) found->second.assignment = std::move(given.assignment);
  }
  enter(State::stable, now);
  record(effects);
  for (auto& [id, member] : members_) {
    if (!member.sync) continue;
    keepAlive(member, now);
    wire::SyncGroupResponse response;
    response.protocolType = protocolType_;
    response.protocolName = protocol_;
    response.assignment = member.assignment;
    effects.answer(std::move(member.sync), std::move(response));
  }
  if (!history_.empty()) {
    history_.back().ended = now.wall;
    history_.back().generation = generation_;
    history_.back().members = members_.size();
  }
  effects.notes.push_back({"group-stable", fmt::format("{}: generation {}, {} members, {}", id_, generation_,
                                                       members_.size(), protocol_.value_or("no protocol"))});
}

wire::LeaveGroupResponse::MemberResponse ClassicGroup::leave(const wire::LeaveGroupRequest::MemberIdentity& asked,
                                                             const Now& now, Effects& effects) {
  wire::LeaveGroupResponse::MemberResponse left;
  left.memberId = asked.memberId;
  left.groupInstanceId = asked.groupInstanceId;
  std::string id = asked.memberId;
  if (asked.groupInstanceId && id.empty()) {  // by an administrator, who knows the instance alone
    auto holder = instances_.find(*asked.groupInstanceId);
    if (holder != instances_.end()) id = holder->second;
  }
  if (!asked.groupInstanceId && pending_.erase(id) > 0) {
    completeIfAllJoined(now, effects);
    return left;
  }
  left.errorCode = known(id, asked.groupInstanceId);
  if (left.errorCode != Error::none) return left;
  remove(id, Error::unknownMemberId, effects);
  removed(fmt::format("member {} left{}", id, asked.reason && !asked.reason->empty() ? ": " + *asked.reason : ""), now,
          effects);
  return left;
}

void ClassicGroup::remove(const std::string& id, Error why, Effects& effects) {
  auto found = members_.find(id);
  if (found == members_.end()) return;
  Member& member = found->second;
  if (member.join) effects.answer(std::move(member.join), why);
  if (member.sync) effects.answer(std::move(member.sync), why);
  countProtocols(member, -1);
  if (member.instance) {
    auto holder = instances_.find(*member.instance);
    if (holder != instances_.end() && holder->second == id) instances_.erase(holder);
  }
  unsynced_.erase(id);
  members_.erase(found);
  if (leader_ == id) leader_ = members_.empty() ? std::string() : members_.begin()->first;
}

void ClassicGroup::removed(std::string reason, const Now& now, Effects& effects) {
  switch (state_) {
    case State::empty: return;
    case State::completingRebalance:
    case State::stable: return prepare(std::move(reason), now, effects);
    case State::preparingRebalance: return completeIfAllJoined(now, effects);
  }
}

// --- rebalancing

void ClassicGroup::enter(State state, const Now& now) {
  state_ = state;
  stateSince_ = now.wall;
}

void ClassicGroup::prepare(std::string reason, const Now& now, Effects& effects) {
  for (auto& [id, member] : members_) {
    if (member.sync) {
      effects.answer(std::move(member.sync), Error::rebalanceInProgress);
    }
    if (state_ == State::completingRebalance) member.assignment = {};
  }
  unsynced_.clear();
  initial_ = state_ == State::empty;
  enter(State::preparingRebalance, now);
  effects.notes.push_back({"group-rebalance", fmt::format("{}: generation {} ends: {}", id_, generation_, reason)});
  if (!history_.empty() && history_.back().ended == kNoTimestamp) {  // the one before did not come to its end
    if (history_.back().reason.size() < kReasonMax) history_.back().reason += "; then " + reason;
  } else {
    if (history_.size() == kHistoryMax) history_.pop_front();
    history_.push_back({.began = now.wall, .generation = generation_, .reason = std::move(reason)});
  }
  Duration atMost = rebalanceTimeoutMax();
  if (initial_) {
    Duration delay = std::min(settings_.initialDelay, atMost);
    joinEnd_ = now.instant + delay;
    delayLeft_ = atMost - delay;
    joinedMeanwhile_ = false;
    if (delay == Duration::zero()) joinTimeIsUp(now, effects);
  } else {
    joinEnd_ = now.instant + atMost;
    completeIfAllJoined(now, effects);
  }
}

bool ClassicGroup::allJoined() const {
  return pending_.empty() && std::all_of(members_.begin(), members_.end(),
                                         [](const auto& entry) { return static_cast<bool>(entry.second.join); });
}

void ClassicGroup::completeIfAllJoined(const Now& now, Effects& effects) {
  if (state_ == State::preparingRebalance && !initial_ && allJoined()) completeJoin(now, effects);
}

void ClassicGroup::joinTimeIsUp(const Now& now, Effects& effects) {
  if (initial_ && joinedMeanwhile_ && delayLeft_ > Duration::zero()) {
    joinedMeanwhile_ = false;
    Duration delay = std::min(settings_.initialDelay, delayLeft_);
    delayLeft_ -= delay;
    joinEnd_ = now.instant + delay;
    return;
  }
  completeJoin(now, effects);
}

void ClassicGroup::completeJoin(const Now& now, Effects& effects) {
  std::vector<std::string> absent;
  for (auto& [id, member] : members_) {
    if (!member.join && !member.instance) absent.push_back(id);  // a static one keeps its place for its session
  }
  for (const std::string& id : absent) {
    effects.notes.push_back({"group-member-removed", fmt::format("{}: {} did not join in time", id_, id)});
    remove(id, Error::unknownMemberId, effects);
  }
  initial_ = false;
  auto leader = members_.find(leader_);
  if (!members_.empty() && (leader == members_.end() || !leader->second.join)) {
    auto present = std::find_if(members_.begin(), members_.end(),
                                [](const auto& entry) { return static_cast<bool>(entry.second.join); });
    if (present == members_.end()) {  // static members alone, none of them here: until their sessions end
      joinEnd_ = now.instant + rebalanceTimeoutMax();
      return;
    }
    leader_ = present->first;
  }
  ++generation_;
  if (members_.empty()) {
    protocol_.reset();
    enter(State::empty, now);
    record(effects);
    history_.back().ended = now.wall;
    history_.back().generation = generation_;
    history_.back().members = 0;
    effects.notes.push_back({"group-empty", fmt::format("{}: generation {}", id_, generation_)});
    return;
  }
  protocol_ = select();
  enter(State::completingRebalance, now);
  syncEnd_ = now.instant + rebalanceTimeoutMax();
  for (auto& [id, member] : members_) {
    unsynced_.insert(id);
    keepAlive(member, now);
    member.isNew = false;
    if (member.join) answerNow(member, std::move(member.join), effects);
  }
}

std::optional<std::string> ClassicGroup::select() const {
  auto candidate = [&](const std::string& name) {
    auto count = protocolCounts_.find(name);
    return count != protocolCounts_.end() && count->second == static_cast<int>(members_.size());
  };
  std::map<std::string, int> votes;
  for (const auto& [id, member] : members_) {
    for (const auto& protocol : member.protocols) {
      if (!candidate(protocol.name)) continue;
      ++votes[protocol.name];
      break;
    }
  }
  // Of equals the one that the leader would rather have.
  std::optional<std::string> best;
  int most = 0;
  for (const auto& protocol : members_.at(leader_).protocols) {
    auto count = votes.find(protocol.name);
    if (count != votes.end() && count->second > most) {
      most = count->second;
      best = protocol.name;
    }
  }
  return best;
}

Duration ClassicGroup::rebalanceTimeoutMax() const {
  Duration longest{};
  for (const auto& [id, member] : members_) longest = std::max(longest, member.rebalanceTimeout);
  return longest;
}

void ClassicGroup::countProtocols(const Member& member, int by) {
  for (const auto& protocol : member.protocols) {
    auto at = protocolCounts_.try_emplace(protocol.name, 0).first;
    at->second += by;
    if (at->second == 0) protocolCounts_.erase(at);
  }
}

// --- time

std::optional<Instant> ClassicGroup::deadline() const {
  std::optional<Instant> first;
  auto consider = [&](Instant at) { first = first ? std::min(*first, at) : at; };
  for (const auto& [id, until] : pending_) consider(until);
  for (const auto& [id, member] : members_) {
    if (!member.isWaiting() || member.isNew) consider(member.sessionEnd);
  }
  if (state_ == State::preparingRebalance) consider(joinEnd_);
  if (!unsynced_.empty()) consider(syncEnd_);
  return first;
}

void ClassicGroup::expire(const Now& now, Effects& effects) {
  if (std::erase_if(pending_, [&](const auto& entry) { return entry.second <= now.instant; }) > 0) {
    completeIfAllJoined(now, effects);
  }
  std::vector<std::string> gone;
  for (const auto& [id, member] : members_) {
    if (member.sessionEnd <= now.instant && (!member.isWaiting() || member.isNew)) gone.push_back(id);
  }
  if (!unsynced_.empty() && syncEnd_ <= now.instant) {
    std::vector<std::string> late(unsynced_.begin(), unsynced_.end());
    for (const std::string& id : late) remove(id, Error::unknownMemberId, effects);
    removed(fmt::format("{} did not ask for its assignment in time", fmt::join(late, ", ")), now, effects);
  } else if (!gone.empty()) {
    for (const std::string& id : gone) {
      effects.notes.push_back({"group-member-removed", fmt::format("{}: the session of {} ended", id_, id)});
      remove(id, Error::unknownMemberId, effects);
    }
    removed(fmt::format("the session of {} ended", fmt::join(gone, ", ")), now, effects);
  }
  if (state_ == State::preparingRebalance && joinEnd_ <= now.instant) joinTimeIsUp(now, effects);
}

// --- what is told

void ClassicGroup::record(Effects& effects) {
  wire::GroupMetadataValue value;
  value.protocolType = protocolType_;
  value.generation = generation_;
  value.protocol = protocol_;
  value.leader = leader_.empty() ? std::nullopt : std::optional(leader_);
  value.currentStateTimestamp = stateSince_.value();
  for (const auto& [id, member] : members_) {
    value.members.push_back({.memberId = id,
                             .groupInstanceId = member.instance,
                             .clientId = member.clientId,
                             .clientHost = member.clientHost,
                             .rebalanceTimeout = inMs(member.rebalanceTimeout),
                             .sessionTimeout = inMs(member.sessionTimeout),
                             .subscription = wire::Blob(subscriptionOf(member)),
                             .assignment = wire::Blob(member.assignment.view())});
  }
  recorded_ = true;
  effects.records.push_back(groupRecord(id_, value));
}

const Bytes ClassicGroup::subscriptionOf(const Member& member) const {
  for (const auto& protocol : member.protocols) {
    if (protocol.name == protocol_) return protocol.metadata.view();
  }
  return {};
}

bool ClassicGroup::isOfConsumers() const {
  return protocolType_ == kConsumerProtocol && std::all_of(members_.begin(), members_.end(), [](const auto& entry) {
           const auto& protocols = entry.second.protocols;
           return !protocols.empty() && readSubscription(protocols.front().metadata.view());
         });
}

bool ClassicGroup::subscribes(std::string_view topic) const {
  if (protocolType_ != kConsumerProtocol) return false;
  for (const auto& [id, member] : members_) {
    for (const auto& protocol : member.protocols) {
      auto read = readSubscription(protocol.metadata.view());
      if (read && std::find(read->topics.begin(), read->topics.end(), topic) != read->topics.end()) return true;
    }
  }
  return false;
}

wire::DescribeGroupsResponse::DescribedGroup ClassicGroup::describe() const {
  wire::DescribeGroupsResponse::DescribedGroup group;
  group.groupId = id_;
  group.groupState = nameOf(state_);
  group.protocolType = protocolType_;
  bool isStable = state_ == State::stable;
  if (isStable) group.protocolData = protocol_.value_or("");
  for (const auto& [id, member] : members_) {
    auto& described = group.members.emplace_back();
    described.memberId = id;
    described.groupInstanceId = member.instance;
    described.clientId = member.clientId;
    described.clientHost = member.clientHost;
    if (!isStable) continue;
    described.memberMetadata = wire::Blob::copyOf(subscriptionOf(member));
    described.memberAssignment = wire::Blob::copyOf(member.assignment.view());
  }
  return group;
}

}  // namespace mq::coordinator
