#include "coordinator/groups.h"

#include <algorithm>

#include "base/check.h"
#include "coordinator/offset_records.h"
#include "coordinator/records.h"

namespace mq::coordinator {
namespace {

constexpr int64_t kNoOffset = -1;
constexpr int16_t kMemberEpochFrom = 9;                                   // of OffsetCommit
constexpr std::string_view kClassic = "classic", kConsumer = "consumer";  // types of groups

bool sameState(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    return lower(x) == lower(y);
  });
}

bool contains(const std::vector<std::string>& list, std::string_view word) {
  return std::any_of(list.begin(), list.end(), [&](const std::string& item) { return sameState(item, word); });
}

// Into the description of a group of either protocol.
template <class Described>
void tellHistory(const std::deque<Rebalance>& rebalances, WallMs loadedAt, Described& described) {
  bool isFull = rebalances.size() == kHistoryMax;
  described.historySinceMs = (isFull ? rebalances.front().began : loadedAt).value();
  for (const Rebalance& rebalance : rebalances) {
    auto& told = described.history.emplace_back();
    told.beganMs = rebalance.began.value();
    told.endedMs = rebalance.ended.value();
    told.generation = rebalance.generation;
    told.members = static_cast<int32_t>(rebalance.members);
    told.reason = rebalance.reason;
  }
}

}  // namespace

Groups::Group* Groups::find(const std::string& id) {
  auto found = groups_.find(id);
  return found == groups_.end() ? nullptr : &found->second;
}

Groups::Group& Groups::findOrMake(const std::string& id) {
  return groups_.try_emplace(id, id, settings_).first->second;
}

void Groups::settle(const std::string& id, Effects& effects) {
  auto found = groups_.find(id);
  if (found == groups_.end()) return;
  Group& group = found->second;
  effects.after = std::max(effects.after, group.written);
  if (isNothing(id, group) && effects.records.size() == effects.applied) return drop(found);
  std::optional<Instant> next = group.consumer ? group.consumer->deadline() : group.classic->deadline();
  if (!next || (group.wake && *group.wake <= *next)) return;  // being woken too early costs little
  if (group.wake) wakes_.erase({*group.wake, id});
  group.wake = next;
  wakes_.emplace(*next, id);
}

bool Groups::isNothing(const std::string& id, const Group& group) const {
  return group.isUnused() && !pending_.has(id);
}

void Groups::drop(std::map<std::string, Group>::iterator at) {
  if (at->second.wake) wakes_.erase({*at->second.wake, at->first});
  groups_.erase(at);
}

// --- members

void Groups::join(const Caller& caller, wire::JoinGroupRequest asked, const Now& now,
                  Answer<wire::JoinGroupResponse> answer, Effects& effects) {
  Duration session = std::chrono::milliseconds(asked.sessionTimeoutMs);
  if (session < settings_.sessionMin || session > settings_.sessionMax)
    return effects.answer(std::move(answer), Error::invalidSessionTimeout);
  if (!asked.memberId.empty() && find(asked.groupId) == nullptr)
    return effects.answer(std::move(answer), Error::unknownMemberId);
  std::string id = asked.groupId;
  if (!becomeClassic(id, effects)) {
    ConsumerGroup& consumer = *find(id)->consumer;
    int32_t epoch = consumer.epoch();
    auto joined = consumer.joinClassic(caller, asked, now, writer(effects), effects);
    if (consumer.epoch() != epoch) ++counters_.rebalances;
    effects.answer(std::move(answer), std::move(joined));
    becomeClassicWithMembers(id, now, effects);
    return settle(id, effects);
  }
  ClassicGroup& group = *findOrMake(id).classic;
  int32_t generation = group.generation();
  bool wasRebalancing = group.state() == ClassicGroup::State::preparingRebalance;
  group.join(caller, std::move(asked), now, std::move(answer), effects);
  if (!wasRebalancing && (group.state() == ClassicGroup::State::preparingRebalance || group.generation() != generation))
    ++counters_.rebalances;
  settle(id, effects);
}

