#include "cli/command.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>

#include <kj/exception.h>

#include <CLI/CLI.hpp>

#include "base/check.h"
#include "cli/output.h"
#include "config/setting.h"

namespace mq::cli {
namespace {
const std::vector<std::string> kNone;

std::string flagSpec(const Flag& flag) {
  std::string spec;
  for (char c : flag.shortNames) spec += fmt::format("-{},", c);
  spec += fmt::format("--{}", flag.name);
  size_t from = 0;
  while (from < flag.aliases.size()) {
    size_t to = std::min(flag.aliases.find(' ', from), flag.aliases.size());
    spec += fmt::format(",--{}", flag.aliases.substr(from, to - from));
    from = to + 1;
  }
  return spec;
}

std::string usageLine(const Command& command) {
  std::string line = fmt::format("mq {}", command.path);
  if (!command.flags.empty()) line += " [OPTIONS]";
  for (const Positional& p : command.positionals) {
    std::string name = fmt::format("{}{}", p.name, p.repeats ? "..." : "");
    line += p.required ? fmt::format(" {}", name) : fmt::format(" [{}]", name);
  }
  return line;
}

// Wraps at word boundaries; every line after the first starts with `indent` spaces.
void wrap(std::string& out, std::string_view text, int indent, int width) {
  int column = indent;
  bool first = true;
  size_t from = 0;
  while (from < text.size()) {
    if (text[from] == '\n') {
      out += '\n';
      out.append(static_cast<size_t>(indent), ' ');
      column = indent;
      first = true;
      ++from;
      continue;
    }
    size_t to = text.find_first_of(" \n", from);
    if (to == std::string_view::npos) to = text.size();
    std::string_view word = text.substr(from, to - from);
    if (!word.empty()) {
      if (!first && column + 1 + static_cast<int>(word.size()) > width) {
        out += '\n';
        out.append(static_cast<size_t>(indent), ' ');
        column = indent;
      } else if (!first) {
        out += ' ';
        ++column;
      }
      out += word;
      column += static_cast<int>(word.size());
      first = false;
    }
    from = to < text.size() && text[to] == ' ' ? to + 1 : to;
  }
  out += '\n';
}

std::vector<std::string_view> subcommandsOf(std::string_view path) {
  std::vector<std::string_view> names;
  std::string prefix = path.empty() ? "" : fmt::format("{} ", path);
  for (const Command& command : allCommands()) {
    if (!command.path.starts_with(prefix)) continue;
    std::string_view rest = command.path.substr(prefix.size());
    if (!rest.empty() && rest.find(' ') == std::string_view::npos) names.push_back(rest);
  }
  return names;
}

[[noreturn]] void unknownWord(std::string_view path, std::string_view word) {
  std::vector<std::string_view> names = subcommandsOf(path);
  std::string_view near = nearest(word, names);
  std::string prefix = path.empty() ? "mq" : fmt::format("mq {}", path);
  if (!near.empty()) fail(exitUsage, "there is no '{} {}'; did you mean '{} {}'?", prefix, word, prefix, near);
  fail(exitUsage, "there is no '{} {}'; '{} --help' lists what there is", prefix, word, prefix);
}
}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> candidates) {
  if (std::string near = config::nearest(word, candidates); !near.empty()) return *std::ranges::find(candidates, near);
  if (word.size() < 3) return {};
  auto beginning = std::ranges::find_if(candidates, [&](std::string_view name) { return name.starts_with(word); });
  return beginning == candidates.end() ? std::string_view() : *beginning;
}

const Flag& Arguments::known(std::string_view flag) const {
  for (const Flag& row : command_.flags) {
    if (row.name == flag) return row;
  }
  checkFailed(__FILE__, __LINE__, "the command has this flag", fmt::format("{} --{}", command_.path, flag));
}

bool Arguments::has(std::string_view flag) const {
  known(flag);
  return flags_.contains(flag);
}

const std::vector<std::string>& Arguments::all(std::string_view flag) const {
  known(flag);
  auto found = flags_.find(flag);
  return found == flags_.end() ? kNone : found->second;
}

std::optional<std::string> Arguments::text(std::string_view flag) const {
  const auto& given = all(flag);
  if (given.empty()) return std::nullopt;
  return given.back();
}

std::string Arguments::text(std::string_view flag, std::string_view otherwise) const {
  return text(flag).value_or(std::string(otherwise));
}

