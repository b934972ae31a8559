#include "cli/child.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <string_view>

#include "cli/command.h"

namespace mq::cli {
namespace {

std::vector<std::string> environmentWith(const Child::Environment& own) {
  std::vector<std::string> all;
  for (char** at = environ; *at; ++at) {
    std::string_view entry = *at;
    bool isOurs = std::any_of(own.begin(), own.end(),
                              [&](const auto& variable) { return entry.starts_with(variable.first + "="); });
    if (!isOurs) all.emplace_back(entry);
  }
  for (const auto& [name, value] : own) {
    if (value) all.push_back(fmt::format("{}={}", name, *value));
  }
  return all;
}

}  // namespace

Child::Child(const std::string& command, const Environment& environment, std::string input) : input_(std::move(input)) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) fail(exitFailed, "cannot run '{}': {}", command, strerror(errno));
  kj::AutoCloseFd theirs(ends[0]);
  stdin_ = kj::AutoCloseFd(ends[1]);
  fcntl(stdin_.get(), F_SETFL, O_NONBLOCK);

  std::vector<std::string> variables = environmentWith(environment);
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  std::string shell = "sh", option = "-c", text = command;
  char* words[] = {shell.data(), option.data(), text.data(), nullptr};

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), STDIN_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t ordinary;  // we ignore this one, which would be inherited
  sigemptyset(&ordinary);
  sigaddset(&ordinary, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &ordinary);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  int error = posix_spawn(&pid_, "/bin/sh", &actions, &attributes, words, pointers.data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) fail(exitFailed, "cannot run '{}': {}", command, strerror(error));
  process_ = kj::AutoCloseFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (process_.get() < 0) fail(exitFailed, "cannot wait for '{}': {}", command, strerror(errno));
}

Child::~Child() = default;

std::optional<int> Child::wait(std::chrono::milliseconds atMost) {
  auto deadline = std::chrono::steady_clock::now() + atMost;
  while (!code_) {
    if (stdin_ != nullptr && fed_ == input_.size()) stdin_ = nullptr;
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd items[2] = {{process_.get(), POLLIN, 0}, {stdin_ != nullptr ? stdin_.get() : -1, POLLOUT, 0}};
    int ready = ::poll(items, 2, static_cast<int>(std::max<int64_t>(0, left.count())));
    if (ready <= 0) return std::nullopt;
    if (items[1].revents != 0) {
      ssize_t written = ::write(stdin_.get(), input_.data() + fed_, input_.size() - fed_);
      if (written > 0)
        fed_ += static_cast<size_t>(written);
      else if (errno != EAGAIN && errno != EINTR)
        stdin_ = nullptr;  // it reads no more
    }
    int status = 0;
    if (items[0].revents != 0 && ::waitpid(pid_, &status, WNOHANG) == pid_)
      code_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  return code_;
}

}  // namespace mq::cli
