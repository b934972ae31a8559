// Logger: lines for the person who runs mq. Real: spdlog to stderr (text on a terminal, JSON otherwise). Simulated: the
// trace of the run. Each line has an `event`, a stable word to search and count by; a call site that repeats is rate
// limited (the real one prints at most ten lines a second per event and says how many it left out).
#pragma once
#include <string>
#include <string_view>

#include <fmt/format.h>

namespace mq {

enum class LogLevel { debug, info, warning, error };

class Logger {
 public:
  virtual ~Logger() = default;
  virtual bool enabled(LogLevel level) const = 0;
  virtual void write(LogLevel level, std::string_view event, std::string_view text) = 0;  // any thread

  template <class... Args>
  void debug(std::string_view event, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(LogLevel::debug)) write(LogLevel::debug, event, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void info(std::string_view event, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(LogLevel::info)) write(LogLevel::info, event, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void warning(std::string_view event, fmt::format_string<Args...> format, Args&&... args) {
    if (enabled(LogLevel::warning)) write(LogLevel::warning, event, fmt::format(format, std::forward<Args>(args)...));
  }
  template <class... Args>
  void error(std::string_view event, fmt::format_string<Args...> format, Args&&... args) {
    write(LogLevel::error, event, fmt::format(format, std::forward<Args>(args)...));
  }
};

}  // namespace mq
