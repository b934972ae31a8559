// Command: one row for each command of mq. Parsing, --help, man pages and completions all come from the row, so none of
// them can be stale. A command is a struct of flags and a function; a command that is a group ("topic") has no
// function.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace mq::cli {

// Exit codes, for scripts to trust. Anything else a command prints goes to stderr in one line.
enum Exit : int {
  exitDone = 0,
  exitFailed = 1,  // at least one record was not delivered, or the work could not be done
  exitUsage = 2,
  exitNothing = 3,  // a filter matched nothing, or --timeout passed
  exitDenied = 4,
  exitNotFound = 5,
  exitConflict = 6,  // exists already, or conflicts
  exitUnhealthy = 10,
  exitInterrupted = 130,
  exitPipe = 141,  // the reader of stdout is gone: silent, as a program killed by SIGPIPE
};

struct Flag {
  std::string_view name;             // long name without dashes; "brokers"
  std::string_view shortNames = "";  // "b"
  std::string_view value = "";       // what it takes, for the help: "HOST:PORT,..."; empty: a switch
  std::string_view help;
  bool repeats = false;
  std::string_view aliases = "";  // more long names, separated by spaces
};

struct Positional {
  std::string_view name;  // "TOPIC"
  std::string_view help;
  bool required = true;
  bool repeats = false;  // the last one only
};

class Arguments;

struct Command {
  std::string_view path;          // "topic create"
  std::string_view summary;       // one line, no full stop
  std::string_view details = "";  // paragraphs for --help and the man page
  std::vector<Positional> positionals = {};
  std::vector<Flag> flags = {};
  std::vector<std::pair<std::string_view, std::string_view>> examples = {};  // command line, what it does
  int (*run)(const Arguments&) = nullptr;
};

// What was given on the command line. Asking for a flag that the row does not have is our mistake (MQ_CHECK).
class Arguments {
 public:
  explicit Arguments(const Command& command) : command_(command) {}

  bool has(std::string_view flag) const;
  std::optional<std::string> text(std::string_view flag) const;  // the last one given
  std::string text(std::string_view flag, std::string_view otherwise) const;
  const std::vector<std::string>& all(std::string_view flag) const;  // in the order given
  // A whole number within [low, high]; anything else ends the command with a usage error that names flag and bounds.
  std::optional<int64_t> number(std::string_view flag, int64_t low, int64_t high) const;
  const std::vector<std::string>& positionals() const { return positionals_; }
  std::optional<std::string> positional(size_t index) const;
  const Command& command() const { return command_; }

 private:
  friend class CommandLine;
  const Flag& known(std::string_view flag) const;
  const Command& command_;
  std::map<std::string, std::vector<std::string>, std::less<>> flags_;
  std::vector<std::string> positionals_;
};

// Thrown by commands, caught in runCommandLine: prints "mq COMMAND: message" and ends with the code.
struct CommandError {
  int exitCode;
  std::string message;
};
template <class... Args>
[[noreturn]] void fail(int exitCode, fmt::format_string<Args...> format, Args&&... args) {
  throw CommandError{exitCode, fmt::format(format, std::forward<Args>(args)...)};
}
int exitCodeOf(Error error);  // what a broker's answer means for a script

const std::vector<Command>& allCommands();  // sorted by path; cli/commands.cc lists the rows
const Command* findCommand(std::string_view path);
std::string helpText(const Command& command, int width);
std::string overviewText(int width);

int runCommandLine(int argc, char** argv);

// The nearest of the candidates by edit distance, or empty when none is near.
std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates);

}  // namespace mq::cli
