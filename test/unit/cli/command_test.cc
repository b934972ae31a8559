#include "cli/command.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>

using namespace mq;
using namespace mq::cli;

namespace {

struct Outcome {
  int exitCode;
  std::string out;
  std::string err;
};

// What a descriptor of the process is given meanwhile.
class Captured {
 public:
  explicit Captured(int fd) : fd_(fd), saved_(dup(fd)), file_(memfd_create("captured", MFD_CLOEXEC)) {
    dup2(file_, fd_);
  }
  std::string end() {
    dup2(saved_, fd_);
    ::close(saved_);
    std::string text(static_cast<size_t>(lseek(file_, 0, SEEK_END)), '\0');
    CHECK(pread(file_, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    ::close(file_);
    return text;
  }

 private:
  int fd_, saved_, file_;
};

Outcome runMq(std::vector<std::string> words) {
  words.insert(words.begin(), "mq");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  std::fflush(nullptr);
  Captured out(STDOUT_FILENO), err(STDERR_FILENO);
  Outcome outcome{runCommandLine(static_cast<int>(argv.size()), argv.data()), "", ""};
  std::fflush(nullptr);
  outcome.err = err.end();
  outcome.out = out.end();
  return outcome;
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("command line: unknown words and flags are refused with the nearest good one") {
  struct Case {
    std::vector<std::string> words;
    std::string_view said;
  };
  for (const Case& row :
       {Case{{"prodcue"}, "did you mean 'mq produce'?"},
        Case{{"topic", "craete", "t"}, "did you mean 'mq topic create'?"},
        Case{{"topic", "xyzzy"}, "'mq topic --help' lists what there is"},
        Case{{"produce", "t", "--delimeter", "x"}, "did you mean --delimiter?"},
        Case{{"produce", "t", "--delimeter=x"}, "did you mean --delimiter?"},
        Case{{"consume", "t", "--offest", "1"}, "did you mean --offset?"},
        Case{{"serve", "--listne", "x"}, "did you mean --listen?"},
        Case{{"serve", "--xyzzy"}, "'mq serve --help' lists them"}, Case{{"produce", "t", "--acks"}, "--acks"},
        Case{{"--xyzzy"}, "'--xyzzy' is not a command"}, Case{{"topic", "create"}, "TOPIC is missing"},
        Case{{"version", "x"}, "one argument too many"},
        Case{{"produce", "t", "-p", "many"}, "--partition takes a whole number"},
        Case{{"produce", "t", "-p", "-1"}, "--partition takes a whole number"},
        Case{{"log", "dump"}, "PATH is missing"}}) {
    Outcome outcome = runMq(row.words);
    CAPTURE(fmt::format("{}", fmt::join(row.words, " ")));
    CHECK(outcome.exitCode == exitUsage);
    CHECK(outcome.out == "");
    CHECK_MESSAGE(contains(outcome.err, row.said), outcome.err);
    CHECK(outcome.err.starts_with("mq: "));
  }
}

TEST_CASE("command line: help goes to stdout with 0 where it was asked for, else to stderr with 2") {
  for (std::vector<std::string> words :
       {std::vector<std::string>{"--help"}, {"help"}, {"help", "produce"}, {"produce", "--help"}, {"topic", "-h"}}) {
    Outcome outcome = runMq(words);
    CHECK(outcome.exitCode == exitDone);
    CHECK(outcome.err == "");
    CHECK(contains(outcome.out, "usage:") != contains(outcome.out, "mq topic - "));
  }
  for (std::vector<std::string> words : {std::vector<std::string>{}, {"topic"}, {"log"}}) {
    Outcome outcome = runMq(words);
    CHECK(outcome.exitCode == exitUsage);
    CHECK(outcome.out == "");
    CHECK(outcome.err != "");
  }
  CHECK(contains(runMq({"--version"}).out, "mq "));
  CHECK(runMq({"help", "xyzzy"}).exitCode == exitUsage);
}

TEST_CASE("command line: what stands behind -- is an argument; the help of one command does not run it") {
  Outcome outcome = runMq({"log", "dump", "--", "--json"});
  CHECK(outcome.exitCode == exitNotFound);
  CHECK(contains(outcome.err, "--json: there is nothing of that name"));
}

TEST_CASE("completion: bash finds commands, verbs and options, and leaves files to readline") {
  auto complete = [](const std::string& words, int at) {
    std::string script = runMq({"completion", "bash"}).out;
    FILE* pipe = popen(fmt::format("bash -c '{}\nCOMP_WORDS=(mq {}); COMP_CWORD={}; _mq; echo \"${{COMPREPLY[*]}}\"'",
                                   script, words, at)
                           .c_str(),
                       "r");
    REQUIRE(pipe != nullptr);
    std::string text(4096, '\0');
    text.resize(fread(text.data(), 1, text.size(), pipe));
    CHECK(pclose(pipe) == 0);
    return text;
  };
  CHECK(complete("prod", 1) == "produce\n");
  CHECK(complete("topic cr", 2) == "create\n");
  CHECK(complete("topic create --part", 3) == "--partitions\n");
  CHECK(complete("topic create orders --part", 4) == "--partitions\n");
  CHECK(complete("log dump mq-da", 3) == "\n");
  CHECK(complete("xyzzy", 1) == "\n");
  CHECK(runMq({"completion", "fish"}).exitCode == exitUsage);
}

TEST_CASE("command rows: each can be explained, is in its group, and has no name twice") {
  std::set<std::string_view> paths;
  for (const Command& command : allCommands()) {
    CAPTURE(std::string(command.path));
    CHECK(paths.insert(command.path).second);
    CHECK_FALSE(command.summary.empty());
    CHECK_FALSE(command.summary.ends_with('.'));
    size_t space = command.path.rfind(' ');
    if (space != std::string_view::npos) CHECK(findCommand(command.path.substr(0, space)) != nullptr);
    std::set<std::string> names;
    for (const Flag& flag : command.flags) {
      CHECK(names.insert(std::string(flag.name)).second);
      for (char c : flag.shortNames) CHECK(names.insert(std::string(1, c)).second);
      CHECK_FALSE(flag.help.empty());
    }
    for (size_t i = 0; i + 1 < command.positionals.size(); ++i) CHECK_FALSE(command.positionals[i].repeats);
    std::string help = helpText(command, 80);
    for (const Flag& flag : command.flags) CHECK(contains(help, flag.name));
    size_t longest = 0, at = 0;
    while (at < help.size()) {
      size_t end = std::min(help.find('\n', at), help.size());
      bool example = help.substr(at, 5) == "  mq ";
      if (!example && help.find("| mq", at) > end) longest = std::max(longest, end - at);
      at = end + 1;
    }
    CHECK(longest <= 100);
  }
}

TEST_CASE("nearest: near by letters or a beginning, never far") {
  const std::string_view names[] = {"partitions", "partition", "bootstrap-server", "offset"};
  CHECK(nearest("partitons", names) == "partitions");
  CHECK(nearest("bootstrap", names) == "bootstrap-server");
  CHECK(nearest("ofset", names) == "offset");
  CHECK(nearest("xyzzy", names) == "");
  CHECK(nearest("", names) == "");
}

TEST_CASE("command line: an option that may be repeated takes one word each time, not what follows") {
  for (std::vector<std::string> words :
       {std::vector<std::string>{"consume", "-p", "0", "t", "u"},
        {"consume", "t", "-p", "0", "-p", "1", "u"},
        {"consume", "-X", "client.id=a", "t", "--partition=0", "u", "-X", "client.id=b"}}) {
    Outcome outcome = runMq(words);
    CAPTURE(outcome.err);
    CHECK(outcome.exitCode == exitUsage);
    CHECK(contains(outcome.err, "more than one topic needs a group"));
  }
}
