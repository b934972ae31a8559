// What commands ask about consumer groups, each at its coordinator: who is in one, and what it has committed. Works
// with any broker of Kafka's protocol; groups of both protocols are described.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/admin.h"
#include "cli/client.h"
#include "wire/describe_groups_response.h"

namespace mq::cli {

struct TopicPartition {
  std::string topic;
  int32_t partition = 0;
  friend auto operator<=>(const TopicPartition&, const TopicPartition&) = default;
  std::string text() const { return fmt::format("{}-{}", topic, partition); }
};

// The next offset that a group reads.
struct StoredOffset {
  int64_t offset = 0;
  int32_t leaderEpoch = -1;                             // -1: not known
  std::optional<std::string> metadata = std::string();  // whatever the client put there
  friend bool operator==(const StoredOffset&, const StoredOffset&) = default;
};
using StoredOffsets = std::map<TopicPartition, StoredOffset>;

struct GroupMember {
  std::string id;
  std::optional<std::string> instance;  // of a static member
  std::string clientId;
  std::string host;
  std::map<std::string, std::vector<int32_t>> assigned;
};

struct GroupView {
  std::string name;
  std::string state;     // as Kafka prints it: "Empty", "Stable"
  std::string type;      // "classic" or "consumer"
  std::string protocol;  // the assignor in use; empty: none
  int32_t coordinator = -1;
  std::vector<GroupMember> members;
  int64_t historySinceMs = -1;  // -1: the broker does not keep one
  std::vector<wire::DescribeGroupsResponse::Rebalance> history;
};

struct ListedGroup {
  std::string name;
  std::string state;  // empty: the broker is too old to say
  std::string type;
  std::string protocolType;  // "consumer", "connect"; empty: offsets only
};

std::vector<ListedGroup> listGroups(Client& client);  // of all brokers, sorted by name
std::optional<GroupView> findGroup(Client& client, const std::string& name, bool withHistory = false);
GroupView describeGroup(Client& client, const std::string& name, bool withHistory = false);  // or ends with 5
[[noreturn]] void noSuchGroup(const Client& client, const std::string& name);

StoredOffsets storedOffsets(Client& client, const std::string& group);
// As a client outside of the group; what was refused goes to the outcome. Returns what is stored now.
StoredOffsets storeOffsets(Client& client, const std::string& group, const StoredOffsets& offsets, Outcome& outcome);

// Ends the command with 6 and the names of the members while there are any: they would not notice, and commit over it.
void refuseMembers(const GroupView& group, std::string_view doing);
std::string nameOf(const GroupMember& member);  // "i1 (consumer-1-ab.. at /127.0.0.1)"

// "TOPIC" or "TOPIC:0,3"; no partitions: all of them. Ends the command with a usage error that names `where`.
struct TopicSelection {
  std::string topic;
  std::vector<int32_t> partitions;
};
TopicSelection parseSelection(std::string_view text, std::string_view where);
// "TOPIC=POINT" or "TOPIC:0,3=POINT": what is in front of the first '=' and behind it.
std::pair<TopicSelection, std::string> parseTarget(std::string_view text);

// An offset as a line of JSON, without loss in either direction; "group" may be missing on the way in.
//   {"group":"g","topic":"t","partition":0,"offset":42,"leaderEpoch":3,"metadata":""}
void appendOffsetLine(std::string& into, std::string_view group, const TopicPartition& at, const StoredOffset& stored);
struct OffsetLine {
  std::optional<std::string> group;
  TopicPartition at;
  StoredOffset stored;
};
Result<OffsetLine> parseOffsetLine(std::string_view line);

}  // namespace mq::cli