void Groups::sync(wire::SyncGroupRequest asked, const Now& now, Answer<wire::SyncGroupResponse> answer,
                  Effects& effects) {
  Group* group = find(asked.groupId);
  if (group == nullptr) return effects.answer(std::move(answer), Error::unknownMemberId);
  std::string id = asked.groupId;
  if (group->consumer) {
    effects.answer(std::move(answer), group->consumer->syncClassic(asked, now));
  } else {
    group->classic->sync(std::move(asked), now, std::move(answer), effects);
  }
  settle(id, effects);
}

void Groups::heartbeat(const std::string& id, const std::string& member, const std::optional<std::string>& instance,
                       int32_t generation, const Now& now, Answer<Left> answer, Effects& effects) {
  Group* group = find(id);
  Error error = Error::unknownMemberId;
  if (group != nullptr && group->consumer) {
    int32_t epoch = group->consumer->epoch();
    error = group->consumer->heartbeatClassic(member, instance, generation, now, writer(effects), effects);
    if (group->consumer->epoch() != epoch) ++counters_.rebalances;
  } else if (group != nullptr) {
    error = group->classic->heartbeat(member, instance, generation, now);
  }
  effects.answer(std::move(answer), error == Error::none ? Result<Left>() : Result<Left>(error));
  settle(id, effects);
}

void Groups::leave(const std::string& id, const MemberIdentities& members, const Now& now,
                   Answer<wire::LeaveGroupResponse> answer, Effects& effects) {
  Group* group = find(id);
  wire::LeaveGroupResponse response;
  for (const auto& member : members) {
    if (group != nullptr && group->consumer) {
      response.members.push_back({.memberId = member.memberId,
                                  .groupInstanceId = member.groupInstanceId,
                                  .errorCode = group->consumer->removeMember(member, now, writer(effects), effects)});
    } else if (group != nullptr) {
      response.members.push_back(group->classic->leave(member, now, effects));
    } else {
      response.members.push_back({.memberId = member.memberId,
                                  .groupInstanceId = member.groupInstanceId,
                                  .errorCode = Error::unknownMemberId});
    }
  }
  effects.answer(std::move(answer), std::move(response));
  becomeClassicWithMembers(id, now, effects);
  settle(id, effects);
}

// --- the consumer protocol

ConsumerGroup::Write Groups::writer(Effects& effects) {
  return [this, &effects](LogRecord record) {
    MQ_CHECK(effects.applied == effects.records.size(), effects.applied, effects.records.size());
    std::optional<Bytes> value;
    if (record.value) value = Bytes(*record.value);
    apply(record.key, value, effects.revision);
    effects.records.push_back(std::move(record));
    ++effects.applied;
  };
}

bool Groups::becomeClassic(const std::string& id, Effects& effects) {
  Group* group = find(id);
  if (group == nullptr || !group->consumer) return true;
  if (!group->consumer->isEmpty()) return false;
  std::vector<LogRecord> records;
  group->consumer->forget(records);
  auto write = writer(effects);
  for (LogRecord& record : records) write(std::move(record));
  return true;
}

Result<void> Groups::becomeConsumer(const std::string& id, const Now& now, Effects& effects) {
  Group* group = find(id);
  if (group != nullptr && group->consumer) return {};
  ClassicGroup::Migrated members;
  if (group != nullptr && !group->classic->isEmpty()) {
    const ClassicGroup& classic = *group->classic;
    if (!settings_.upgrades || !classic.isOfConsumers() ||
        classic.memberCount() >= static_cast<size_t>(settings_.consumerSizeMax)) {
      return failure(Error::groupIdNotFound,
                     "Group {} has members in the classic protocol, {}: they have to leave before it can change.", id,
                     !settings_.upgrades        ? "and group.consumer.migration.policy does not let it change with them"
                     : !classic.isOfConsumers() ? "and is not read as one of consumers"
                                                : "and as many as group.consumer.max.size allows");
    }
    members = group->classic->release(effects);
    effects.notes.push_back(
        {"group-upgraded",
         fmt::format("{}: to the consumer protocol, with {} members of the classic one", id, members.members.size())});
  }
  if (group != nullptr && group->classic->isRecorded()) writer(effects)(groupTombstone(id));
  Group& made = findOrMake(id);
  made.classic.emplace(id, settings_);
  made.consumer = std::make_unique<ConsumerGroup>(id, settings_);
  if (!members.members.empty()) made.consumer->adopt(std::move(members), now, writer(effects));
  return {};
}

