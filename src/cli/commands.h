// Every command's row. Adding a command: write its file, declare its row here, list it in commands.cc.
#pragma once
#include "cli/command.h"

namespace mq::cli {

Command completionCommand();
Command consumeCommand();
Command helpCommand();
Command produceCommand();
Command serveCommand();
Command versionCommand();
std::vector<Command> benchCommands();
std::vector<Command> clusterCommands();
std::vector<Command> configCommands();
std::vector<Command> groupChangeCommands();
std::vector<Command> groupCommands();
std::vector<Command> leaderCommands();
std::vector<Command> logCommands();
std::vector<Command> topicCommands();
std::vector<Command> txnChangeCommands();
std::vector<Command> txnCommands();

}  // namespace mq::cli
