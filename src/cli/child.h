// Child: one run of a shell command. It gets bytes on stdin and our stdout, stderr and environment.
#pragma once
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <kj/io.h>

namespace mq::cli {

class Child {
 public:
  using Environment = std::vector<std::pair<std::string, std::optional<std::string>>>;  // nullopt: not set

  // Ends the command (CommandError) where no process can be started.
  Child(const std::string& command, const Environment& environment, std::string input);
  ~Child();  // one that still runs is left alone
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Feeds stdin, for at most so long. The exit code once it has ended, 128 + N where signal N ended it. A command that
  // ends without reading all of its stdin is as good as one that does.
  std::optional<int> wait(std::chrono::milliseconds atMost);

 private:
  std::string input_;
  size_t fed_ = 0;
  kj::AutoCloseFd stdin_;
  kj::AutoCloseFd process_;  // readable once it has ended
  pid_t pid_ = -1;
  std::optional<int> code_;
};

}  // namespace mq::cli