std::optional<int64_t> Arguments::number(std::string_view flag, int64_t low, int64_t high) const {
  auto given = text(flag);
  if (!given) return std::nullopt;
  int64_t value = 0;
  auto [end, error] = std::from_chars(given->data(), given->data() + given->size(), value);
  if (error != std::errc() || end != given->data() + given->size() || value < low || value > high) {
    fail(exitUsage, "--{} takes a whole number from {} to {}, not '{}'", flag, low, high, *given);
  }
  return value;
}

std::optional<std::string> Arguments::positional(size_t index) const {
  if (index >= positionals_.size()) return std::nullopt;
  return positionals_[index];
}

int exitCodeOf(Error error) {
  switch (error) {
    case Error::none: return exitDone;
    case Error::unknownTopicOrPartition:
    case Error::unknownTopicId:
    case Error::groupIdNotFound: return exitNotFound;
    case Error::topicAlreadyExists:
    case Error::inconsistentTopicId:
    case Error::nonEmptyGroup: return exitConflict;
    case Error::topicAuthorizationFailed:
    case Error::groupAuthorizationFailed:
    case Error::clusterAuthorizationFailed:
    case Error::transactionalIdAuthorizationFailed:
    case Error::saslAuthenticationFailed: return exitDenied;
    default: return exitFailed;
  }
}

const Command* findCommand(std::string_view path) {
  for (const Command& command : allCommands()) {
    if (command.path == path) return &command;
  }
  return nullptr;
}

std::string helpText(const Command& command, int width) {
  std::string out = fmt::format("mq {} - ", command.path);
  wrap(out, command.summary, 2, width);
  if (command.run) out += fmt::format("\nusage: {}\n", usageLine(command));
  if (!command.details.empty()) {
    out += '\n';
    wrap(out, command.details, 0, width);
  }
  std::vector<std::string_view> names = subcommandsOf(command.path);
  if (!names.empty()) {
    out += "\ncommands:\n";
    for (std::string_view name : names) {
      out += fmt::format("  {:<16}", name);
      wrap(out, findCommand(fmt::format("{} {}", command.path, name))->summary, 18, width);
    }
  }
  auto row = [&](const std::string& left, std::string_view help) {
    out += fmt::format("  {:<28}", left);
    if (left.size() > 27) out += fmt::format("\n{:30}", "");
    wrap(out, help, 30, std::max(width, 50));
  };
  if (!command.positionals.empty()) {
    out += "\narguments:\n";
    for (const Positional& p : command.positionals) row(std::string(p.name), p.help);
  }
  if (!command.flags.empty()) {
    out += "\noptions:\n";
    for (const Flag& flag : command.flags) {
      std::string left = flag.shortNames.empty() ? "    " : fmt::format("-{}, ", flag.shortNames[0]);
      left += fmt::format("--{}", flag.name);
      if (!flag.value.empty()) left += fmt::format(" {}", flag.value);
      row(left, flag.help);
    }
  }
  if (!command.examples.empty()) {
    out += "\nexamples:\n";
    for (const auto& [line, what] : command.examples) out += fmt::format("  {}\n      {}\n", line, what);
  }
  return out;
}

std::string overviewText(int width) {
  std::string out =
      "mq - a distributed log that speaks Kafka's protocol\n\nusage: mq COMMAND [OPTIONS] [ARGUMENTS]\n\ncommands:\n";
  for (std::string_view name : subcommandsOf("")) {
    out += fmt::format("  {:<12}", name);
    wrap(out, findCommand(name)->summary, 14, width);
  }
  out += "\n'mq COMMAND --help' or 'mq help COMMAND' tells more.\n";
  return out;
}

class CommandLine {
 public:
  static int run(const std::vector<std::string>& words) {
    std::string path;
    const Command* command = nullptr;
    size_t at = 0;
    for (; at < words.size(); ++at) {
      if (words[at].starts_with('-')) break;
      std::string longer = path.empty() ? words[at] : fmt::format("{} {}", path, words[at]);
      const Command* found = findCommand(longer);
      if (!found) {
        if (!command || !command->run) unknownWord(path, words[at]);
        break;
      }
      command = found;
      path = longer;
      if (command->run && subcommandsOf(path).empty()) {
        ++at;
        break;
      }
    }
    std::vector<std::string> rest(words.begin() + static_cast<ptrdiff_t>(at), words.end());
    bool help =
        std::find_if(rest.begin(), rest.end(), [](auto& w) { return w == "--help" || w == "-h"; }) != rest.end();
    if (!command) {
      if (!rest.empty() && rest[0] == "--version")
        command = findCommand("version"), rest.clear();
      else if (rest.empty() || help)
        return print(overviewText(terminalWidth()), rest.empty() ? exitUsage : exitDone);
      else
        fail(exitUsage, "'{}' is not a command; 'mq --help' lists them", rest[0]);
    }
    if (help) return print(helpText(*command, terminalWidth()), exitDone);
    if (!command->run) return print(helpText(*command, terminalWidth()), exitUsage);
    return command->run(parse(*command, rest));
  }

