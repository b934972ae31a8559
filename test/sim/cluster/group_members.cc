#include "group_members.h"

#include <kj/debug.h>

#include <algorithm>

#include "answers.h"
#include "wire/codec.h"
#include "wire/consumer_group_heartbeat_request.h"
#include "wire/consumer_group_heartbeat_response.h"
#include "wire/consumer_protocol_assignment.h"
#include "wire/consumer_protocol_subscription.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/heartbeat_request.h"
#include "wire/heartbeat_response.h"
#include "wire/join_group_request.h"
#include "wire/join_group_response.h"
#include "wire/leave_group_request.h"
#include "wire/leave_group_response.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"
#include "wire/sync_group_request.h"
#include "wire/sync_group_response.h"

namespace mq::sim {
namespace {

constexpr int32_t kSessionMs = 2000;
constexpr int32_t kRebalanceMs = 3000;
constexpr Duration kJoinPatience = 20s;  // a join waits for the others

// The coordinator is not there, or not yet.
bool isAway(Error error) {
  return error == Error::notCoordinator || error == Error::coordinatorLoadInProgress || isPassing(error);
}

Buffer encodePartitions(const std::vector<int32_t>& partitions) {
  Buffer bytes;
  ByteWriter writer(bytes);
  for (int32_t partition : partitions) writer.int32(partition);
  return bytes;
}

std::vector<int32_t> decodePartitions(Bytes bytes) {
  std::vector<int32_t> partitions;
  for (ByteReader reader(bytes); !reader.atEnd();) partitions.push_back(reader.int32());
  return partitions;
}

// The same as members of Kafka's clients tell it.
Buffer encodeAssignment(const std::vector<int32_t>& partitions) {
  wire::ConsumerProtocolAssignment message;
  message.assignedPartitions.push_back({kGroupTopic, partitions});
  Buffer bytes;
  ByteWriter(bytes).int16(0);
  KJ_ASSERT(wire::encode(message, 0, bytes).has_value());
  return bytes;
}

std::vector<int32_t> decodeAssignment(Bytes bytes) {
  ByteReader reader(bytes);
  if (bytes.empty()) return {};
  int16_t version = reader.int16();
  auto message = wire::decode<wire::ConsumerProtocolAssignment>(reader, version);
  KJ_ASSERT(message.has_value());
  return message->assignedPartitions.empty() ? std::vector<int32_t>() : message->assignedPartitions[0].partitions;
}

Buffer encodeSubscription(bool alsoOther) {
  wire::ConsumerProtocolSubscription message;
  message.topics = {kGroupTopic};
  if (alsoOther) message.topics.push_back("never-made");
  Buffer bytes;
  ByteWriter(bytes).int16(1);
  KJ_ASSERT(wire::encode(message, 1, bytes).has_value());
  return bytes;
}

// What of a group is committed, checked; nullopt: it cannot be had now.
Co<std::optional<std::map<int32_t, int64_t>>> readCommitted(ClusterClient& client, GroupHistory& groups,
                                                            std::string group, std::vector<int32_t> partitions) {
  std::map<int32_t, int64_t> floors, offsets;
  for (int32_t partition : partitions) floors[partition] = groups.acknowledged(group, partition);
  wire::OffsetFetchRequest request{.groupId = group};
  request.topics.emplace();
  request.topics->push_back({.name = kGroupTopic, .partitionIndexes = partitions});
  auto answer = co_await client.call(std::move(request), 5, kPatience);
  if (answer.message.errorCode != Error::none) {
    if (!isAway(answer.message.errorCode)) unexpected("OffsetFetch", answer.message.errorCode);
    co_return std::nullopt;
  }
  for (const auto& partition : answer.message.topics.at(0).partitions) {
    if (partition.errorCode != Error::none) unexpected("OffsetFetch", partition.errorCode);
    groups.read(group, partition.partitionIndex, partition.committedOffset, floors[partition.partitionIndex]);
    offsets[partition.partitionIndex] = partition.committedOffset;
  }
  co_return offsets;
}

Co<bool> findCoordinator(ClusterClient& client, std::string group) {
  auto answer = co_await client.call(wire::FindCoordinatorRequest{.key = std::move(group)}, 1, kPatience);
  if (answer.message.errorCode != Error::none && !isAway(answer.message.errorCode))
    unexpected("FindCoordinator", answer.message.errorCode, answer.message.errorMessage.value_or(""));
  co_return answer.message.errorCode == Error::none;
}

class Member {
 public:
  // `isMixed`: the group may have members of the other protocol. This one gives up all that it has before it joins.
  Member(Workload& workload, GroupHistory& groups, std::string group, std::optional<std::string> instance, bool isMixed)
      : w_(workload),
        groups_(groups),
        random_(workload.random.fork()),
        client_(workload.shard, workload.brokers),
        group_(std::move(group)),
        instance_(std::move(instance)),
        isMixed_(isMixed) {}

