// The data that Kafka wrote (test/golden/kafka-data), unpacked into temporary directories.
#pragma once
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "../test_directory.h"

namespace mq::storage::test {

// The data directory NAME.tar.xz of test/golden/kafka-data.
class Fixture : public TestDirectory {
 public:
  explicit Fixture(const std::string& name) {
    std::string command =
        "tar -xJf '" + std::string(MQ_GOLDEN_DIR) + "/kafka-data/" + name + ".tar.xz' -C '" + path() + "'";
    if (std::system(command.c_str()) != 0) throw std::runtime_error("failed: " + command);
  }
};

// The lines of NAME.jsonl.xz: a JSON object each.
inline std::vector<std::string> expectedLines(const std::string& name) {
  std::string command = "xz -dc '" + std::string(MQ_GOLDEN_DIR) + "/kafka-data/" + name + ".jsonl.xz'";
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("failed: " + command);
  std::vector<std::string> lines(1);
  char block[65536];
  while (size_t count = fread(block, 1, sizeof block, pipe)) {
    for (std::string_view rest(block, count); !rest.empty();) {
      size_t newline = rest.find('\n');
      lines.back().append(rest.substr(0, newline));
      if (newline == std::string_view::npos) break;
      lines.emplace_back();
      rest.remove_prefix(newline + 1);
    }
  }
  if (pclose(pipe) != 0) throw std::runtime_error("failed: " + command);
  lines.pop_back();
  return lines;
}

}  // namespace mq::storage::test
