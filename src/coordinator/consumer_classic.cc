// ConsumerGroup: its members in the classic protocol, while a group moves from one protocol to the other (KIP-848).
//
// To such a member the group is a classic one whose leader is somebody else: its generation is its member epoch, it is
// told to join again when there is something to give back or to receive, and SyncGroup tells what it has. Nobody waits
// for anybody.
#include <algorithm>

#include "base/check.h"
#include "coordinator/consumer_group.h"
#include "coordinator/consumer_protocol.h"
#include "coordinator/records.h"

namespace mq::coordinator {
namespace {

constexpr int16_t kMemberIdRequiredFrom = 4;  // KIP-394

using Protocols = std::vector<wire::JoinGroupRequest::JoinGroupRequestProtocol>;
using ClassicMetadata = wire::ConsumerGroupMemberMetadataValue::ClassicMemberMetadata;

ClassicMetadata metadataOf(int32_t sessionTimeoutMs, const Protocols& protocols) {
  ClassicMetadata metadata;
  metadata.sessionTimeoutMs = sessionTimeoutMs;
  for (const auto& protocol : protocols)
    metadata.supportedProtocols.push_back({protocol.name, wire::Blob::copyOf(protocol.metadata.view())});
  return metadata;
}

std::vector<std::string> sorted(const std::vector<std::string>& names) {
  std::set<std::string> once(names.begin(), names.end());
  return {once.begin(), once.end()};
}

}  // namespace

bool ConsumerGroup::isClassic(const Member& member) { return member.wants.classicMemberMetadata.has_value(); }

// All classic members have to share a protocol: they would be left with one group when the others go.
bool ConsumerGroup::supportsClassic(const wire::JoinGroupRequest& asked) const {
  if (asked.protocolType != kConsumerProtocol) return false;
  return std::any_of(asked.protocols.begin(), asked.protocols.end(), [&](const auto& protocol) {
    return std::all_of(members_.begin(), members_.end(), [&](const auto& entry) {
      if (!isClassic(entry.second) || entry.first == asked.memberId) return true;
      const auto& supported = entry.second.wants.classicMemberMetadata->supportedProtocols;
      return std::any_of(supported.begin(), supported.end(), [&](const auto& s) { return s.name == protocol.name; });
    });
  });
}

Result<ConsumerGroup::Member*> ConsumerGroup::classicMember(const std::string& id,
                                                            const std::optional<std::string>& instance) {
  if (instance) {
    auto holder = instances_.find(*instance);
    if (holder == instances_.end()) return Error::unknownMemberId;
    if (holder->second != id) return Error::fencedInstanceId;
  }
  auto found = members_.find(id);
  if (found == members_.end() || !isClassic(found->second)) return Error::unknownMemberId;
  return &found->second;
}

Result<wire::JoinGroupResponse> ConsumerGroup::joinClassic(const Caller& caller, const wire::JoinGroupRequest& asked,
                                                           const Now& now, const Write& write, Effects& effects) {
  if (!supportsClassic(asked)) return Error::inconsistentGroupProtocol;
  auto subscription = readSubscription(asked.protocols.front().metadata.view());
  if (!subscription) return Error::inconsistentGroupProtocol;
  wire::JoinGroupResponse response;
  const auto& instance = asked.groupInstanceId;
  auto holder = instance ? instances_.find(*instance) : instances_.end();
  std::string id = asked.memberId;
  if (id.empty()) {
    id = now.random.uuid().toString();
    if (!instance && caller.version >= kMemberIdRequiredFrom) {
      response.errorCode = Error::memberIdRequired;
      response.memberId = id;
      return response;
    }
    // A static member that comes without its id is a new process in the place of an old one, whatever the old one
    // spoke.
    if (holder != instances_.end()) replace(std::string(holder->second), id, write, effects);
  } else if (instance) {
    if (holder == instances_.end()) return Error::unknownMemberId;
    if (holder->second != id) return Error::fencedInstanceId;
  }
  auto found = members_.find(id);
  const bool isNew = found == members_.end();
  if (isNew && members_.size() >= static_cast<size_t>(settings_.consumerSizeMax)) return Error::groupMaxSizeReached;

  wire::ConsumerGroupMemberMetadataValue wants = isNew ? noWishes() : found->second.wants;
  wants.instanceId = instance;
  wants.rackId = subscription->rackId;
  wants.clientId = caller.clientId;
  wants.clientHost = caller.host;
  wants.subscribedTopicNames = sorted(subscription->topics);
  wants.subscribedTopicRegex = "";
  wants.serverAssignor.reset();
  // Version 0 had one time-out for both.
  wants.rebalanceTimeoutMs = asked.rebalanceTimeoutMs >= 0 ? asked.rebalanceTimeoutMs : asked.sessionTimeoutMs;
  wants.classicMemberMetadata = metadataOf(asked.sessionTimeoutMs, asked.protocols);
  bool changed = isNew || wants.subscribedTopicNames != found->second.wants.subscribedTopicNames ||
                 wants.subscribedTopicRegex != found->second.wants.subscribedTopicRegex;
  if (isNew || !(wants == found->second.wants)) write(memberRecord(id_, id, wants));
  const auto& reason = asked.reason;
  refresh(changed ? fmt::format("member {}{} {}{}", id, instance ? " (" + *instance + ")" : "",
                                isNew ? "joined in the classic protocol" : "changed what it reads",
                                reason && !reason->empty() ? " (" + *reason + ")" : "")
                  : "",
          now, write, effects);
  reconcile(id, assignmentOf(subscription->ownedPartitions, now.image), now, write);
  settleHistory(now, effects);

  Member& member = members_.at(id);
  member.sessionEnd = now.instant + session(member, now.image);
  member.classicEnd = now.instant + std::chrono::milliseconds(wants.rebalanceTimeoutMs);  // to sync by then
  response.memberId = id;
  response.generationId = member.epoch;
  response.protocolType = kConsumerProtocol;
  response.protocolName = asked.protocols.front().name;
  return response;
}

// The group has moved on, there is something to give back, or all that it misses is free now.
bool ConsumerGroup::mustRejoin(const std::string& id, const Member& member) const {
  if (member.epoch < epoch_ || member.state == MemberState::unrevoked) return true;
  if (member.state != MemberState::unreleased) return false;
  auto target = target_.find(id);
  if (target == target_.end()) return false;
  for (const auto& [topic, partitions] : target->second) {
    for (int32_t partition : partitions) {
      if (!isFree(topic, partition, id)) return false;
    }
  }
  return true;
}

Error ConsumerGroup::heartbeatClassic(const std::string& id, const std::optional<std::string>& instance,
                                      int32_t generation, const Now& now, const Write& write, Effects& effects) {
  auto member = classicMember(id, instance);
  if (!member) return member.errorCode();
  if (generation != (*member)->epoch) return Error::illegalGeneration;
  (*member)->sessionEnd = now.instant + session(**member, now.image);
  refresh("", now, write, effects);
  settleHistory(now, effects);
  if (!mustRejoin(id, **member)) return Error::none;
  if (!(*member)->classicEnd)
    (*member)->classicEnd = now.instant + std::chrono::milliseconds((*member)->wants.rebalanceTimeoutMs);
  return Error::rebalanceInProgress;
}

Result<wire::SyncGroupResponse> ConsumerGroup::syncClassic(const wire::SyncGroupRequest& asked, const Now& now) {
  auto found = classicMember(asked.memberId, asked.groupInstanceId);
  if (!found) return found.errorCode();
  Member& member = **found;
  if (asked.generationId != member.epoch) return Error::illegalGeneration;
  const auto& protocol = member.wants.classicMemberMetadata->supportedProtocols.front();
  if ((asked.protocolType && *asked.protocolType != kConsumerProtocol) ||
      (asked.protocolName && *asked.protocolName != protocol.name)) {
    return Error::inconsistentGroupProtocol;
  }
  // One that has to give back is told so by what it has; the next rejoin follows from that.
  if (member.epoch < epoch_ && member.state != MemberState::unrevoked) return Error::rebalanceInProgress;
  member.classicEnd.reset();
  member.sessionEnd = now.instant + session(member, now.image);
  wire::SyncGroupResponse response;
  response.protocolType = kConsumerProtocol;
  response.protocolName = protocol.name;
  Buffer assignment = writeAssignment(member.assigned, protocolVersionOf(protocol.metadata.view()), now.image);
  response.assignment = wire::Blob::copyOf(assignment);
  return response;
}

// --- from one protocol to the other

void ConsumerGroup::adopt(ClassicGroup::Migrated from, const Now& now, const Write& write) {
  history_ = std::move(from.history);
  for (const ClassicMember& member : from.members) {
    auto subscription = readSubscription(member.protocols.front().metadata.view());
    MQ_CHECK(subscription.has_value(), id_, member.id);  // isOfConsumers()
    wire::ConsumerGroupMemberMetadataValue wants = noWishes();
    wants.instanceId = member.instance;
    wants.rackId = subscription->rackId;
    wants.clientId = member.clientId;
    wants.clientHost = member.clientHost;
    wants.subscribedTopicNames = sorted(subscription->topics);
    wants.rebalanceTimeoutMs = static_cast<int32_t>(member.rebalanceTimeout / 1ms);
    wants.classicMemberMetadata = metadataOf(static_cast<int32_t>(member.sessionTimeout / 1ms), member.protocols);
    write(memberRecord(id_, member.id, wants));
  }
  write(consumerGroupRecord(id_, {.epoch = from.generation, .metadataHash = hashOf(now.image)}));
  for (const ClassicMember& member : from.members) {
    Assignment has = readAssignment(member.assignment.view(), now.image).value_or(Assignment());
    write(targetRecord(id_, member.id, has));
    write(currentRecord(
        id_, member.id,
        {.epoch = from.generation, .previousEpoch = from.generation, .state = 0, .assigned = has, .pending = {}}));
  }
  write(targetEpochRecord(id_, {.assignmentEpoch = from.generation, .assignmentTimestamp = now.wall.value()}));
  for (auto& [id, member] : members_) member.sessionEnd = now.instant + session(member, now.image);
}

bool ConsumerGroup::isForClassic() const {
  return settings_.downgrades && !members_.empty() && members_.size() <= static_cast<size_t>(settings_.sizeMax) &&
         std::all_of(members_.begin(), members_.end(), [](const auto& entry) { return isClassic(entry.second); });
}

ClassicGroup::Migrated ConsumerGroup::release(const Now& now, std::vector<LogRecord>& records) {
  ClassicGroup::Migrated to{.generation = epoch_, .members = {}, .history = std::move(history_)};
  for (const auto& [id, member] : members_) {
    const ClassicMetadata& classic = *member.wants.classicMemberMetadata;
    ClassicMember& moved = to.members.emplace_back();
    moved.id = id;
    moved.instance = member.wants.instanceId;
    moved.clientId = member.wants.clientId;
    moved.clientHost = member.wants.clientHost;
    moved.rebalanceTimeout = std::chrono::milliseconds(member.wants.rebalanceTimeoutMs);
    moved.sessionTimeout = std::chrono::milliseconds(classic.sessionTimeoutMs);
    for (const auto& protocol : classic.supportedProtocols)
      moved.protocols.push_back({protocol.name, wire::Blob::copyOf(protocol.metadata.view()), {}});
    int16_t version = protocolVersionOf(classic.supportedProtocols.front().metadata.view());
    moved.assignment = wire::Blob::copyOf(writeAssignment(member.assigned, version, now.image));
    remove(id, [&](LogRecord record) { records.push_back(std::move(record)); });
  }
  forget(records);
  return to;
}

}  // namespace mq::coordinator
