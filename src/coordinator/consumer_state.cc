// ConsumerGroup: what records make of it, and what is told of it.
#include <algorithm>

#include "coordinator/consumer_group.h"
#include "coordinator/records.h"

namespace mq::coordinator {
namespace {

template <class Topics>
Assignment read(const Topics& topics) {
  Assignment assignment;
  for (const auto& topic : topics) {
    if (!topic.partitions.empty()) assignment[topic.topicId].insert(topic.partitions.begin(), topic.partitions.end());
  }
  return assignment;
}

constexpr int8_t kClassicMember = 0, kConsumerMember = 1;  // of ConsumerGroupDescribe

}  // namespace

std::string_view ConsumerGroup::nameOf(State state) {
  switch (state) {
    case State::empty: return "Empty";
    case State::assigning: return "Assigning";
    case State::reconciling: return "Reconciling";
    case State::stable: return "Stable";
  }
  return "";
}

ConsumerGroup::State ConsumerGroup::state() const {
  if (members_.empty()) return State::empty;
  if (epoch_ > targetEpoch_) return State::assigning;
  bool isStable = std::all_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return entry.second.state == MemberState::stable && entry.second.epoch == targetEpoch_;
  });
  return isStable ? State::stable : State::reconciling;
}

const config::ConsumerGroupSettings& ConsumerGroup::times(const metadata::Image& image) {
  if (timesAt_ != image.offset()) {
    timesAt_ = image.offset();
    times_ = config::resolveGroup(settings_.consumer, *image.configs({metadata::ResourceType::group, id_}));
  }
  return times_;
}

void ConsumerGroup::restart(const Now& now) {
  for (auto& [id, member] : members_) {
    member.sessionEnd = now.instant + session(member, now.image);
    if (member.state == MemberState::unrevoked)
      member.revocationEnd = now.instant + std::chrono::milliseconds(member.wants.rebalanceTimeoutMs);
  }
  if (members_.empty()) emptySince_ = now.wall;
}

std::optional<Instant> ConsumerGroup::deadline() const {
  std::optional<Instant> first;
  auto consider = [&](Instant at) { first = first ? std::min(*first, at) : at; };
  for (const auto& [id, member] : members_) {
    consider(member.sessionEnd);
    if (member.revocationEnd) consider(*member.revocationEnd);
    if (member.classicEnd) consider(*member.classicEnd);
  }
  return first;
}

// --- records

void ConsumerGroup::applyGroup(const wire::ConsumerGroupMetadataValue& value) {
  epoch_ = value.epoch;
  hash_ = value.metadataHash;
}

void ConsumerGroup::applyMember(const std::string& id, const wire::ConsumerGroupMemberMetadataValue* value) {
  auto found = members_.find(id);
  if (found != members_.end() && found->second.wants.instanceId) {
    auto holder = instances_.find(*found->second.wants.instanceId);
    if (holder != instances_.end() && holder->second == id) instances_.erase(holder);
  }
  if (value == nullptr) {
    if (found == members_.end()) return;
    own(id, found->second.assigned, false);
    own(id, found->second.pendingRevocation, false);
    members_.erase(found);
    return;
  }
  auto& wants = members_[id].wants = *value;
  if (wants.classicMemberMetadata) {  // its bytes are the record's
    for (auto& protocol : wants.classicMemberMetadata->supportedProtocols)
      protocol.metadata = wire::Blob::copyOf(protocol.metadata.view());
  }
  if (value->instanceId) instances_[*value->instanceId] = id;
}

void ConsumerGroup::applyTargetEpoch(const wire::ConsumerGroupTargetAssignmentMetadataValue& value) {
  targetEpoch_ = value.assignmentEpoch;
}

void ConsumerGroup::applyTarget(const std::string& id, const wire::ConsumerGroupTargetAssignmentMemberValue* value) {
  if (value == nullptr) {
    target_.erase(id);
  } else {
    target_[id] = read(value->topicPartitions);
  }
}