  Co<void> run() {
    while (!w_.stopping) {
      bool isIn = false;
      co_await attempted(join().then([&isIn](bool in) { isIn = in; }));
      if (isIn) co_await attempted(work());
      owns({}, w_.shard.now());
      co_await pause(1, 300);
    }
    if (random_.chance(1, 2)) co_await attempted(leave());
  }

 private:
  kj::Promise<void> pause(uint64_t from, uint64_t to) {
    return w_.shard.after(Duration(std::chrono::milliseconds(random_.between(from, to))));
  }

  // What a member does about an error in general; false: it is one of those.
  bool forgets(Error error) {
    if (error == Error::unknownMemberId || error == Error::fencedInstanceId) id_.clear();
    return error == Error::unknownMemberId || error == Error::fencedInstanceId || error == Error::illegalGeneration ||
           error == Error::rebalanceInProgress || error == Error::memberIdRequired || isAway(error);
  }

  // Until its session on the broker could end at the earliest; `asked`: when it last asked something it was answered.
  void owns(const std::vector<int32_t>& partitions, Instant asked) {
    if (!isMixed_) return;
    const Instant until = asked + Duration(std::chrono::milliseconds(kSessionMs));
    const Instant now = w_.shard.now();
    if (!partitions.empty()) until_ = until;
    // An answer that took longer than its session tells of what it may have lost since. A static member that was
    // replaced hands its partitions to itself.
    groups_.owns(group_, instance_.value_or("classic " + id_), now < until ? partitions : std::vector<int32_t>(), now,
                 until);
  }

  // Into the next generation, with an assignment; false: not this time.
  Co<bool> join() {
    if (!co_await findCoordinator(client_, group_)) co_return false;
    wire::JoinGroupRequest request{
        .groupId = group_, .sessionTimeoutMs = kSessionMs, .rebalanceTimeoutMs = kRebalanceMs, .memberId = id_};
    request.groupInstanceId = instance_;
    request.protocolType = "consumer";
    bool isOther = random_.chance(1, 10);  // now and then it reads something else
    Buffer metadata = isMixed_ ? encodeSubscription(isOther) : Buffer(isOther ? 1 : 0);
    request.protocols = {{.name = "spread", .metadata = wire::Blob(Bytes(metadata))}};
    auto joined = co_await client_.call(std::move(request), 5, kJoinPatience);
    if (joined.message.errorCode == Error::memberIdRequired) id_ = joined.message.memberId;
    if (joined.message.errorCode != Error::none) {
      if (!forgets(joined.message.errorCode)) unexpected("JoinGroup", joined.message.errorCode);
      co_return false;
    }
    id_ = joined.message.memberId;
    generation_ = joined.message.generationId;
    wire::SyncGroupRequest sync{.groupId = group_, .generationId = generation_, .memberId = id_};
    sync.groupInstanceId = instance_;
    std::vector<Buffer> assignments;
    if (joined.message.leader == id_ && !joined.message.members.empty()) {
      if (random_.chance(1, 15)) co_return false;  // B24: a leader that never says
      size_t count = joined.message.members.size();
      std::vector<std::vector<int32_t>> shares(count);
      for (int32_t i = 0; i < kGroupPartitions; ++i) shares[static_cast<size_t>(i) % count].push_back(i);
      for (const auto& share : shares)
        assignments.push_back(isMixed_ ? encodeAssignment(share) : encodePartitions(share));
      for (size_t i = 0; i < count; ++i) {
        sync.assignments.push_back(
            {.memberId = joined.message.members[i].memberId, .assignment = wire::Blob(Bytes(assignments[i]))});
      }
    }
    Instant asked = w_.shard.now();
    auto synced = co_await client_.call(std::move(sync), 3, kJoinPatience);
    if (synced.message.errorCode != Error::none) {
      if (!forgets(synced.message.errorCode)) unexpected("SyncGroup", synced.message.errorCode);
      co_return false;
    }
    auto owned = isMixed_ ? decodeAssignment(synced.message.assignment.view())
                          : decodePartitions(synced.message.assignment.view());
    owned_ = owned;
    owns(owned, asked);
    // A static member that was replaced within a generation hands its partitions to itself. A group that changes its
    // protocol while it is empty begins to count anew.
    if (!isMixed_) groups_.assigned(group_, generation_, instance_.value_or(id_), owned);
    auto offsets = co_await readCommitted(client_, groups_, group_, owned);
    if (!offsets) co_return false;
    positions_ = std::move(*offsets);
    co_return true;
  }