void Groups::becomeClassicWithMembers(const std::string& id, const Now& now, Effects& effects) {
  Group* group = find(id);
  if (group == nullptr || !group->consumer || !group->consumer->isForClassic()) return;
  std::vector<LogRecord> records;
  ClassicGroup::Migrated members = group->consumer->release(now, records);
  effects.notes.push_back({"group-downgraded", fmt::format("{}: back to the classic protocol, with {} members", id,
                                                           members.members.size())});
  auto write = writer(effects);
  for (LogRecord& record : records) write(std::move(record));
  findOrMake(id).classic.emplace(id, settings_, std::move(members), now, effects);
  ++counters_.rebalances;
}

void Groups::consumerHeartbeat(const Caller& caller, wire::ConsumerGroupHeartbeatRequest asked, const Now& now,
                               Answer<wire::ConsumerGroupHeartbeatResponse> answer, Effects& effects) {
  constexpr int32_t kJoin = 0;
  if (auto ok = ConsumerGroup::check(asked, caller.version); !ok)
    return effects.answer(std::move(answer), ok.failure());
  const std::string id = asked.groupId;
  if (asked.memberId.empty()) asked.memberId = now.random.uuid().toString();
  Group* group = find(id);
  if (asked.memberEpoch != kJoin && group != nullptr && !group->consumer &&
      (group->classic->isEmpty() || group->classic->isOfConsumers())) {
    // It was fenced, and the group went to its classic members, or is about to. It may join again, which Kafka's
    // answer, that there is no such group, would keep it from.
    return effects.answer(std::move(answer), failure(Error::unknownMemberId, "Member {} is not a member of group {}.",
                                                     asked.memberId, id));
  }
  if (asked.memberEpoch != kJoin && (group == nullptr || !group->consumer)) {
    return effects.answer(std::move(answer), failure(Error::groupIdNotFound, "Group {} is not a consumer group.", id));
  }
  if (asked.memberEpoch == kJoin) {
    if (auto changed = becomeConsumer(id, now, effects); !changed) {
      effects.answer(std::move(answer), changed.failure());
      return settle(id, effects);
    }
  }
  group = find(id);
  int32_t epoch = group->consumer->epoch();
  auto response = group->consumer->heartbeat(caller, asked, now, writer(effects), effects);
  if (group->consumer->epoch() != epoch) ++counters_.rebalances;
  if (!response && group->consumer->isEmpty() && group->consumer->epoch() == 0) group->consumer = nullptr;
  effects.answer(std::move(answer), std::move(response));
  becomeClassicWithMembers(id, now, effects);
  settle(id, effects);
}

void Groups::describeConsumer(const std::string& id, bool history, const Now& now,
                              Answer<wire::ConsumerGroupDescribeResponse::DescribedGroup> answer, Effects& effects) {
  Group* group = find(id);
  if (group == nullptr || !group->consumer) {
    return effects.answer(std::move(answer),
                          failure(Error::groupIdNotFound, "{}",
                                  group == nullptr ? fmt::format("Group {} not found.", id)
                                                   : fmt::format("Group {} is not a consumer group.", id)));
  }
  auto described = group->consumer->describe(now.image);
  if (history) tellHistory(group->consumer->history(), loadedAt_, described);
  effects.answer(std::move(answer), std::move(described));
  settle(id, effects);
}

// --- offsets

