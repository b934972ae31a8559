// DescribeLogDirs: the log directory, its space, and the bytes of each replica in it.
#include <map>
#include <set>

#include "kafka/handlers/handlers.h"
#include "kafka/server.h"
#include "wire/describe_log_dirs_request.h"
#include "wire/describe_log_dirs_response.h"

namespace mq::kafka {

namespace {
using Usage = std::vector<replica::Partitions::Usage>;
}

Co<wire::DescribeLogDirsResponse> describeLogDirs(Request& request, wire::DescribeLogDirsRequest asked) {
  Server& server = request.server;
  std::vector<kj::Promise<Usage>> lookups;
  for (uint32_t shard = 0; shard < server.shard().count(); ++shard) {
    lookups.push_back(
        server.shard().call(shard, [&partitions = server.partitionsOf(shard)] { return partitions.usage(); }));
  }
  const std::string& directory = server.options().logDirectory;
  auto space = co_await server.shard().run(
      Pool::background, [&files = server.shard().files(), directory] { return files.space(directory); });

  std::set<std::pair<std::string, int32_t>> wanted;
  if (asked.topics) {
    for (const auto& topic : *asked.topics) {
      for (int32_t partition : topic.partitions) wanted.emplace(topic.topic, partition);
    }
  }
  std::map<std::string, std::map<int32_t, uint64_t>> sizes;
  for (auto& lookup : lookups) {
    for (const auto& usage : co_await kj::mv(lookup)) {
      const auto& [topic, partition] = usage.name;
      if (!asked.topics || wanted.contains({topic, partition})) sizes[topic][partition] = usage.bytes;
    }
  }

  wire::DescribeLogDirsResponse response;
  auto& result = response.results.emplace_back();
  result.logDir = directory;
  result.totalBytes = static_cast<int64_t>(space.total);
  result.usableBytes = static_cast<int64_t>(space.available);
  for (const auto& [topic, partitions] : sizes) {
    auto& into = result.topics.emplace_back();
    into.name = topic;
    for (const auto& [index, bytes] : partitions) {
      into.partitions.push_back({.partitionIndex = index, .partitionSize = static_cast<int64_t>(bytes)});
    }
  }
  co_return response;
}

}  // namespace mq::kafka