  // Until the group moves on, or this member is tired of it.
  Co<void> work() {
    while (!w_.stopping) {
      co_await pause(20, 400);
      switch (random_.below(25)) {
        case 0: co_return co_await leave();
        case 1:  // vanishes, and comes back as somebody else
          client_.close("crash");
          if (!instance_) id_.clear();
          co_return;
        case 2:
          co_await pause(100, 2 * kSessionMs);
          // The first that it does may be to commit what it has done before, whoever goes on with it meanwhile.
          if (random_.chance(1, 2) && !co_await commit()) co_return;
          break;
        default: break;
      }
      // A coordinator that is still reading its log says to all that they may go on, as Kafka's: one that has been
      // silent for its session has to know by itself that it is out.
      if (isMixed_ && w_.shard.now() >= until_) co_return;
      wire::HeartbeatRequest beat{.groupId = group_, .generationId = generation_, .memberId = id_};
      beat.groupInstanceId = instance_;
      Instant asked = w_.shard.now();
      auto alive = co_await client_.call(std::move(beat), 3, kPatience);
      if (alive.message.errorCode != Error::none) {
        if (!forgets(alive.message.errorCode)) unexpected("Heartbeat", alive.message.errorCode);
        if (!isAway(alive.message.errorCode)) co_return;
        continue;
      }
      if (isMixed_ && w_.shard.now() >= until_) co_return;
      owns(owned_, asked);
      if (random_.chance(2, 3) && !co_await commit()) co_return;
    }
  }

  Co<bool> commit() {
    wire::OffsetCommitRequest request{.groupId = group_, .generationIdOrMemberEpoch = generation_, .memberId = id_};
    request.groupInstanceId = instance_;
    auto& topic = request.topics.emplace_back();
    topic.name = kGroupTopic;
    for (auto& [partition, position] : positions_) {
      if (random_.chance(1, 3)) continue;
      position = std::max<int64_t>(position, 0) + static_cast<int64_t>(random_.between(1, 20));
      topic.partitions.push_back({.partitionIndex = partition, .committedOffset = position, .committedMetadata = ""});
    }
    if (topic.partitions.empty()) co_return true;
    auto sent = topic.partitions;
    for (const auto& partition : sent) groups_.committing(group_, partition.partitionIndex, partition.committedOffset);
    auto answer = co_await client_.call(std::move(request), 7, kPatience);
    bool stays = true;
    const auto& told = answer.message.topics.at(0).partitions;
    for (size_t i = 0; i < told.size(); ++i) {
      if (told[i].errorCode == Error::none) {
        groups_.committed(group_, sent[i].partitionIndex, sent[i].committedOffset);
      } else {
        if (!forgets(told[i].errorCode)) unexpected("OffsetCommit", told[i].errorCode);
        stays = false;
      }
    }
    co_return stays;
  }

