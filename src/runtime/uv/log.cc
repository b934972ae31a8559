#include "runtime/uv/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <chrono>
#include <mutex>

namespace mq {

namespace {

constexpr uint32_t kLinesPerSecond = 10;

spdlog::level::level_enum spdlogLevel(LogLevel level) {
  switch (level) {
    case LogLevel::debug: return spdlog::level::debug;
    case LogLevel::info: return spdlog::level::info;
    case LogLevel::warning: return spdlog::level::warn;
    case LogLevel::error: return spdlog::level::err;
  }
  return spdlog::level::err;
}

class StderrLogger final : public Logger {
 public:
  StderrLogger(LogLevel threshold, bool json) : threshold_(threshold), json_(json), limit_(kLinesPerSecond) {
    std::shared_ptr<spdlog::sinks::sink> sink;
    if (json) {
      sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
    } else {
      sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>();
    }
    sink->set_pattern(json ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l",%v})" : "%H:%M:%S.%e %^%-7l%$ %v");
    out_ = std::make_unique<spdlog::logger>("mq", std::move(sink));
    out_->set_level(spdlog::level::trace);
    out_->flush_on(spdlog::level::trace);
  }
  ~StderrLogger() override { reportLeftOut(INT64_MAX); }

  bool enabled(LogLevel level) const override { return level >= threshold_; }

  void write(LogLevel level, std::string_view event, std::string_view text) override {
    if (!enabled(level)) return;
    int64_t second =
        std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
    std::lock_guard lock(mutex_);
    reportLeftOut(second);
    if (limit_.admit(event, second)) print(level, event, text);
  }

 private:
  void reportLeftOut(int64_t second) {
    while (auto leftOut = limit_.overdue(second)) {
      print(LogLevel::warning, leftOut->event, fmt::format("left out {} lines of this event", leftOut->lines));
    }
  }
  void print(LogLevel level, std::string_view event, std::string_view text) {
    if (json_) {
      out_->log(spdlogLevel(level), "\"event\":{},\"text\":{}", jsonString(event), jsonString(text));
    } else {
      out_->log(spdlogLevel(level), "{}: {}", event, text);
    }
  }

  const LogLevel threshold_;
  const bool json_;
  std::mutex mutex_;
  RateLimit limit_;  // under mutex_
  std::unique_ptr<spdlog::logger> out_;
};

}  // namespace

std::unique_ptr<Logger> stderrLogger(LogLevel threshold, LogStyle style) {
  bool json = style == LogStyle::json || (style == LogStyle::byTerminal && ::isatty(STDERR_FILENO) == 0);
  return std::make_unique<StderrLogger>(threshold, json);
}

std::optional<LogLevel> parseLogLevel(std::string_view word) {
  if (word == "debug") return LogLevel::debug;
  if (word == "info") return LogLevel::info;
  if (word == "warning" || word == "warn") return LogLevel::warning;
  if (word == "error") return LogLevel::error;
  return std::nullopt;
}

bool RateLimit::admit(std::string_view event, int64_t second) {
  auto found = windows_.find(event);
  if (found == windows_.end()) found = windows_.emplace(std::string(event), Window{}).first;
  Window& window = found->second;
  if (window.second != second) {
    window.second = second;
    window.printed = 0;
  }
  if (window.printed < linesPerSecond_) {
    ++window.printed;
    return true;
  }
  if (window.leftOut++ == 0) ++limited_;
  return false;
}

std::optional<RateLimit::LeftOut> RateLimit::overdue(int64_t second) {
  if (limited_ == 0) return std::nullopt;
  for (auto& [event, window] : windows_) {
    if (window.leftOut == 0 || window.second >= second) continue;
    --limited_;
    return LeftOut{event, std::exchange(window.leftOut, 0)};
  }
  return std::nullopt;
}

std::string jsonString(std::string_view text) {
  std::string out = "\"";
  // Length of the whole UTF-8 character at `at`, 0 if there is none.
  auto character = [&](size_t at) -> size_t {
    auto byte = [&](size_t i) { return at + i < text.size() ? static_cast<uint8_t>(text[at + i]) : 0u; };
    uint32_t first = byte(0);
    size_t length = first < 0x80                    ? 1
                    : first >= 0xC2 && first < 0xE0 ? 2
                    : first >= 0xE0 && first < 0xF0 ? 3
                    : first >= 0xF0 && first < 0xF5 ? 4
                                                    : 0;
    for (size_t i = 1; i < length; ++i) {
      if ((byte(i) & 0xC0) != 0x80) return 0;
    }
    if (first == 0xE0 && byte(1) < 0xA0) return 0;   // overlong
    if (first == 0xED && byte(1) >= 0xA0) return 0;  // surrogate
    if (first == 0xF0 && byte(1) < 0x90) return 0;   // overlong
    if (first == 0xF4 && byte(1) >= 0x90) return 0;  // over U+10FFFF
    return length;
  };
  for (size_t at = 0; at < text.size();) {
    size_t length = character(at);
    auto c = static_cast<uint8_t>(text[at]);
    if (length == 0) {
      out += "\\ufffd";
      length = 1;
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c < 0x20 || c == 0x7F) {
      out += fmt::format("\\u{:04x}", c);
    } else {
      out += text.substr(at, length);
    }
    at += length;
  }
  return out += '"';
}

}  // namespace mq
