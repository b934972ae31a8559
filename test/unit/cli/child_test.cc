#include "cli/child.h"

#include <doctest/doctest.h>

#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace mq::cli;
using std::chrono::milliseconds;

namespace {

constexpr milliseconds kLong{30'000};

// As main() does: a pipe that nobody reads is an error of the write.
[[maybe_unused]] const auto pipesAreErrors = std::signal(SIGPIPE, SIG_IGN);

std::optional<int> run(const std::string& command, std::string input = "", const Child::Environment& environment = {}) {
  Child child(command, environment, std::move(input));
  return child.wait(kLong);
}

}  // namespace

TEST_CASE("child: its exit code, and the signal that ended it") {
  CHECK(run("exit 0") == 0);
  CHECK(run("exit 75") == 75);
  CHECK(run("kill -9 $$") == 137);
  CHECK(run("no-such-command-here 2>/dev/null") == 127);
  CHECK(run("kill -PIPE $$") == 141);  // not ignored, although we ignore it
}

TEST_CASE("child: bytes arrive on stdin, whole and followed by its end") {
  std::string bytes;
  for (int i = 0; i < 300'000; ++i) bytes += static_cast<char>(i * 7);
  auto path = std::filesystem::temp_directory_path() / ("mq-child-test-" + std::to_string(getpid()));
  CHECK(run("cat > " + path.string(), bytes) == 0);
  std::ifstream file(path, std::ios::binary);
  std::stringstream got;
  got << file.rdbuf();
  CHECK(got.str() == bytes);
  std::filesystem::remove(path);
}

TEST_CASE("child: one that does not read is no failure") {
  CHECK(run("exit 0", std::string(1 << 20, 'x')) == 0);
  CHECK(run("exec <&-; exit 3", std::string(1 << 20, 'x')) == 3);
  CHECK(run("head -c 1 > /dev/null", std::string(1 << 20, 'x')) == 0);
}

TEST_CASE("child: variables are set, replaced and taken away") {
  setenv("MQ_TEST_OLD", "old", 1);
  setenv("MQ_TEST_KEPT", "kept", 1);
  CHECK(run("test \"$MQ_TEST_NEW\" = 'a=b c' && test -z \"${MQ_TEST_OLD+set}\" && test \"$MQ_TEST_KEPT\" = kept", "",
            {{"MQ_TEST_NEW", "a=b c"}, {"MQ_TEST_OLD", std::nullopt}}) == 0);
  unsetenv("MQ_TEST_OLD");
  unsetenv("MQ_TEST_KEPT");
}

TEST_CASE("child: waiting has an end while it runs") {
  Child child("sleep 0.3; exit 5", {}, "");
  CHECK(!child.wait(milliseconds(1)));
  CHECK(child.wait(kLong) == 5);
  CHECK(child.wait(kLong) == 5);
}
