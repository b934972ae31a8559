#include "runtime/uv/log.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <functional>
#include <vector>

#include "../test_directory.h"

using namespace mq;

namespace {

// What goes to the process's stderr while the action runs.
std::vector<std::string> linesOnStderr(const std::function<void()>& action) {
  TestDirectory directory;
  std::string path = directory / "err";
  fflush(stderr);
  int saved = dup(STDERR_FILENO);
  FILE* file = fopen(path.c_str(), "w");
  dup2(fileno(file), STDERR_FILENO);
  action();
  fflush(stderr);
  dup2(saved, STDERR_FILENO);
  close(saved);
  fclose(file);
  std::vector<std::string> lines;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

}  // namespace

TEST_CASE("RateLimit: ten of each event a second, and what was left out is told once, later") {
  RateLimit limit(10);
  int printed = 0;
  for (int i = 0; i < 25; ++i) printed += limit.admit("a", 100);
  CHECK(printed == 10);
  CHECK(limit.admit("b", 100));
  CHECK(!limit.overdue(100));
  auto leftOut = limit.overdue(101);
  REQUIRE(leftOut.has_value());
  CHECK(leftOut->event == "a");
  CHECK(leftOut->lines == 15);
  CHECK(!limit.overdue(102));
  CHECK(limit.admit("a", 101));
}

TEST_CASE("stderrLogger: lines of JSON when it is no terminal, with all that would break them escaped") {
  auto lines = linesOnStderr([] {
    auto log = stderrLogger(LogLevel::info);
    log->debug("hidden", "not this");
    log->info("listening", "on {}", "[::1]:9092");
    log->warning("odd", "{}", "a\"b\\c\nd\x01 \xff \xc3\xa9");
  });
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].starts_with("{\"time\":\"20"));
  CHECK(lines[0].ends_with("\"level\":\"info\",\"event\":\"listening\",\"text\":\"on [::1]:9092\"}"));
  CHECK(lines[1].ends_with(R"("event":"odd","text":"a\"b\\c\nd\u0001 \ufffd )"
                           "\xc3\xa9\"}"));
}

TEST_CASE("stderrLogger: text for people on request") {
  auto lines = linesOnStderr([] { stderrLogger(LogLevel::info, LogStyle::text)->error("disk", "gone"); });
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].find("disk: gone") != std::string::npos);
}

TEST_CASE("stderrLogger: a flood of one event is cut, and the number left out is printed at the latest at the end") {
  auto lines = linesOnStderr([] {
    auto log = stderrLogger(LogLevel::info);
    for (int i = 0; i < 1000; ++i) log->info("flood", "{}", i);
  });
  CHECK(lines.size() >= 11);
  CHECK(lines.size() < 40);
  CHECK(lines.back().find("lines of this event") != std::string::npos);
}
