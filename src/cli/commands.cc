// The rows, one line a command; each lives in the file of its command.
#include "cli/commands.h"

#include <algorithm>

namespace mq::cli {

const std::vector<Command>& allCommands() {
  static const std::vector<Command> rows = [] {
    std::vector<Command> all = {
        completionCommand(), consumeCommand(), helpCommand(), produceCommand(), serveCommand(), versionCommand(),
    };
    for (auto group : {benchCommands(), clusterCommands(), configCommands(), groupCommands(), groupChangeCommands(),
                       leaderCommands(), logCommands(), topicCommands(), txnChangeCommands(), txnCommands()})
      all.insert(all.end(), group.begin(), group.end());
    std::sort(all.begin(), all.end(), [](const Command& a, const Command& b) { return a.path < b.path; });
    return all;
  }();
  return rows;
}

}  // namespace mq::cli
