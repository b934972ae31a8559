// What the commands that change or show the cluster share: confirmation, key=value, the outcome of several items.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/client.h"
#include "cli/command.h"

namespace mq::cli {

// "key=value"; ends the command with a usage error that names the flag otherwise.
std::pair<std::string, std::string> keyValue(const std::string& text, std::string_view flag);

// Asks on a terminal; elsewhere it takes --yes. Ends the command when the answer is no.
void confirm(const Arguments& arguments, const std::string& question);
inline constexpr Flag kYes = {.name = "yes", .shortNames = "y", .help = "do not ask"};
inline constexpr Flag kDryRun = {.name = "dry-run", .help = "check and say what would happen, change nothing"};
inline constexpr Flag kJson = {.name = "json", .shortNames = "J", .help = "JSON lines"};

// One line to stderr for each item that failed; the exit code is that of the first.
class Outcome {
 public:
  void add(std::string_view what, Error error, const std::optional<std::string>& message);
  int exitCode() const { return exitCode_; }

 private:
  int exitCode_ = exitDone;
};

// Resource types of the protocol.
inline constexpr int8_t kTopicResource = 2;
inline constexpr int8_t kBrokerResource = 4;

}  // namespace mq::cli