  Co<void> leave() {
    owns({}, w_.shard.now());
    wire::LeaveGroupRequest request{.groupId = group_};
    request.members = {{.memberId = id_, .groupInstanceId = instance_}};
    auto left = co_await client_.call(std::move(request), 3, kPatience);
    if (left.message.errorCode != Error::none && !isAway(left.message.errorCode))
      unexpected("LeaveGroup", left.message.errorCode);
    id_.clear();
  }

  Workload& w_;
  GroupHistory& groups_;
  Prng random_;
  ClusterClient client_;
  const std::string group_;
  const std::optional<std::string> instance_;
  const bool isMixed_;
  std::string id_;
  int32_t generation_ = -1;
  std::vector<int32_t> owned_;
  Instant until_;  // isMixed: when its session on the broker could end at the earliest
  std::map<int32_t, int64_t> positions_;
};

// In the consumer protocol. Its session on the broker is longer than this member's own patience: it takes itself for
// out before anybody else can be given what it has.
class Consumer {
 public:
  Consumer(Workload& workload, GroupHistory& groups, std::string group, std::optional<std::string> instance)
      : w_(workload),
        groups_(groups),
        random_(workload.random.fork()),
        client_(workload.shard, workload.brokers),
        group_(std::move(group)),
        instance_(std::move(instance)) {
    start();
  }

  Co<void> run() {
    while (!w_.stopping) {
      co_await pause(20, 300);
      giveUpIfSilent();
      bool isThere = false;
      co_await attempted(findCoordinator(client_, group_).then([&isThere](bool found) { isThere = found; }));
      if (!isThere) continue;
      giveUpIfSilent();
      switch (random_.below(40)) {
        case 0: co_await attempted(beat(instance_ && random_.chance(1, 2) ? -2 : -1)); break;
        case 1:  // vanishes; another process comes in its place
          client_.close("crash");
          out();
          start();
          break;
        case 2: co_await pause(500, 6000); break;
        default: co_await attempted(beat(epoch_)); break;
      }
      if (epoch_ > 0 && random_.chance(1, 2)) co_await attempted(commit());
    }
    if (epoch_ > 0 && random_.chance(1, 2)) co_await attempted(beat(-1));
    out();
  }

 private:
  static constexpr Duration kGivesUp = 2s;

  kj::Promise<void> pause(uint64_t from, uint64_t to) {
    return w_.shard.after(Duration(std::chrono::milliseconds(random_.between(from, to))));
  }
  void start() { id_ = Uuid::random(random_.next(), random_.next()).toString(); }
  void giveUpIfSilent() {
    if (epoch_ > 0 && w_.shard.now() > until()) out();
  }
  // When the broker may give away what it has: its session ends, or it has not given back in time what it was asked to.
  Instant until() const { return std::min(heardAt_ + kGivesUp, giveBackBy_.value_or(Instant::max())); }
  void out() {
    epoch_ = 0;
    owned_.clear();
    next_.reset();
    giveBackBy_.reset();
    positions_.clear();
    groups_.owns(group_, id_, {}, w_.shard.now(), w_.shard.now());
  }