void ConsumerGroup::applyCurrent(const std::string& id, const wire::ConsumerGroupCurrentMemberAssignmentValue* value) {
  auto found = members_.find(id);
  if (found == members_.end()) {
    if (value == nullptr) return;
    found = members_.try_emplace(id).first;  // its other record lies behind, in a compacted log
  }
  Member& member = found->second;
  own(id, member.assigned, false);
  own(id, member.pendingRevocation, false);
  if (value == nullptr) {
    member.epoch = member.previousEpoch = 0;
    member.state = MemberState::stable;
    member.assigned.clear();
    member.pendingRevocation.clear();
    return;
  }
  member.epoch = value->memberEpoch;
  member.previousEpoch = value->previousMemberEpoch;
  member.state = value->state == 1   ? MemberState::unrevoked
                 : value->state == 2 ? MemberState::unreleased
                                     : MemberState::stable;
  member.assigned = read(value->assignedPartitions);
  member.pendingRevocation = read(value->partitionsPendingRevocation);
  own(id, member.assigned, true);
  own(id, member.pendingRevocation, true);
}

void ConsumerGroup::own(const std::string& id, const Assignment& assignment, bool owns) {
  for (const auto& [topic, partitions] : assignment) {
    for (int32_t partition : partitions) {
      if (owns) {
        owners_[{topic, partition}] = id;
      } else if (auto at = owners_.find({topic, partition}); at != owners_.end() && at->second == id) {
        owners_.erase(at);
      }
    }
  }
}

void ConsumerGroup::forget(std::vector<LogRecord>& records) const {
  records.push_back(targetEpochTombstone(id_));
  records.push_back(consumerGroupTombstone(id_));
}

// --- offsets

Error ConsumerGroup::admitCommit(const std::string& member, int32_t epoch) const {
  if (epoch < 0 && isEmpty()) return Error::none;
  auto found = members_.find(member);
  if (found == members_.end()) return Error::unknownMemberId;
  if (epoch == found->second.epoch) return Error::none;
  return isClassic(found->second) ? Error::illegalGeneration : Error::staleMemberEpoch;
}

Error ConsumerGroup::admitFetch(const std::optional<std::string>& member, int32_t epoch) const {
  if (!member && epoch < 0) return Error::none;
  auto found = members_.find(member.value_or(""));
  if (found == members_.end()) return Error::unknownMemberId;
  return epoch == found->second.epoch ? Error::none : Error::staleMemberEpoch;
}

bool ConsumerGroup::subscribes(std::string_view topic, const metadata::Image& image) const {
  return std::any_of(members_.begin(), members_.end(),
                     [&](const auto& entry) { return namesOf(entry.second, image).contains(std::string(topic)); });
}

wire::ConsumerGroupDescribeResponse::DescribedGroup ConsumerGroup::describe(const metadata::Image& image) const {
  wire::ConsumerGroupDescribeResponse::DescribedGroup group;
  group.groupId = id_;
  group.groupState = nameOf(state());
  group.groupEpoch = epoch_;
  group.assignmentEpoch = targetEpoch_;
  group.assignorName = preferredAssignor();
  auto tell = [&](const Assignment& assignment, auto& into) {
    for (const auto& [id, partitions] : assignment) {
      auto topic = image.topic(id);
      if (topic == nullptr) continue;
      into.topicPartitions.push_back(
          {.topicId = id, .topicName = topic->name, .partitions = {partitions.begin(), partitions.end()}});
    }
  };
  for (const auto& [id, member] : members_) {
    auto& told = group.members.emplace_back();
    told.memberId = id;
    told.instanceId = member.wants.instanceId;
    told.rackId = member.wants.rackId;
    told.memberEpoch = member.epoch;
    told.clientId = member.wants.clientId;
    told.clientHost = member.wants.clientHost;
    told.subscribedTopicNames = member.wants.subscribedTopicNames;
    const std::string expression = member.wants.subscribedTopicRegex.value_or("");
    told.subscribedTopicRegex = expression.empty() ? std::nullopt : std::optional(expression);
    told.memberType = isClassic(member) ? kClassicMember : kConsumerMember;
    tell(member.assigned, told.assignment);
    if (auto target = target_.find(id); target != target_.end()) tell(target->second, told.targetAssignment);
  }
  return group;
}

}  // namespace mq::coordinator
