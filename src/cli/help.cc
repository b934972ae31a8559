// `mq help [COMMAND...]` and `mq version`.
#include <cstdio>

#include "cli/commands.h"
#include "cli/output.h"
#include "version.h"

namespace mq::cli {
namespace {

int runHelp(const Arguments& arguments) {
  std::string path;
  for (const std::string& word : arguments.positionals()) path += (path.empty() ? "" : " ") + word;
  if (path.empty()) {
    std::fputs(overviewText(terminalWidth()).c_str(), stdout);
    return exitDone;
  }
  const Command* command = findCommand(path);
  if (!command) fail(exitUsage, "there is no 'mq {}'; 'mq help' lists the commands", path);
  std::fputs(helpText(*command, terminalWidth()).c_str(), stdout);
  return exitDone;
}

int runVersion(const Arguments&) {
  std::printf("mq %s\n", MQ_VERSION);
  return exitDone;
}

}  // namespace

Command helpCommand() {
  return {.path = "help",
          .summary = "Explain a command",
          .positionals = {{.name = "COMMAND", .help = "such as 'topic create'", .required = false, .repeats = true}},
          .run = runHelp};
}

Command versionCommand() { return {.path = "version", .summary = "Print the version", .run = runVersion}; }

}  // namespace mq::cli