  Co<void> beat(int32_t epoch) {
    if (epoch < 0 && epoch_ == 0) co_return;
    if (next_ && random_.chance(1, 2)) take(*std::exchange(next_, std::nullopt));
    wire::ConsumerGroupHeartbeatRequest request{.groupId = group_, .memberId = id_, .memberEpoch = epoch};
    request.instanceId = instance_;
    request.rebalanceTimeoutMs = kRebalanceMs;
    request.subscribedTopicNames = {std::string(kGroupTopic)};
    request.topicPartitions.emplace();
    if (!owned_.empty()) request.topicPartitions->push_back({.topicId = topic_, .partitions = owned_});
    if (epoch <= 0) request.topicPartitions->clear();
    if (epoch < 0) out();  // gives everything back before it says so
    Instant asked = w_.shard.now();
    auto answer = co_await client_.call(std::move(request), 1, kPatience);
    const auto& told = answer.message;
    if (told.errorCode != Error::none) {
      switch (told.errorCode) {
        case Error::fencedMemberEpoch:
        case Error::unknownMemberId:
        case Error::fencedInstanceId: out(); break;
        case Error::unreleasedInstanceId: break;  // until the session of the one before ends
        default:
          if (!isAway(told.errorCode))
            unexpected("ConsumerGroupHeartbeat", told.errorCode, told.errorMessage.value_or(""));
      }
      co_return;
    }
    if (epoch < 0) {
      if (!instance_) start();
      co_return;
    }
    // An answer from before it gave up is about a life that is over.
    if (epoch > 0 && epoch_ == 0) co_return;
    if (w_.shard.now() - asked > kGivesUp) co_return out();  // it tells of what may have been given away since
    const Instant heardBefore = std::exchange(heardAt_, asked);
    if (!next_) giveBackBy_.reset();  // it has said that it gave back what it was asked to
    epoch_ = told.memberEpoch;
    if (!told.assignment) {
      groups_.owns(group_, id_, owned_, w_.shard.now(), until());
      co_return;
    }
    std::vector<int32_t> owned;
    for (const auto& topic : told.assignment->topicPartitions) {
      topic_ = topic.topicId;
      owned = topic.partitions;
    }
    // What has to be given back may still be worked on: until then it says that it has it.
    const bool givesBack = !std::ranges::includes(owned, owned_);
    // The broker counts from the first answer that said so, which may have been lost.
    if (givesBack && !giveBackBy_) giveBackBy_ = heardBefore + Duration(std::chrono::milliseconds(kRebalanceMs));
    if (givesBack && random_.chance(1, 2)) {
      groups_.owns(group_, id_, owned_, w_.shard.now(), until());
      next_ = std::move(owned);
    } else {
      take(std::move(owned));
    }
  }

  void take(std::vector<int32_t> owned) {
    next_.reset();
    std::erase_if(positions_,
                  [&](const auto& entry) { return std::find(owned.begin(), owned.end(), entry.first) == owned.end(); });
    owned_ = std::move(owned);
    groups_.owns(group_, id_, owned_, w_.shard.now(), until());
  }

  Co<void> commit() {
    std::vector<int32_t> fresh;
    for (int32_t partition : owned_)
      if (!positions_.contains(partition)) fresh.push_back(partition);
    if (!fresh.empty()) {
      auto offsets = co_await readCommitted(client_, groups_, group_, fresh);
      if (!offsets) co_return;
      for (auto [partition, offset] : *offsets) positions_[partition] = offset;
    }
    wire::OffsetCommitRequest request{.groupId = group_, .generationIdOrMemberEpoch = epoch_, .memberId = id_};
    request.groupInstanceId = instance_;
    auto& topic = request.topics.emplace_back();
    topic.name = kGroupTopic;
    for (auto& [partition, position] : positions_) {
      position = std::max<int64_t>(position, 0) + static_cast<int64_t>(random_.between(1, 20));
      topic.partitions.push_back({.partitionIndex = partition, .committedOffset = position, .committedMetadata = ""});
    }
    if (topic.partitions.empty() || epoch_ == 0) co_return;
    auto sent = topic.partitions;
    for (const auto& partition : sent) groups_.committing(group_, partition.partitionIndex, partition.committedOffset);
    auto answer = co_await client_.call(std::move(request), 9, kPatience);
    const auto& told = answer.message.topics.at(0).partitions;
    for (size_t i = 0; i < told.size(); ++i) {
      Error error = told[i].errorCode;
      if (error == Error::none) {
        groups_.committed(group_, sent[i].partitionIndex, sent[i].committedOffset);
      } else if (error != Error::staleMemberEpoch && error != Error::unknownMemberId &&
                 error != Error::groupIdNotFound && !isAway(error)) {
        unexpected("OffsetCommit", error);
      }
    }
  }

