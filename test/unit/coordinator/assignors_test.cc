#include "coordinator/assignors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/random.h"

namespace mq::coordinator {
namespace {

using Assignments = std::map<std::string, Assignment>;

TopicId idOf(uint64_t number) { return Uuid::random(number, number); }

// Each partition that anybody reads has one owner, who reads it.
void checkComplete(const AssignorInput& input, const Assignments& result) {
  REQUIRE(result.size() == input.members.size());
  std::map<std::pair<TopicId, int32_t>, std::string> owners;
  for (const auto& [id, assignment] : result) {
    for (const auto& [topic, partitions] : assignment) {
      CHECK(!partitions.empty());
      CHECK(input.members.at(id).topics.contains(topic));
      for (int32_t partition : partitions) {
        CHECK(partition >= 0);
        CHECK(partition < input.partitions.at(topic));
        CHECK(owners.emplace(std::pair(topic, partition), id).second);
      }
    }
  }
  for (const auto& [topic, count] : input.partitions) {
    bool isRead = std::any_of(input.members.begin(), input.members.end(),
                              [&](const auto& entry) { return entry.second.topics.contains(topic); });
    for (int32_t i = 0; i < count; ++i) CHECK(owners.contains({topic, i}) == isRead);
  }
}

size_t sizeOf(const Assignment& assignment) {
  size_t size = 0;
  for (const auto& [topic, partitions] : assignment) size += partitions.size();
  return size;
}

size_t keptOf(const Assignment& before, const Assignment& after) {
  size_t kept = 0;
  for (const auto& [topic, partitions] : before) {
    auto found = after.find(topic);
    if (found == after.end()) continue;
    for (int32_t partition : partitions) kept += found->second.contains(partition);
  }
  return kept;
}

// Nobody could take a partition from somebody with two more than it has.
void checkBalanced(const AssignorInput& input, const Assignments& result) {
  for (const auto& [to, assignment] : result) {
    for (const auto& [from, other] : result) {
      if (sizeOf(other) < sizeOf(assignment) + 2) continue;
      for (const auto& [topic, partitions] : other) CHECK(!input.members.at(to).topics.contains(topic));
    }
  }
}

AssignorInput randomInput(Prng& random, bool isEqual) {
  AssignorInput input;
  uint64_t topics = random.between(1, 5);
  for (uint64_t i = 1; i <= topics; ++i) input.partitions[idOf(i)] = static_cast<int32_t>(random.between(0, 12));
  for (uint64_t member = random.between(1, 8); member > 0; --member) {
    auto& in = input.members["m" + std::to_string(member)];
    for (const auto& [topic, count] : input.partitions)
      if (isEqual || random.chance(1, 2)) in.topics.insert(topic);
  }
  return input;
}

TEST_CASE("uniform: complete, balanced, and keeps what it can, whatever changes") {
  Prng random(3);
  for (int round = 0; round < 500; ++round) {
    bool isEqual = random.chance(1, 2);
    AssignorInput input = randomInput(random, isEqual);
    Assignments result = findAssignor("uniform")(input);
    checkComplete(input, result);
    checkBalanced(input, result);
    // The same again moves nothing.
    for (auto& [id, member] : input.members) member.before = result[id];
    CHECK(findAssignor("uniform")(input) == result);
    // Somebody comes: what moves, moves to it alone when all read the same.
    auto& newcomer = input.members["n"];
    newcomer.topics = input.members.begin()->second.topics;
    Assignments after = findAssignor("uniform")(input);
    checkComplete(input, after);
    checkBalanced(input, after);
    if (isEqual) {
      for (const auto& [id, assignment] : result) CHECK(keptOf(assignment, after[id]) == sizeOf(after[id]));
    }
    // Somebody goes: what the others had, they keep.
    for (auto& [id, member] : input.members) member.before = after[id];
    input.members.erase(input.members.begin());
    Assignments less = findAssignor("uniform")(input);
    checkComplete(input, less);
    checkBalanced(input, less);
    if (isEqual) {
      for (const auto& [id, member] : input.members) CHECK(keptOf(member.before, less[id]) == sizeOf(member.before));
    }
  }
}

TEST_CASE("range: contiguous, and the same partitions of equal topics") {
  Prng random(4);
  for (int round = 0; round < 300; ++round) {
    AssignorInput input = randomInput(random, random.chance(1, 2));
    Assignments result = findAssignor("range")(input);
    checkComplete(input, result);
    for (const auto& [id, assignment] : result) {
      for (const auto& [topic, partitions] : assignment)
        CHECK(*partitions.rbegin() - *partitions.begin() + 1 == static_cast<int32_t>(partitions.size()));
    }
  }
}

TEST_CASE("assignors: Kafka's examples") {
  std::ifstream in(MQ_GOLDEN_ASSIGNORS);
  REQUIRE(in.good());
  size_t same = 0, rangeSame = 0, all = 0;
  for (std::string line; std::getline(in, line);) {
    auto row = nlohmann::json::parse(line);
    std::string name = row["assignor"];
    if (row["kind"] != "consumer") continue;
    std::map<std::string, TopicId> ids;
    auto id = [&](const std::string& topic) {
      return ids.try_emplace(topic, idOf(1 + std::hash<std::string>{}(topic))).first->second;
    };
    auto assignmentOf = [&](const nlohmann::json& json) {
      Assignment assignment;
      for (const auto& [topic, partitions] : json.items())
        for (int32_t partition : partitions) assignment[id(topic)].insert(partition);
      return assignment;
    };
    AssignorInput input;
    for (const auto& [topic, count] : row["topics"].items()) input.partitions[id(topic)] = count;
    for (const auto& [member, topics] : row["members"].items()) {
      auto& into = input.members[member];
      for (const std::string topic : topics)
        if (row["topics"].contains(topic)) into.topics.insert(id(topic));
      if (row.contains("instanceIds") && row["instanceIds"].contains(member))
        into.instance = row["instanceIds"][member].get<std::string>();
      if (row["before"].contains(member)) into.before = assignmentOf(row["before"][member]);
    }
    std::erase_if(input.partitions, [&](const auto& entry) {
      return std::none_of(input.members.begin(), input.members.end(),
                          [&](const auto& member) { return member.second.topics.contains(entry.first); });
    });
    Assignments expected;
    for (const auto& [member, assignment] : row["after"].items()) expected[member] = assignmentOf(assignment);
    Assignments result = findAssignor(name)(input);
    CAPTURE(line);
    checkComplete(input, result);
    ++all;
    same += result == expected;
    if (name == "range") rangeSame += result == expected;
    if (name != "uniform") continue;
    checkBalanced(input, result);
    // As sticky as Kafka's.
    size_t kept = 0, keptThere = 0;
    for (const auto& [member, into] : input.members) {
      kept += keptOf(into.before, result[member]);
      keptThere += keptOf(into.before, expected[member]);
    }
    CHECK(kept >= keptThere);
  }
  CHECK(all == 112);
  MESSAGE("equal to Kafka's: ", same, " of ", all, ", of range ", rangeSame);
}

}  // namespace
}  // namespace mq::coordinator
