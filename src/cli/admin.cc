#include "cli/admin.h"

#include <unistd.h>

#include <cstdio>

#include "cli/output.h"

namespace mq::cli {

std::pair<std::string, std::string> keyValue(const std::string& text, std::string_view flag) {
  size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) fail(exitUsage, "{} takes key=value, not '{}'", flag, text);
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void confirm(const Arguments& arguments, const std::string& question) {
  if (arguments.has("yes")) return;
  if (!isatty(STDIN_FILENO) || !stderrIsTerminal())
    fail(exitUsage, "{} --yes says so where nobody can be asked", question);
  fmt::print(stderr, "{} [y/N] ", question);
  std::fflush(stderr);
  char answer[16] = {};
  if (!std::fgets(answer, sizeof answer, stdin) || (answer[0] != 'y' && answer[0] != 'Y'))
    fail(exitFailed, "nothing was changed");
}

void Outcome::add(std::string_view what, Error error, const std::optional<std::string>& message) {
  if (error == Error::none) return;
  fmt::print(stderr, "mq: {}: {}\n", what, describeError(error, message));
  if (exitCode_ == exitDone) exitCode_ = exitCodeOf(error);
}

}  // namespace mq::cli