void Groups::commit(wire::OffsetCommitRequest asked, int16_t version, const Now& now,
                    Answer<wire::OffsetCommitResponse> answer, Effects& effects) {
  const std::string id = asked.groupId;
  const int32_t generation = asked.generationIdOrMemberEpoch;
  Group* group = find(id);
  if (group == nullptr && generation >= 0) {
    return effects.answer(std::move(answer),
                          version >= kMemberEpochFrom ? Error::groupIdNotFound : Error::illegalGeneration);
  }
  if (group == nullptr) group = &findOrMake(id);
  Error error = group->consumer ? group->consumer->admitCommit(asked.memberId, generation)
                                : group->classic->admitCommit(asked.memberId, asked.groupInstanceId, generation, now);
  if (error != Error::none) {
    effects.answer(std::move(answer), error);
    return settle(id, effects);
  }
  const int64_t expires = asked.retentionTimeMs >= 0 ? now.wall.value() + asked.retentionTimeMs : kNoTimestamp.value();
  auto response = recordOffsets<wire::OffsetCommitRequest, wire::OffsetCommitResponse>(asked, expires, now, effects);
  effects.answer(std::move(answer), std::move(response));
  settle(id, effects);
}

void Groups::fetch(const FetchGroup& asked, bool stable, const Now& now, Answer<FetchedGroup> answer,
                   Effects& effects) {
  FetchedGroup fetched;
  fetched.groupId = asked.groupId;
  Group* group = find(asked.groupId);
  if (group != nullptr && group->consumer) {
    fetched.errorCode = group->consumer->admitFetch(asked.memberId, asked.memberEpoch);
    if (fetched.errorCode != Error::none) return effects.answer(std::move(answer), std::move(fetched));
  }
  // An offset of another topic that had the name before is none.
  auto isCurrent = [&](std::string_view name, const CommittedOffsets::Topic& topic) {
    auto known = now.image.topic(name);
    return topic.id.isZero() || known == nullptr || known->id == topic.id;
  };
  auto tell = [&](wire::OffsetFetchResponse::OffsetFetchResponseTopics& into, int32_t partition,
                  const CommittedOffsets::Entry* entry) {
    auto& told = into.partitions.emplace_back();
    told.partitionIndex = partition;
    if (stable && pending_.has({asked.groupId, into.name, partition})) {
      told.errorCode = Error::unstableOffsetCommit;
      entry = nullptr;
    }
    told.committedOffset = entry == nullptr ? kNoOffset : entry->offset.value();
    if (entry != nullptr) told.committedLeaderEpoch = entry->leaderEpoch.value();
    told.metadata = entry == nullptr ? std::string() : std::string(entry->metadataText());
  };
  if (asked.topics) {
    for (const auto& topic : *asked.topics) {
      auto& told = fetched.topics.emplace_back();
      told.name = topic.name;
      told.topicId = topic.topicId;
      const CommittedOffsets::Topic* committed = nullptr;
      if (group != nullptr) {
        auto found = group->offsets.topics().find(topic.name);
        if (found != group->offsets.topics().end() && isCurrent(topic.name, found->second)) committed = &found->second;
      }
      for (int32_t partition : topic.partitionIndexes)
        tell(told, partition, committed ? group->offsets.find(topic.name, partition) : nullptr);
    }
  } else if (group != nullptr) {
    for (const auto& [name, topic] : group->offsets.topics()) {
      if (!isCurrent(name, topic)) continue;
      auto& told = fetched.topics.emplace_back();
      told.name = name;
      told.topicId = topic.id;
      for (const auto& entry : topic.entries) tell(told, entry.partition, &entry);
    }
  }
  effects.answer(std::move(answer), std::move(fetched));
  settle(asked.groupId, effects);
}

void Groups::deleteOffsets(const wire::OffsetDeleteRequest& asked, const Now& now,
                           Answer<wire::OffsetDeleteResponse> answer, Effects& effects) {
  Group* group = find(asked.groupId);
  if (group == nullptr) return effects.answer(std::move(answer), Error::groupIdNotFound);
  if (!group->isEmpty() && !group->consumer && group->classic->protocolType() != kConsumer)
    return effects.answer(std::move(answer), Error::nonEmptyGroup);
  wire::OffsetDeleteResponse response;
  for (const auto& topic : asked.topics) {
    auto& told = response.topics.emplace_back();
    told.name = topic.name;
    bool isSubscribed =
        group->consumer ? group->consumer->subscribes(topic.name, now.image) : group->classic->subscribes(topic.name);
    for (const auto& partition : topic.partitions) {
      auto& outcome = told.partitions.emplace_back();
      outcome.partitionIndex = partition.partitionIndex;
      if (isSubscribed) {
        outcome.errorCode = Error::groupSubscribedToTopic;
      } else if (group->offsets.find(topic.name, partition.partitionIndex) != nullptr ||
                 pending_.has({asked.groupId, topic.name, partition.partitionIndex})) {
        effects.records.push_back(offsetTombstone({asked.groupId, topic.name, partition.partitionIndex}));
      }
    }
  }
  effects.answer(std::move(answer), std::move(response));
  settle(asked.groupId, effects);
}

