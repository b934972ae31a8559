// `mq completion bash`: completion of commands and options, printed from the command table.
#include <cstdio>

#include "cli/commands.h"

namespace mq::cli {
namespace {

std::string wordsAfter(std::string_view path) {
  std::string words;
  std::string prefix = path.empty() ? "" : fmt::format("{} ", path);
  for (const Command& command : allCommands()) {
    if (!command.path.starts_with(prefix)) continue;
    std::string_view rest = command.path.substr(prefix.size());
    if (rest.empty() || rest.find(' ') != std::string_view::npos) continue;
    words += (words.empty() ? "" : " ") + std::string(rest);
  }
  return words;
}

std::string flagsOf(const Command& command) {
  std::string words = "--help";
  for (const Flag& flag : command.flags) words += fmt::format(" --{}", flag.name);
  return words;
}

std::string bashScript() {
  std::string script =
      "# bash completion of mq: source <(mq completion bash)\n"
      "_mq() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} path= words= i\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${path:+$path }${COMP_WORDS[i]}\" in\n";
  std::string paths;
  for (const Command& command : allCommands())
    paths += fmt::format("{}\"{}\"", paths.empty() ? "" : " | ", command.path);
  script += fmt::format(
      "      {}) path=\"${{path:+$path }}${{COMP_WORDS[i]}}\" ;;\n"
      "    esac\n"
      "  done\n"
      "  case \"$path\" in\n"
      "    \"\") words=\"{}\" ;;\n",
      paths, wordsAfter(""));
  for (const Command& command : allCommands()) {
    std::string words = command.run == nullptr ? wordsAfter(command.path) : flagsOf(command);
    script += fmt::format("    \"{}\") words=\"{}\" ;;\n", command.path, words);
  }
  script +=
      "  esac\n"
      "  COMPREPLY=()\n"
      "  # Behind a whole command other words than options are files and topics, left to readline.\n"
      "  [[ $current == -* || $words != --* ]] && COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}\n"
      "complete -o default -F _mq mq\n";
  return script;
}

int runCompletion(const Arguments& arguments) {
  if (arguments.positional(0) != "bash")
    fail(exitUsage, "only bash has completions, not '{}'", *arguments.positional(0));
  std::fputs(bashScript().c_str(), stdout);
  return exitDone;
}

}  // namespace

Command completionCommand() {
  return {.path = "completion",
          .summary = "Print a script that completes commands and options",
          .positionals = {{.name = "SHELL", .help = "bash"}},
          .examples = {{"source <(mq completion bash)", "in ~/.bashrc, or once for this shell"}},
          .run = runCompletion};
}

}  // namespace mq::cli