 private:
  static int print(const std::string& text, int exitCode) {
    std::fputs(text.c_str(), exitCode == exitDone ? stdout : stderr);
    return exitCode;
  }

  static Arguments parse(const Command& command, std::vector<std::string> words) {
    Arguments arguments(command);
    CLI::App app;
    app.set_help_flag();
    std::vector<std::pair<const Flag*, CLI::Option*>> options;
    for (const Flag& flag : command.flags) {
      CLI::Option* option = flag.value.empty() ? app.add_flag(flagSpec(flag)) : app.add_option(flagSpec(flag));
      option->multi_option_policy(flag.repeats ? CLI::MultiOptionPolicy::TakeAll : CLI::MultiOptionPolicy::TakeLast);
      // Any number of times, one word each time: with a smaller number CLI11 takes the words that follow too.
      int times = flag.repeats ? CLI::detail::expected_max_vector_size : 1;
      if (!flag.value.empty()) option->type_size(1)->expected(1, times)->allow_extra_args(false);
      options.emplace_back(&flag, option);
    }
    std::vector<std::string> extra;
    std::reverse(words.begin(), words.end());  // CLI11 takes its words last first
    try {
      app.allow_extras();
      app.parse(words);
    } catch (const CLI::ParseError& error) {
      fail(exitUsage, "{} ('mq {} --help' lists the options)", error.what(), command.path);
    }
    bool onlyArguments = false;
    for (const std::string& word : app.remaining()) {
      if (word == "--" && !onlyArguments) {
        onlyArguments = true;
      } else if (!onlyArguments && word.size() > 1 && word[0] == '-' &&
                 !std::isdigit(static_cast<unsigned char>(word[1]))) {
        refuseFlag(command, word);
      } else {
        arguments.positionals_.push_back(word);
      }
    }
    for (auto& [flag, option] : options) {
      if (option->count() == 0) continue;
      arguments.flags_[std::string(flag->name)] =
          flag->value.empty() ? std::vector<std::string>{""} : option->results();
    }
    size_t required = 0, most = 0;
    for (const Positional& p : command.positionals) {
      required += p.required;
      most = p.repeats ? SIZE_MAX : most + 1;
    }
    if (arguments.positionals_.size() < required) {
      fail(exitUsage, "{} is missing\nusage: {}", command.positionals[arguments.positionals_.size()].name,
           usageLine(command));
    }
    if (arguments.positionals_.size() > most) {
      fail(exitUsage, "'{}' is one argument too many\nusage: {}", arguments.positionals_[most], usageLine(command));
    }
    return arguments;
  }

  [[noreturn]] static void refuseFlag(const Command& command, std::string_view word) {
    std::string_view bare = word.substr(word.starts_with("--") ? 2 : 1);
    bare = bare.substr(0, bare.find('='));
    std::vector<std::string_view> names;
    for (const Flag& flag : command.flags) names.push_back(flag.name);
    std::string_view near = bare.size() > 1 ? nearest(bare, names) : std::string_view();
    if (!near.empty()) fail(exitUsage, "there is no option {}; did you mean --{}?", word, near);
    fail(exitUsage, "there is no option {}; 'mq {} --help' lists them", word, command.path);
  }
};

int runCommandLine(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  try {
    int code = CommandLine::run(words);
    if (std::fflush(stdout) != 0) {
      if (errno == EPIPE) return exitPipe;
      fail(exitFailed, "cannot write to stdout: {}", strerror(errno));
    }
    return code;
  } catch (const CommandError& error) {
    if (!error.message.empty()) fmt::print(stderr, "mq: {}\n", error.message);
    return error.exitCode;
  } catch (const kj::Exception& error) {
    fmt::print(stderr, "mq: {}\n", error.getDescription().cStr());
    return exitFailed;
  }
}

}  // namespace mq::cli