// --- administration

void Groups::list(const wire::ListGroupsRequest& filter,
                  Answer<std::vector<wire::ListGroupsResponse::ListedGroup>> answer, Effects& effects) {
  std::vector<wire::ListGroupsResponse::ListedGroup> listed;
  for (const auto& [id, group] : groups_) {
    std::string_view state =
        group.consumer ? ConsumerGroup::nameOf(group.consumer->state()) : ClassicGroup::nameOf(group.classic->state());
    std::string_view type = group.consumer ? kConsumer : kClassic;
    if (!filter.statesFilter.empty() && !contains(filter.statesFilter, state)) continue;
    if (!filter.typesFilter.empty() && !contains(filter.typesFilter, type)) continue;
    listed.push_back({.groupId = id,
                      .protocolType = group.consumer ? std::string(kConsumer) : group.classic->protocolType(),
                      .groupState = std::string(state),
                      .groupType = std::string(type)});
    effects.after = std::max(effects.after, group.written);
  }
  effects.answer(std::move(answer), std::move(listed));
}

void Groups::describe(const std::string& id, bool history, Answer<wire::DescribeGroupsResponse::DescribedGroup> answer,
                      Effects& effects) {
  Group* group = find(id);
  if (group == nullptr) {
    effects.answer(std::move(answer), failure(Error::groupIdNotFound, "Group {} not found.", id));
  } else if (group->consumer) {
    effects.answer(std::move(answer), failure(Error::groupIdNotFound, "Group {} is not a classic group.", id));
  } else {
    auto described = group->classic->describe();
    if (history) tellHistory(group->classic->history(), loadedAt_, described);
    effects.answer(std::move(answer), std::move(described));
  }
  settle(id, effects);
}

void Groups::deleteGroup(const std::string& id, Answer<Left> answer, Effects& effects) {
  Group* group = find(id);
  if (group == nullptr) return effects.answer(std::move(answer), Error::groupIdNotFound);
  if (!group->isEmpty()) return effects.answer(std::move(answer), Error::nonEmptyGroup);
  for (const auto& [name, topic] : group->offsets.topics()) {
    for (const auto& entry : topic.entries) effects.records.push_back(offsetTombstone({id, name, entry.partition}));
  }
  for (const auto& [of, name, partition] : pending_.placesOf(id))
    if (group->offsets.find(name, partition) == nullptr)
      effects.records.push_back(offsetTombstone({id, name, partition}));
  if (group->consumer) {
    group->consumer->forget(effects.records);
  } else if (group->classic->isRecorded()) {
    effects.records.push_back(groupTombstone(id));
  }
  effects.answer(std::move(answer), Result<Left>());
  effects.after = group->written;
}

const std::deque<Rebalance>* Groups::history(const std::string& id) {
  Group* group = find(id);
  if (group == nullptr) return nullptr;
  return group->consumer ? &group->consumer->history() : &group->classic->history();
}

// --- log

void Groups::apply(Bytes key, std::optional<Bytes> value, Revision revision) {
  auto read = readGroupKey(key);
  if (!read) {
    ++counters_.unknown;
  } else if (auto* offset = std::get_if<OffsetKey>(&*read)) {
    applyOffset(*offset, value, revision);
  } else if (auto* group = std::get_if<GroupKey>(&*read)) {
    applyGroup(group->group, value, revision);
  } else if (auto* consumer = std::get_if<ConsumerKey>(&*read)) {
    applyConsumer(*consumer, value, revision);
  } else {
    ++counters_.unknown;
  }
}

