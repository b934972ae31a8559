// Consumer groups over the wire: what each version of the requests carries. What a group decides is told by
// test/scenario/groups.
#include <algorithm>
#include <map>

#include "test_server.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"
#include "wire/consumer_group_describe_request.h"
#include "wire/consumer_group_describe_response.h"
#include "wire/consumer_group_heartbeat_request.h"
#include "wire/consumer_group_heartbeat_response.h"
#include "wire/create_partitions_request.h"
#include "wire/create_partitions_response.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/delete_groups_request.h"
#include "wire/delete_groups_response.h"
#include "wire/delete_topics_request.h"
#include "wire/delete_topics_response.h"
#include "wire/describe_groups_request.h"
#include "wire/describe_groups_response.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/heartbeat_request.h"
#include "wire/heartbeat_response.h"
#include "wire/join_group_request.h"
#include "wire/join_group_response.h"
#include "wire/leave_group_request.h"
#include "wire/leave_group_response.h"
#include "wire/list_groups_request.h"
#include "wire/list_groups_response.h"
#include "wire/metadata_request.h"
#include "wire/metadata_response.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"
#include "wire/offset_delete_request.h"
#include "wire/offset_delete_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"
#include "wire/sync_group_request.h"
#include "wire/sync_group_response.h"

namespace mq::kafka::test {
namespace {

TestServer& server() {
  static TestServer server({{"group.initial.rebalance.delay.ms", "0"}, {"offsets.topic.num.partitions", "5"}});
  return server;
}

std::string newGroup() {
  static int count = 0;
  return fmt::format("group{}", ++count);
}

TopicId newTopic(Client& client, const std::string& name, int32_t partitions) {
  auto made = client.call(
      wire::CreateTopicsRequest{.topics = {{.name = name, .numPartitions = partitions, .replicationFactor = 1}}}, 7);
  REQUIRE(made.topics.at(0).errorCode == Error::none);
  return made.topics[0].topicId;
}

wire::JoinGroupRequest joinRequest(const std::string& group, const std::string& member = "") {
  static const Buffer metadata = {0, 1, 2};
  wire::JoinGroupRequest join;
  join.groupId = group;
  join.sessionTimeoutMs = 10000;
  join.rebalanceTimeoutMs = 5000;
  join.memberId = member;
  join.protocolType = "consumer";
  join.protocols.push_back({.name = "range", .metadata = wire::Blob(Bytes(metadata))});
  return join;
}

std::string joinAlone(Client& client, const std::string& group, int16_t version = 3) {
  auto joined = client.call(joinRequest(group), version);
  if (joined.errorCode == Error::memberIdRequired) joined = client.call(joinRequest(group, joined.memberId), version);
  REQUIRE(joined.errorCode == Error::none);
  static const Buffer assignment = {7};
  wire::SyncGroupRequest sync;
  sync.groupId = group;
  sync.memberId = joined.memberId;
  sync.generationId = joined.generationId;
  sync.protocolType = "consumer";
  sync.protocolName = "range";
  sync.assignments.push_back({.memberId = joined.memberId, .assignment = wire::Blob(Bytes(assignment))});
  REQUIRE(client.call(sync, 5).errorCode == Error::none);
  return joined.memberId;
}

TEST_CASE("JoinGroup, SyncGroup, Heartbeat, LeaveGroup: a member's life in each version") {
  Client client(server());
  for (int16_t version = 0; version <= 9; ++version) {
    CAPTURE(version);
    std::string group = newGroup();
    awaitCoordinator(client, group);
    auto joined = client.call(joinRequest(group), version);
    if (version >= 4) {
      REQUIRE(joined.errorCode == Error::memberIdRequired);
      CHECK(joined.generationId == -1);
      joined = client.call(joinRequest(group, joined.memberId), version);
    }
    REQUIRE(joined.errorCode == Error::none);
    CHECK(joined.generationId == 1);
    CHECK(joined.protocolName == "range");
    CHECK(joined.leader == joined.memberId);
    REQUIRE(joined.members.size() == 1);
    CHECK(joined.members[0].metadata == wire::Blob(Bytes(Buffer{0, 1, 2})));
    if (version >= 7) CHECK(joined.protocolType == "consumer");

    int16_t syncVersion = std::min<int16_t>(version, 5);
    Buffer assignment = {4, 5};
    wire::SyncGroupRequest sync;
    sync.groupId = group;
    sync.memberId = joined.memberId;
    sync.generationId = 1;
    if (syncVersion >= 5) {
      CHECK(client.call(sync, 5).errorCode == Error::inconsistentGroupProtocol);
      sync.protocolType = "consumer";
      sync.protocolName = "range";
    }
    sync.assignments.push_back({.memberId = joined.memberId, .assignment = wire::Blob(Bytes(assignment))});
    auto synced = client.call(sync, syncVersion);
    CHECK(synced.errorCode == Error::none);
    CHECK(synced.assignment == wire::Blob(Bytes(assignment)));

    int16_t beatVersion = std::min<int16_t>(version, 4);
    wire::HeartbeatRequest beat{.groupId = group, .generationId = 1, .memberId = joined.memberId};
    CHECK(client.call(beat, beatVersion).errorCode == Error::none);
    beat.generationId = 2;
    CHECK(client.call(beat, beatVersion).errorCode == Error::illegalGeneration);

    int16_t leaveVersion = std::min<int16_t>(version, 5);
    wire::LeaveGroupRequest leave{.groupId = group};
    if (leaveVersion < 3) leave.memberId = joined.memberId;
    if (leaveVersion >= 3) leave.members = {{.memberId = joined.memberId}, {.memberId = "nobody"}};
    auto left = client.call(leave, leaveVersion);
    CHECK(left.errorCode == Error::none);
    if (leaveVersion >= 3) {
      REQUIRE(left.members.size() == 2);
      CHECK(left.members[0].errorCode == Error::none);
      CHECK(left.members[1].errorCode == Error::unknownMemberId);
    }
    auto again = client.call(leave, leaveVersion);
    CHECK((leaveVersion < 3 ? again.errorCode : again.members.at(0).errorCode) == Error::unknownMemberId);
  }
}

TEST_CASE("groups: an empty group id is refused, except for offsets") {
  Client client(server());
  awaitCoordinator(client, "");
  CHECK(client.call(joinRequest(""), 3).errorCode == Error::invalidGroupId);
  CHECK(client.call(wire::SyncGroupRequest{}, 3).errorCode == Error::invalidGroupId);
  CHECK(client.call(wire::HeartbeatRequest{}, 3).errorCode == Error::invalidGroupId);
  CHECK(client.call(wire::LeaveGroupRequest{}, 3).errorCode == Error::invalidGroupId);
  CHECK(client.call(wire::DeleteGroupsRequest{.groupsNames = {""}}, 2).results.at(0).errorCode ==
        Error::invalidGroupId);
  CHECK(client.call(wire::DescribeGroupsRequest{.groups = {""}}, 2).groups.at(0).errorCode == Error::invalidGroupId);
}

TEST_CASE("CreatePartitions: groups keep their partition of __consumer_offsets") {
  Client client(server());
  awaitCoordinator(client, newGroup());
  auto grown = client.call(wire::CreatePartitionsRequest{.topics = {{.name = "__consumer_offsets", .count = 6}}}, 3);
  REQUIRE(grown.results.size() == 1);
  CHECK(grown.results[0].errorCode == Error::invalidRequest);
  CHECK(grown.results[0].errorMessage.value_or("").find("follows from their number") != std::string::npos);
}

TEST_CASE("JoinGroup: members on other connections and shards come together") {
  Client first(server());
  std::string group = newGroup();
  awaitCoordinator(first, group);
  std::vector<Client> clients;
  for (int i = 0; i < 6; ++i) clients.emplace_back(server());
  std::string leader = joinAlone(first, group);
  for (auto& client : clients) client.request(joinRequest(group), 3);
  // Heartbeats tell the first member to join again; all are answered together.
  wire::HeartbeatRequest beat{.groupId = group, .generationId = 1, .memberId = leader};
  while (first.call(beat, 3).errorCode == Error::none) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(50ms);
  auto joined = first.call(joinRequest(group, leader), 3);
  REQUIRE(joined.errorCode == Error::none);
  std::vector<std::string> all = {leader};
  for (auto& client : clients) {
    auto other = client.response<wire::JoinGroupResponse>(3);
    REQUIRE(other.errorCode == Error::none);
    CHECK(other.generationId == joined.generationId);
    CHECK(other.leader == leader);
    CHECK(other.members.empty());
    all.push_back(other.memberId);
  }
  CHECK(joined.members.size() == all.size());
  // A client that goes away while it waits is missed at its session's end, not before; the others need not care.
  for (auto& client : clients) CHECK(client.silentFor(0ms));
}

wire::OffsetCommitRequest commitRequest(const std::string& group, const std::string& topic, const TopicId& id,
                                        int64_t offset) {
  wire::OffsetCommitRequest commit;
  commit.groupId = group;
  auto& asked = commit.topics.emplace_back();
  asked.name = topic;
  asked.topicId = id;
  asked.partitions.push_back({.partitionIndex = 0, .committedOffset = offset, .committedMetadata = "m"});
  asked.partitions.push_back({.partitionIndex = 9, .committedOffset = offset, .committedMetadata = ""});
  return commit;
}

TEST_CASE("OffsetCommit, OffsetFetch: each version") {
  Client client(server());
  std::string topic = newTopicName();
  TopicId id = newTopic(client, topic, 2);
  std::string group = newGroup();
  awaitCoordinator(client, group);
  for (int16_t version = 2; version <= 10; ++version) {
    CAPTURE(version);
    auto commit = commitRequest(group, topic, id, 100 + version);
    auto& unknown = commit.topics.emplace_back();
    unknown.name = "nowhere";
    unknown.topicId.bytes[0] = 1;
    unknown.partitions.push_back({.partitionIndex = 0, .committedOffset = 1, .committedMetadata = ""});
    auto committed = client.call(commit, version);
    REQUIRE(committed.topics.size() == 2);
    CHECK(committed.topics[0].partitions.at(0).errorCode == Error::none);
    CHECK(committed.topics[0].partitions.at(1).errorCode == Error::unknownTopicOrPartition);
    CHECK(committed.topics[1].partitions.at(0).errorCode ==
          (version >= 10 ? Error::unknownTopicId : Error::unknownTopicOrPartition));
    if (version >= 10)
      CHECK(committed.topics[0].topicId == id);
    else
      CHECK(committed.topics[0].name == topic);
  }
  for (int16_t version = 1; version <= 10; ++version) {
    CAPTURE(version);
    wire::OffsetFetchRequest fetch;
    if (version < 8) {
      fetch.groupId = group;
      fetch.topics.emplace();
      fetch.topics->push_back({.name = topic, .partitionIndexes = {0, 1}});
      auto fetched = client.call(fetch, version);
      REQUIRE(fetched.topics.size() == 1);
      REQUIRE(fetched.topics[0].partitions.size() == 2);
      CHECK(fetched.topics[0].partitions[0].committedOffset == 110);
      CHECK(fetched.topics[0].partitions[0].metadata == "m");
      CHECK(fetched.topics[0].partitions[1].committedOffset == -1);
      CHECK(fetched.topics[0].partitions[1].metadata == "");
      CHECK(fetched.topics[0].partitions[1].errorCode == Error::none);
      if (version < 2) continue;
      fetch.topics.reset();
      fetched = client.call(fetch, version);
      REQUIRE(fetched.topics.size() == 1);
      CHECK(fetched.topics[0].name == topic);
      continue;
    }
    auto& one = fetch.groups.emplace_back();
    one.groupId = group;
    one.topics.emplace();
    one.topics->push_back({.name = topic, .topicId = id, .partitionIndexes = {0}});
    if (version >= 10) one.topics->push_back({.topicId = Uuid::random(1, 2), .partitionIndexes = {0}});
    auto& two = fetch.groups.emplace_back();
    two.groupId = "never-seen";
    two.topics.reset();
    auto fetched = client.call(fetch, version);
    REQUIRE(fetched.groups.size() == 2);
    CHECK(fetched.groups[0].groupId == group);
    CHECK(fetched.groups[0].errorCode == Error::none);
    REQUIRE(fetched.groups[0].topics.size() == (version >= 10 ? 2 : 1));
    CHECK(fetched.groups[0].topics[0].partitions.at(0).committedOffset == 110);
    if (version >= 10) {
      CHECK(fetched.groups[0].topics[0].topicId == id);
      CHECK(fetched.groups[0].topics[1].partitions.at(0).errorCode == Error::unknownTopicId);
    }
    CHECK(fetched.groups[1].topics.empty());
    CHECK(fetched.groups[1].errorCode == Error::none);
  }
}

TEST_CASE("OffsetCommit: refused as a whole, each partition says why") {
  Client client(server());
  std::string topic = newTopicName();
  TopicId id = newTopic(client, topic, 1);
  std::string group = newGroup();
  awaitCoordinator(client, group);
  joinAlone(client, group);
  auto commit = commitRequest(group, topic, id, 5);
  auto committed = client.call(commit, 8);
  CHECK(committed.topics.at(0).partitions.at(0).errorCode == Error::unknownMemberId);
  CHECK(committed.topics.at(0).partitions.at(1).errorCode == Error::unknownTopicOrPartition);
}

TEST_CASE("groups: listed, described, deleted") {
  Client client(server());
  std::string topic = newTopicName();
  TopicId id = newTopic(client, topic, 1);
  std::string simple = newGroup(), alive = newGroup();
  awaitCoordinator(client, simple);
  client.call(commitRequest(simple, topic, id, 3), 8);
  std::string member = joinAlone(client, alive, 9);

  for (int16_t version = 0; version <= 5; ++version) {
    CAPTURE(version);
    auto listed = client.call(wire::ListGroupsRequest{}, version);
    CHECK(listed.errorCode == Error::none);
    std::map<std::string, wire::ListGroupsResponse::ListedGroup> groups;
    for (auto& group : listed.groups) groups[group.groupId] = group;
    REQUIRE(groups.contains(simple));
    REQUIRE(groups.contains(alive));
    CHECK(groups[alive].protocolType == "consumer");
    CHECK(groups[simple].protocolType == "");
    if (version >= 4) CHECK(groups[alive].groupState == "Stable");
    if (version >= 5) CHECK(groups[alive].groupType == "classic");
  }
  for (int16_t version = 0; version <= 6; ++version) {
    CAPTURE(version);
    wire::DescribeGroupsRequest describe{.groups = {alive, "never-seen"}};
    describe.includeAuthorizedOperations = version >= 3;
    auto described = client.call(describe, version);
    REQUIRE(described.groups.size() == 2);
    CHECK(described.groups[0].groupState == "Stable");
    CHECK(described.groups[0].protocolData == "range");
    REQUIRE(described.groups[0].members.size() == 1);
    CHECK(described.groups[0].members[0].memberId == member);
    CHECK(described.groups[0].members[0].clientHost == "/127.0.0.1");
    CHECK(described.groups[0].members[0].memberAssignment == wire::Blob(Bytes(Buffer{7})));
    CHECK(described.groups[0].authorizedOperations == (version >= 3 ? 3400 : INT32_MIN));
    CHECK(described.groups[1].groupState == "Dead");
    CHECK(described.groups[1].errorCode == (version >= 6 ? Error::groupIdNotFound : Error::none));
  }
  // Why it rebalanced is told to those who ask for it; others never see the tags, which Kafka does not have.
  wire::DescribeGroupsRequest plain{.groups = {alive, simple}}, asking = plain;
  asking.includeHistory = true;
  for (int16_t version : {5, 6}) {
    CAPTURE(version);
    auto silent = client.call(plain, version), told = client.call(asking, version);
    CHECK(silent.groups.at(0).historySinceMs == -1);
    CHECK(silent.groups.at(0).history.empty());
    CHECK(told.groups.at(1).historySinceMs > 0);
    CHECK(told.groups.at(1).history.empty());
    CHECK(told.groups.at(0).historySinceMs > 0);
    REQUIRE(told.groups.at(0).history.size() == 1);
    const auto& rebalance = told.groups[0].history[0];
    CHECK(rebalance.beganMs >= told.groups[0].historySinceMs);
    CHECK(rebalance.endedMs >= rebalance.beganMs);
    CHECK(rebalance.generation == 1);
    CHECK(rebalance.members == 1);
    CHECK(rebalance.reason.find(member) != std::string::npos);
  }
  for (int16_t version = 0; version <= 3; ++version) {
    CAPTURE(version);
    auto deleted = client.call(wire::DeleteGroupsRequest{.groupsNames = {simple, alive, "never-seen"}}, version);
    std::map<std::string, Error> outcome;
    for (auto& result : deleted.results) outcome[result.groupId] = result.errorCode;
    CHECK(outcome[alive] == Error::nonEmptyGroup);
    CHECK(outcome["never-seen"] == Error::groupIdNotFound);
    CHECK(outcome[simple] == (version == 0 ? Error::none : Error::groupIdNotFound));
  }
}

TEST_CASE("OffsetDelete: of a group without members") {
  Client client(server());
  std::string topic = newTopicName();
  TopicId id = newTopic(client, topic, 1);
  std::string group = newGroup();
  awaitCoordinator(client, group);
  client.call(commitRequest(group, topic, id, 3), 8);
  wire::OffsetDeleteRequest forget{.groupId = group};
  forget.topics = {{.name = topic, .partitions = {{.partitionIndex = 0}}},
                   {.name = "nowhere", .partitions = {{.partitionIndex = 0}}}};
  auto deleted = client.call(forget, 0);
  CHECK(deleted.errorCode == Error::none);
  REQUIRE(deleted.topics.size() == 2);
  for (const auto& told : deleted.topics)
    CHECK(told.partitions.at(0).errorCode == (told.name == topic ? Error::none : Error::unknownTopicOrPartition));
  forget.groupId = "never-seen";
  CHECK(client.call(forget, 0).errorCode == Error::groupIdNotFound);
}

TEST_CASE("groups: offsets of a deleted topic are gone, also when it is made anew") {
  Client client(server());
  std::string topic = newTopicName();
  TopicId id = newTopic(client, topic, 1);
  std::string group = newGroup();
  awaitCoordinator(client, group);
  client.call(commitRequest(group, topic, id, 3), 8);
  wire::DeleteTopicsRequest remove;
  remove.topics.push_back({.name = topic});
  REQUIRE(client.call(remove, 6).responses.at(0).errorCode == Error::none);
  newTopic(client, topic, 1);
  wire::OffsetFetchRequest fetch{.groupId = group, .topics = std::nullopt};
  CHECK(client.call(fetch, 5).topics.empty());
  wire::OffsetFetchRequest one{.groupId = group};
  one.topics.emplace();
  one.topics->push_back({.name = topic, .partitionIndexes = {0}});
  CHECK(client.call(one, 5).topics.at(0).partitions.at(0).committedOffset == -1);
}

TEST_CASE("ConsumerGroupHeartbeat, ConsumerGroupDescribe: a member's life in each version") {
  Client client(server());
  std::string topic = newTopicName();
  TopicId id = newTopic(client, topic, 2);
  for (int16_t version = 0; version <= 1; ++version) {
    CAPTURE(version);
    std::string group = newGroup();
    awaitCoordinator(client, group);
    wire::ConsumerGroupHeartbeatRequest beat{.groupId = group, .rebalanceTimeoutMs = 1000};
    if (version >= 1) beat.memberId = "chosen-by-me";
    beat.subscribedTopicNames = {topic};
    beat.topicPartitions.emplace();
    auto joined = client.call(beat, version);
    REQUIRE(joined.errorCode == Error::none);
    REQUIRE(joined.memberId);
    if (version >= 1) CHECK(*joined.memberId == "chosen-by-me");
    CHECK(joined.memberEpoch == 1);
    CHECK(joined.heartbeatIntervalMs == 1000);
    REQUIRE(joined.assignment);
    REQUIRE(joined.assignment->topicPartitions.size() == 1);
    CHECK(joined.assignment->topicPartitions[0].topicId == id);
    CHECK(joined.assignment->topicPartitions[0].partitions == std::vector<int32_t>{0, 1});

    wire::ConsumerGroupHeartbeatRequest again{.groupId = group, .memberId = *joined.memberId, .memberEpoch = 1};
    auto alive = client.call(again, version);
    CHECK(alive.errorCode == Error::none);
    CHECK(!alive.assignment);
    again.memberEpoch = 7;
    auto fenced = client.call(again, version);
    CHECK(fenced.errorCode == Error::fencedMemberEpoch);
    CHECK(fenced.errorMessage);

    auto described = client.call(wire::ConsumerGroupDescribeRequest{.groupIds = {group, "never-seen"}}, version);
    REQUIRE(described.groups.size() == 2);
    CHECK(described.groups[0].groupState == "Stable");
    CHECK(described.groups[0].assignorName == "uniform");
    REQUIRE(described.groups[0].members.size() == 1);
    CHECK(described.groups[0].members[0].assignment.topicPartitions.at(0).topicName == topic);
    CHECK(described.groups[0].members[0].memberType == (version >= 1 ? 1 : -1));
    CHECK(described.groups[1].errorCode == Error::groupIdNotFound);
    CHECK(described.groups[1].errorMessage == "Group never-seen not found.");
    CHECK(described.groups[0].historySinceMs == -1);
    CHECK(described.groups[0].history.empty());
    auto told = client.call(wire::ConsumerGroupDescribeRequest{.groupIds = {group}, .includeHistory = true}, version);
    CHECK(told.groups.at(0).historySinceMs > 0);
    REQUIRE(told.groups[0].history.size() == 1);
    CHECK(told.groups[0].history[0].reason.find(*joined.memberId) != std::string::npos);
    auto asClassic = client.call(wire::DescribeGroupsRequest{.groups = {group}}, 6);
    CHECK(asClassic.groups.at(0).errorCode == Error::groupIdNotFound);

    // Offsets go with the member's epoch.
    auto commit = commitRequest(group, topic, id, 5);
    commit.memberId = *joined.memberId;
    commit.generationIdOrMemberEpoch = 1;
    CHECK(client.call(commit, 9).topics.at(0).partitions.at(0).errorCode == Error::none);
    commit.generationIdOrMemberEpoch = 2;
    CHECK(client.call(commit, 9).topics.at(0).partitions.at(0).errorCode == Error::staleMemberEpoch);
    wire::OffsetFetchRequest fetch;
    auto& one = fetch.groups.emplace_back();
    one.groupId = group;
    one.memberId = *joined.memberId;
    one.memberEpoch = 2;
    one.topics.reset();
    CHECK(client.call(fetch, 9).groups.at(0).errorCode == Error::staleMemberEpoch);
    fetch.groups[0].memberEpoch = 1;
    CHECK(client.call(fetch, 9).groups.at(0).topics.at(0).partitions.at(0).committedOffset == 5);

    again.memberEpoch = -1;
    CHECK(client.call(again, version).memberEpoch == -1);
    auto listed = client.call(wire::ListGroupsRequest{.typesFilter = {"consumer"}}, 5);
    CHECK(std::any_of(listed.groups.begin(), listed.groups.end(),
                      [&](const auto& row) { return row.groupId == group && row.groupState == "Empty"; }));
    CHECK(client.call(wire::DeleteGroupsRequest{.groupsNames = {group}}, 2).results.at(0).errorCode == Error::none);
  }
}

TEST_CASE("ApiVersions: group.version is finalized at 1, its range is told from version 4 on") {
  Client client(server());
  for (int16_t version = 3; version <= 4; ++version) {
    CAPTURE(version);
    wire::ApiVersionsRequest ask{.clientSoftwareName = "test", .clientSoftwareVersion = "1"};
    auto told = client.call(ask, version);
    auto named = [](const auto& feature) { return feature.name == "group.version"; };
    auto finalized = std::find_if(told.finalizedFeatures.begin(), told.finalizedFeatures.end(), named);
    REQUIRE(finalized != told.finalizedFeatures.end());
    CHECK(finalized->maxVersionLevel == 1);
    auto supported = std::find_if(told.supportedFeatures.begin(), told.supportedFeatures.end(), named);
    CHECK((supported != told.supportedFeatures.end()) == (version >= 4));
  }
}

TEST_CASE("FindCoordinator: one, many, and kinds that are not served") {
  Client client(server());
  for (int16_t version = 0; version <= 6; ++version) {
    CAPTURE(version);
    if (version < 4) {
      auto one = client.call(wire::FindCoordinatorRequest{.key = "g"}, version);
      CHECK(one.errorCode == Error::none);
      CHECK(one.nodeId == 1);
      CHECK(one.host == "127.0.0.1");
      CHECK(one.port == server().port());
      continue;
    }
    auto many = client.call(wire::FindCoordinatorRequest{.coordinatorKeys = {"g", "h"}}, version);
    REQUIRE(many.coordinators.size() == 2);
    CHECK(many.coordinators[1].key == "h");
    CHECK(many.coordinators[1].port == server().port());
    CHECK(client.call(wire::FindCoordinatorRequest{.coordinatorKeys = {}}, version).coordinators.empty());
  }
  auto transaction = client.call(wire::FindCoordinatorRequest{.keyType = 1, .coordinatorKeys = {"t"}}, 4);
  CHECK(transaction.coordinators.at(0).errorCode == Error::none);
  CHECK(transaction.coordinators.at(0).nodeId == 1);
  auto share = client.call(wire::FindCoordinatorRequest{.keyType = 2, .coordinatorKeys = {"s"}}, 6);
  CHECK(share.coordinators.at(0).errorCode == Error::coordinatorNotAvailable);
  CHECK(share.coordinators.at(0).errorMessage->find("not served") != std::string::npos);
  CHECK(client.call(wire::FindCoordinatorRequest{.keyType = 9, .coordinatorKeys = {"g"}}, 4)
            .coordinators.at(0)
            .errorCode == Error::invalidRequest);
  auto topics = client.call(wire::MetadataRequest{.topics = std::nullopt}, 9);
  auto offsets = std::find_if(topics.topics.begin(), topics.topics.end(),
                              [](const auto& topic) { return topic.name == "__consumer_offsets"; });
  REQUIRE(offsets != topics.topics.end());
  CHECK(offsets->isInternal);
  CHECK(offsets->partitions.size() == 5);
}

}  // namespace
}  // namespace mq::kafka::test
