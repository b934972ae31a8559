#include "cli/group_admin.h"

#include <algorithm>
#include <charconv>

#include <nlohmann/json.hpp>

#include "cli/base64.h"
#include "cli/json_record.h"
#include "wire/consumer_group_describe_request.h"
#include "wire/consumer_group_describe_response.h"
#include "wire/consumer_protocol_assignment.h"
#include "wire/describe_groups_request.h"
#include "wire/framing.h"
#include "wire/list_groups_request.h"
#include "wire/list_groups_response.h"
#include "wire/offset_commit_request.h"
#include "wire/offset_commit_response.h"
#include "wire/offset_fetch_request.h"
#include "wire/offset_fetch_response.h"

namespace mq::cli {
namespace {

constexpr int16_t kNotFoundFrom = 6;           // DescribeGroups; before, a group that is not there is "Dead"
constexpr int16_t kFetchNamesLast = 9;         // OffsetFetch and OffsetCommit: from 10 on topics have ids
constexpr int16_t kFetchGroupsFrom = 8;        // OffsetFetch
constexpr size_t kCommitPartitionsMax = 5000;  // in one request

GroupView classicView(const std::string& name, wire::DescribeGroupsResponse::DescribedGroup&& told) {
  GroupView view{.name = name, .state = told.groupState, .type = "classic", .protocol = told.protocolData};
  view.historySinceMs = told.historySinceMs;
  view.history = std::move(told.history);
  for (const auto& member : told.members) {
    GroupMember& row = view.members.emplace_back();
    row.id = member.memberId;
    row.instance = member.groupInstanceId;
    row.clientId = member.clientId;
    row.host = member.clientHost;
    // The clients' own: the broker has not looked at it, and other kinds of groups put other things there.
    if (told.protocolType != "consumer" || member.memberAssignment.empty()) continue;
    auto assignment = wire::decodeVersioned<wire::ConsumerProtocolAssignment>(member.memberAssignment);
    if (!assignment) continue;
    for (const auto& topic : assignment->assignedPartitions) {
      auto& list = row.assigned[topic.topic];
      list.insert(list.end(), topic.partitions.begin(), topic.partitions.end());
    }
  }
  return view;
}

// A group of the consumer protocol (KIP-848), which DescribeGroups does not know.
std::optional<GroupView> findConsumerGroup(Client& client, const std::string& name, bool withHistory) {
  using Request = wire::ConsumerGroupDescribeRequest;
  int32_t coordinator = client.coordinatorOf(name);
  if (client.versionOf(Request::kApiKey, Request::kVersionMin, Request::kVersionMax, coordinator) < 0)
    return std::nullopt;
  auto response = client.callCoordinator(
      name, Request{.groupIds = {name}, .includeHistory = withHistory},
      [](const auto& answer) { return answer.groups.empty() ? Error::none : answer.groups[0].errorCode; });
  if (response.groups.empty()) return std::nullopt;
  const auto& told = response.groups[0];
  if (told.errorCode == Error::groupIdNotFound) return std::nullopt;
  if (told.errorCode != Error::none)
    fail(exitCodeOf(told.errorCode), "group '{}': {}", name, describeError(told.errorCode, told.errorMessage));
  GroupView view{.name = name, .state = told.groupState, .type = "consumer", .protocol = told.assignorName};
  view.coordinator = coordinator;
  view.historySinceMs = told.historySinceMs;
  for (const auto& rebalance : told.history) {
    view.history.push_back({.beganMs = rebalance.beganMs,
                            .endedMs = rebalance.endedMs,
                            .generation = rebalance.generation,
                            .members = rebalance.members,
                            .reason = rebalance.reason});
  }
  for (const auto& member : told.members) {
    GroupMember& row = view.members.emplace_back();
    row.id = member.memberId;
    row.instance = member.instanceId;
    row.clientId = member.clientId;
    row.host = member.clientHost;
    for (const auto& topic : member.assignment.topicPartitions) row.assigned[topic.topicName] = topic.partitions;
  }
  return view;
}

void sortView(GroupView& view) {
  std::sort(view.members.begin(), view.members.end(), [](auto& a, auto& b) { return a.id < b.id; });
  for (GroupMember& member : view.members) {
    for (auto& [topic, partitions] : member.assigned) std::sort(partitions.begin(), partitions.end());
  }
}

}  // namespace

std::vector<ListedGroup> listGroups(Client& client) {
  static const std::vector<std::string> none;
  std::vector<ListedGroup> groups;
  for (const auto& broker : client.metadata(&none).brokers) {
    // Each lists those that it coordinates.
    auto response = client.call(wire::ListGroupsRequest{}, broker.nodeId);
    if (response.errorCode != Error::none) {
      fail(exitCodeOf(response.errorCode), "{} does not list its groups: {}", client.where(),
           describeError(response.errorCode, std::nullopt));
    }
    for (auto& group : response.groups) {
      groups.push_back({.name = std::move(group.groupId),
                        .state = std::move(group.groupState),
                        .type = std::move(group.groupType),
                        .protocolType = std::move(group.protocolType)});
    }
  }
  std::sort(groups.begin(), groups.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return groups;
}

std::optional<GroupView> findGroup(Client& client, const std::string& name, bool withHistory) {
  using Request = wire::DescribeGroupsRequest;
  Request request{.groups = {name}};
  int32_t coordinator = client.coordinatorOf(name);
  int16_t version = client.versionOf(Request::kApiKey, Request::kVersionMin, Request::kVersionMax, coordinator);
  request.includeHistory = withHistory && version >= 5;
  auto response = client.callCoordinator(name, request, [](const auto& answer) {
    return answer.groups.empty() ? Error::none : answer.groups[0].errorCode;
  });
  if (response.groups.empty()) return std::nullopt;
  auto& told = response.groups[0];
  bool isThere = version >= kNotFoundFrom ? told.errorCode != Error::groupIdNotFound : told.groupState != "Dead";
  std::optional<GroupView> view;
  if (!isThere) {
    view = findConsumerGroup(client, name, withHistory);
    if (!view) return std::nullopt;
  } else if (told.errorCode != Error::none) {
    fail(exitCodeOf(told.errorCode), "group '{}': {}", name, describeError(told.errorCode, told.errorMessage));
  } else {
    view = classicView(name, std::move(told));
    view->coordinator = client.coordinatorOf(name);
  }
  sortView(*view);
  return view;
}

GroupView describeGroup(Client& client, const std::string& name, bool withHistory) {
  auto found = findGroup(client, name, withHistory);
  if (!found) noSuchGroup(client, name);
  return std::move(*found);
}

void noSuchGroup(const Client& client, const std::string& name) {
  fail(exitNotFound, "group '{}' does not exist on {} ({} {}); those that do: mq group list -b {}", name,
       client.where(), kafkaName(Error::groupIdNotFound), static_cast<int>(Error::groupIdNotFound), client.where());
}

StoredOffsets storedOffsets(Client& client, const std::string& group) {
  using Request = wire::OffsetFetchRequest;
  Request request;
  int16_t version =
      client.versionOf(Request::kApiKey, Request::kVersionMin, kFetchNamesLast, client.coordinatorOf(group));
  if (version >= kFetchGroupsFrom) {
    auto& asked = request.groups.emplace_back();
    asked.groupId = group;
    asked.topics = std::nullopt;
  } else {
    request.groupId = group;
    request.topics = std::nullopt;
  }
  auto response = client.callCoordinator(
      group, request,
      [](const auto& answer) { return answer.groups.empty() ? answer.errorCode : answer.groups[0].errorCode; },
      kFetchNamesLast);
  Error error = response.groups.empty() ? response.errorCode : response.groups[0].errorCode;
  StoredOffsets stored;
  if (error == Error::groupIdNotFound) return stored;
  if (error != Error::none)
    fail(exitCodeOf(error), "the offsets of group '{}': {}", group, describeError(error, std::nullopt));
  auto take = [&](const auto& topics) {
    for (const auto& topic : topics) {
      for (const auto& partition : topic.partitions) {
        TopicPartition at{topic.name, partition.partitionIndex};
        if (partition.errorCode != Error::none) {
          fail(exitCodeOf(partition.errorCode), "group '{}', {}: {}", group, at.text(),
               describeError(partition.errorCode, std::nullopt));
        }
        if (partition.committedOffset < 0) continue;
        stored[at] = {.offset = partition.committedOffset,
                      .leaderEpoch = partition.committedLeaderEpoch,
                      .metadata = partition.metadata};
      }
    }
  };
  response.groups.empty() ? take(response.topics) : take(response.groups[0].topics);
  return stored;
}

StoredOffsets storeOffsets(Client& client, const std::string& group, const StoredOffsets& offsets, Outcome& outcome) {
  StoredOffsets done;
  for (auto at = offsets.begin(); at != offsets.end();) {
    wire::OffsetCommitRequest request;
    request.groupId = group;
    for (size_t count = 0; at != offsets.end() && count < kCommitPartitionsMax; ++at, ++count) {
      if (request.topics.empty() || request.topics.back().name != at->first.topic)
        request.topics.emplace_back().name = at->first.topic;
      auto& partition = request.topics.back().partitions.emplace_back();
      partition.partitionIndex = at->first.partition;
      partition.committedOffset = at->second.offset;
      partition.committedLeaderEpoch = at->second.leaderEpoch;
      partition.committedMetadata = at->second.metadata;
    }
    auto response = client.callCoordinator(
        group, request,
        [](const auto& answer) {
          return answer.topics.empty() || answer.topics[0].partitions.empty()
                     ? Error::none
                     : answer.topics[0].partitions[0].errorCode;
        },
        kFetchNamesLast);
    for (const auto& topic : response.topics) {
      for (const auto& partition : topic.partitions) {
        TopicPartition where{topic.name, partition.partitionIndex};
        outcome.add(fmt::format("group '{}', {}", group, where.text()), partition.errorCode, std::nullopt);
        auto asked = offsets.find(where);
        if (partition.errorCode == Error::none && asked != offsets.end()) done.insert(*asked);
      }
    }
  }
  return done;
}

std::string nameOf(const GroupMember& member) {
  return fmt::format("{} ({} at {})", member.instance ? *member.instance : member.id, member.clientId, member.host);
}

void refuseMembers(const GroupView& group, std::string_view doing) {
  constexpr size_t kNamed = 5;
  if (group.members.empty()) return;
  std::string names;
  for (size_t i = 0; i < group.members.size() && i < kNamed; ++i) names += (i ? ", " : "") + nameOf(group.members[i]);
  if (group.members.size() > kNamed) names += fmt::format(" and {} more", group.members.size() - kNamed);
  fail(exitConflict, "cannot {} group '{}' while it has members ({} {}): {}; stop them first", doing, group.name,
       kafkaName(Error::nonEmptyGroup), static_cast<int>(Error::nonEmptyGroup), names);
}

TopicSelection parseSelection(std::string_view text, std::string_view where) {
  TopicSelection selection;
  size_t colon = text.find(':');
  selection.topic = std::string(text.substr(0, colon));
  auto refuse = [&] { fail(exitUsage, "{} takes TOPIC or TOPIC:0,3, not '{}'", where, text); };
  if (selection.topic.empty()) refuse();
  if (colon == std::string_view::npos) return selection;
  for (std::string_view rest = text.substr(colon + 1);;) {
    size_t comma = std::min(rest.find(','), rest.size());
    int32_t partition = -1;
    auto [end, error] = std::from_chars(rest.data(), rest.data() + comma, partition);
    if (error != std::errc() || end != rest.data() + comma || partition < 0) refuse();
    selection.partitions.push_back(partition);
    if (comma == rest.size()) return selection;
    rest.remove_prefix(comma + 1);
  }
}

std::pair<TopicSelection, std::string> parseTarget(std::string_view text) {
  size_t equals = text.find('=');
  if (equals == std::string_view::npos || equals + 1 == text.size())
    fail(exitUsage, "where to? TOPIC=POINT or TOPIC:0,3=POINT, not '{}'", text);
  return {parseSelection(text.substr(0, equals), "what stands in front of '='"), std::string(text.substr(equals + 1))};
}

void appendOffsetLine(std::string& into, std::string_view group, const TopicPartition& at, const StoredOffset& stored) {
  into += "{\"group\":";
  appendJsonBytes(into, asBytes(group));
  into += ",\"topic\":";
  appendJsonBytes(into, asBytes(at.topic));
  into += fmt::format(",\"partition\":{},\"offset\":{}", at.partition, stored.offset);
  if (stored.leaderEpoch >= 0) into += fmt::format(",\"leaderEpoch\":{}", stored.leaderEpoch);
  into += ",\"metadata\":";
  stored.metadata ? appendJsonBytes(into, asBytes(*stored.metadata)) : void(into += "null");
  into += "}\n";
}

Result<OffsetLine> parseOffsetLine(std::string_view text) {
  using Json = nlohmann::json;
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) return Failure(Error::invalidRequest, "not valid JSON");
  if (!json.is_object()) return Failure(Error::invalidRequest, "not a JSON object");
  OffsetLine line;
  std::string wrong;
  auto bytes = [&](const char* field, std::optional<std::string>* into) {
    auto at = json.find(field);
    if (at == json.end() || at->is_null()) return;
    if (at->is_string()) {
      *into = at->get<std::string>();
    } else if (at->is_object() && at->size() == 1 && at->contains("base64") && (*at)["base64"].is_string()) {
      auto decoded = decodeBase64((*at)["base64"].get_ref<const std::string&>());
      if (decoded)
        *into = std::string(asText(*decoded));
      else
        wrong = fmt::format("\"{}\": its base64 is damaged", field);
    } else {
      wrong = fmt::format("\"{}\" must be a string", field);
    }
  };
  auto number = [&](const char* field, int64_t low, int64_t high, bool required, int64_t otherwise) {
    auto at = json.find(field);
    if (at == json.end() || at->is_null()) {
      if (required) wrong = fmt::format("no \"{}\"", field);
      return otherwise;
    }
    bool isWhole = at->is_number_integer() && !(at->is_number_unsigned() && at->get<uint64_t>() > INT64_MAX);
    int64_t value = isWhole ? at->get<int64_t>() : 0;
    if (!isWhole || value < low || value > high)
      wrong = fmt::format("\"{}\" must be a whole number from {} to {}", field, low, high);
    return value;
  };
  std::optional<std::string> topic;
  bytes("group", &line.group);
  bytes("topic", &topic);
  if (wrong.empty() && (!topic || topic->empty())) wrong = "no \"topic\"";
  line.at.topic = topic.value_or("");
  line.at.partition = static_cast<int32_t>(number("partition", 0, INT32_MAX, true, 0));
  line.stored.offset = number("offset", 0, INT64_MAX, true, 0);
  line.stored.leaderEpoch = static_cast<int32_t>(number("leaderEpoch", -1, INT32_MAX, false, -1));
  if (json.contains("metadata")) line.stored.metadata.reset();  // null unless it says something
  bytes("metadata", &line.stored.metadata);
  if (!wrong.empty()) return Failure(Error::invalidRequest, wrong);
  return line;
}

}  // namespace mq::cli