void Groups::applyOffset(const OffsetKey& key, std::optional<Bytes> value, Revision revision) {
  if (!value) {
    auto found = groups_.find(key.group);
    if (found == groups_.end()) return;
    pending_.remove({key.group, key.topic, key.partition});
    Group& group = found->second;
    if (group.offsets.find(key.topic, key.partition) != nullptr) --offsets_;
    group.offsets.remove(key.topic, key.partition);
    group.written = revision;
    if (isNothing(key.group, group)) drop(found);
    return;
  }
  auto read = readOffset(*value);
  if (!read) {
    ++counters_.unknown;
    return;
  }
  PendingOffsets::Place place{key.group, key.topic, key.partition};
  pending_.overtake(place);
  setOffset(place, read->topicId, committedOffset(*read), revision);
}

void Groups::setOffset(const PendingOffsets::Place& place, const TopicId& topic, const CommittedOffset& offset,
                       Revision revision) {
  Group& group = findOrMake(place.group);
  if (group.offsets.find(place.topic, place.partition) == nullptr) ++offsets_;
  group.offsets.set(place.topic, topic, place.partition, offset);
  group.written = revision;
}

void Groups::applyGroup(const std::string& id, std::optional<Bytes> value, Revision revision) {
  if (!value) {
    auto found = groups_.find(id);
    if (found == groups_.end()) return;
    found->second.classic.emplace(id, settings_);
    found->second.written = revision;
    if (isNothing(id, found->second)) drop(found);
    return;
  }
  if (isLoaded_) {  // the group has been like this since it wrote the record
    if (Group* group = find(id)) group->written = revision;
    return;
  }
  auto read = readGroup(*value);
  if (!read) {
    ++counters_.unknown;
    return;
  }
  findOrMake(id).classic.emplace(id, settings_, *read);
}

void Groups::applyConsumer(const ConsumerKey& key, std::optional<Bytes> value, Revision revision) {
  using Kind = ConsumerKey::Kind;
  if (key.kind == Kind::expression) return;  // what expressions match is found out anew
  auto found = groups_.find(key.group);
  if (!value && (found == groups_.end() || !found->second.consumer)) return;
  Group& group = found == groups_.end() ? findOrMake(key.group) : found->second;
  if (!group.consumer) group.consumer = std::make_unique<ConsumerGroup>(key.group, settings_);
  group.written = revision;
  ConsumerGroup& consumer = *group.consumer;
  auto take = [&](auto read, auto take) {
    if (read) {
      take(&*read);
    } else {
      ++counters_.unknown;
    }
  };
  switch (key.kind) {
    case Kind::group:
      if (value) {
        take(readConsumer<wire::ConsumerGroupMetadataValue>(*value), [&](auto* read) { consumer.applyGroup(*read); });
        return;
      }
      group.consumer = nullptr;
      if (isNothing(key.group, group)) drop(groups_.find(key.group));
      return;
    case Kind::targetEpoch:
      if (!value) return;  // goes with the group
      return take(readConsumer<wire::ConsumerGroupTargetAssignmentMetadataValue>(*value),
                  [&](auto* read) { consumer.applyTargetEpoch(*read); });
    case Kind::member:
      if (!value) return consumer.applyMember(key.member, nullptr);
      return take(readConsumer<wire::ConsumerGroupMemberMetadataValue>(*value),
                  [&](auto* read) { consumer.applyMember(key.member, read); });
    case Kind::target:
      if (!value) return consumer.applyTarget(key.member, nullptr);
      return take(readConsumer<wire::ConsumerGroupTargetAssignmentMemberValue>(*value),
                  [&](auto* read) { consumer.applyTarget(key.member, read); });
    case Kind::current:
      if (!value) return consumer.applyCurrent(key.member, nullptr);
      return take(readConsumer<wire::ConsumerGroupCurrentMemberAssignmentValue>(*value),
                  [&](auto* read) { consumer.applyCurrent(key.member, read); });
    case Kind::expression: return;
  }
}