  Workload& w_;
  GroupHistory& groups_;
  Prng random_;
  ClusterClient client_;
  const std::string group_;
  const std::optional<std::string> instance_;
  std::string id_;
  int32_t epoch_ = 0;
  Instant heardAt_;                    // asked, and answered
  std::optional<Instant> giveBackBy_;  // while the broker has not heard that it gave back what it was asked to
  TopicId topic_;
  std::vector<int32_t> owned_;
  std::optional<std::vector<int32_t>> next_;  // what it will have once it has given the rest back
  std::map<int32_t, int64_t> positions_;
};

}  // namespace

Co<void> prepareGroups(Workload& w) {
  ClusterClient client(w.shard, w.brokers);
  wire::CreateTopicsRequest request{.timeoutMs = 5000};
  request.topics = {{.name = kGroupTopic, .numPartitions = kGroupPartitions, .replicationFactor = w.replicas}};
  for (bool done = false; !done && !w.stopping;) {
    Error error = Error::none;
    bool answered = co_await attempted(
        client.call(request, 7, kPatience).then([&](auto&& answer) { error = answer.message.topics.at(0).errorCode; }));
    done = answered && (error == Error::none || error == Error::topicAlreadyExists);
    if (!done) co_await w.shard.after(200ms);
  }
}

Co<void> memberUntilStopped(Workload& w, GroupHistory& groups, std::string group, std::optional<std::string> instance,
                            bool isMixed) {
  Member member(w, groups, std::move(group), std::move(instance), isMixed);
  co_await member.run();
}

Co<void> consumerUntilStopped(Workload& w, GroupHistory& groups, std::string group,
                              std::optional<std::string> instance) {
  Consumer consumer(w, groups, std::move(group), std::move(instance));
  co_await consumer.run();
}

namespace {

Co<void> commitOnce(Workload& w, ClusterClient& client, GroupHistory& groups, Prng& random, std::string group,
                    int64_t& position) {
  if (!co_await findCoordinator(client, group)) co_return;
  if (random.chance(1, 3)) {
    co_await readCommitted(client, groups, group, {0});
    co_return;
  }
  wire::OffsetCommitRequest request{.groupId = group};
  position += static_cast<int64_t>(random.between(1, 10));
  auto& topic = request.topics.emplace_back();
  topic.name = kGroupTopic;
  topic.partitions.push_back({.partitionIndex = 0, .committedOffset = position, .committedMetadata = "m"});
  groups.committing(group, 0, position);
  auto answer = co_await client.call(std::move(request), 7, kPatience);
  Error error = answer.message.topics.at(0).partitions.at(0).errorCode;
  if (error == Error::none) {
    groups.committed(group, 0, position);
  } else if (!isAway(error)) {
    unexpected("OffsetCommit", error);
  }
}

}  // namespace

Co<void> commitUntilStopped(Workload& w, GroupHistory& groups, std::string group) {
  Prng random = w.random.fork();
  ClusterClient client(w.shard, w.brokers), reader(w.shard, w.brokers);
  int64_t position = 0;
  while (!w.stopping) {
    co_await w.shard.after(Duration(std::chrono::milliseconds(random.between(1, 200))));
    auto committed = attempted(commitOnce(w, client, groups, random, group, position)).eagerlyEvaluate(nullptr);
    // Somebody looks while it is on its way: what is told then must be as safe as what is acknowledged.
    for (uint64_t reads = random.between(0, 3); reads > 0; --reads) {
      co_await w.shard.after(std::chrono::microseconds(random.between(100, 4000)));
      std::vector<int32_t> all;
      for (int32_t i = 0; i < kGroupPartitions; ++i) all.push_back(i);
      co_await attempted(readCommitted(reader, groups, group, all).ignoreResult());
    }
    co_await kj::mv(committed);
  }
}

Co<void> checkCommits(Workload& w, GroupHistory& groups, std::vector<std::string> names) {
  ClusterClient client(w.shard, w.brokers);
  std::vector<int32_t> partitions;
  for (int32_t i = 0; i < kGroupPartitions; ++i) partitions.push_back(i);
  for (const std::string& name : names) {
    for (int attempt = 0;; ++attempt) {
      bool isRead = false;
      co_await attempted(readCommitted(client, groups, name, partitions).then([&isRead](auto&& offsets) {
        isRead = offsets.has_value();
      }));
      if (isRead) break;
      KJ_REQUIRE(attempt < 100, "coordinator: it does not come up although nothing keeps it from it", name.c_str());
      co_await w.shard.after(100ms);
    }
  }
}

}  // namespace mq::sim
