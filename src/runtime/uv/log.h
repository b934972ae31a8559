// The real Logger: stderr, through spdlog. Text with colours on a terminal, one JSON object a line otherwise:
//   {"time":"2026-11-30T04:31:00.123+00:00","level":"info","event":"listening","text":"127.0.0.1:9092"}
// At most ten lines a second per event; a line says how many were left out, once a line can be printed again.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/logger.h"

namespace mq {

enum class LogStyle { byTerminal, text, json };

std::unique_ptr<Logger> stderrLogger(LogLevel threshold, LogStyle style = LogStyle::byTerminal);

std::optional<LogLevel> parseLogLevel(std::string_view word);  // debug info warning error
std::string jsonString(std::string_view text);  // quoted and escaped; bytes that are no UTF-8 become U+FFFD

// At most `linesPerSecond` of each event. Not thread-safe.
class RateLimit {
 public:
  explicit RateLimit(uint32_t linesPerSecond) : linesPerSecond_(linesPerSecond) {}
  bool admit(std::string_view event, int64_t second);
  // Events whose left-out lines belong to a second before this one, each reported once.
  struct LeftOut {
    std::string event;
    uint64_t lines;
  };
  std::optional<LeftOut> overdue(int64_t second);

 private:
  struct Window {
    int64_t second = 0;
    uint32_t printed = 0;
    uint64_t leftOut = 0;
  };
  const uint32_t linesPerSecond_;
  std::map<std::string, Window, std::less<>> windows_;
  size_t limited_ = 0;  // windows with leftOut > 0
};

}  // namespace mq