void Groups::loaded(const Now& now) {
  isLoaded_ = true;
  loadedAt_ = now.wall;
  nextSweep_ = now.instant + settings_.offsetsCheckEvery;
  for (auto& [id, group] : groups_) {
    group.classic->restart(now);
    if (group.consumer) group.consumer->restart(now);
    group.wake = group.consumer ? group.consumer->deadline() : group.classic->deadline();
    if (group.wake) wakes_.emplace(*group.wake, id);
  }
  // What was deleted while nobody was here is found by the first sweep.
  for (const auto& [id, group] : groups_) {
    for (const auto& [name, topic] : group.offsets.topics()) {
      if (!topic.id.isZero() && now.image.wasDeleted(topic.id)) nextSweep_ = now.instant;
    }
  }
}

// --- time

std::optional<Instant> Groups::deadline() const {
  if (wakes_.empty()) return groups_.empty() ? std::nullopt : nextSweep_;
  return nextSweep_ ? std::min(*nextSweep_, wakes_.begin()->first) : wakes_.begin()->first;
}

void Groups::expire(const Now& now, Effects& effects) {
  // One group at a time, so that a step's batch and its time stay small.
  if (!wakes_.empty() && wakes_.begin()->first <= now.instant) {
    std::string id = wakes_.begin()->second;
    wakes_.erase(wakes_.begin());
    Group& group = groups_.at(id);
    group.wake.reset();
    if (group.consumer) {
      int32_t epoch = group.consumer->epoch();
      group.consumer->expire(now, writer(effects), effects);
      if (group.consumer->epoch() != epoch) ++counters_.rebalances;
      becomeClassicWithMembers(id, now, effects);
      return settle(id, effects);
    }
    bool wasRebalancing = group.classic->state() == ClassicGroup::State::preparingRebalance;
    group.classic->expire(now, effects);
    if (!wasRebalancing && group.classic->state() == ClassicGroup::State::preparingRebalance) ++counters_.rebalances;
    return settle(id, effects);
  }
  if (!nextSweep_ || *nextSweep_ > now.instant) return;
  auto next = sweepAfter_.empty() ? groups_.begin() : groups_.upper_bound(sweepAfter_);
  for (; next != groups_.end() && effects.records.empty(); ++next) {
    sweepAfter_ = next->first;
    sweep(next->first, next->second, now, effects);
  }
  if (next != groups_.end()) return;
  sweepAfter_.clear();
  nextSweep_ = now.instant + settings_.offsetsCheckEvery;
}

// Offsets go when their topic is gone, and with the group when that has been empty for offsets.retention.minutes
// (KIP-211): of a simple consumer, which is never in a group, each one that long after it was committed. Never while
// the group has members.
void Groups::sweep(const std::string& id, Group& group, const Now& now, Effects& effects) {
  const ClassicGroup& classic = *group.classic;
  const int64_t retention = settings_.offsetsRetention / 1ms;
  const bool isSimple = !group.consumer && classic.protocolType().empty();
  const WallMs emptySince = group.consumer ? group.consumer->emptySince() : classic.stateSince();
  size_t kept = 0;
  for (const auto& [name, topic] : group.offsets.topics()) {
    bool isGone = !topic.id.isZero() && now.image.wasDeleted(topic.id);
    for (const auto& entry : topic.entries) {
      WallMs from = isSimple || emptySince.value() < 0 ? entry.committed : emptySince;
      bool isOld = entry.expires.value() >= 0 ? now.wall >= entry.expires : now.wall - from >= retention;
      bool isAwaited = pending_.has({id, name, entry.partition});
      if (!isAwaited && (isGone || (group.isEmpty() && isOld))) {
        effects.records.push_back(offsetTombstone({id, name, entry.partition}));
        ++counters_.expired;
      } else {
        ++kept;
      }
    }
  }
  bool isOver = group.isEmpty() && kept == 0 && !pending_.has(id) && now.wall - emptySince >= retention;
  if (isOver && group.consumer) group.consumer->forget(effects.records);
  if (isOver && !group.consumer && classic.isRecorded()) effects.records.push_back(groupTombstone(id));
  if (effects.records.empty()) return;
  effects.notes.push_back({"offsets-expired", fmt::format("{}: {} of {} records removed", id, effects.records.size(),
                                                          effects.records.size() + kept)});
}

}  // namespace mq::coordinator
