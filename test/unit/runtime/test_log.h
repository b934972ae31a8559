// A Logger that keeps its lines, for tests.
#pragma once
#include <algorithm>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/logger.h"

namespace mq {

class TestLog final : public Logger {
 public:
  bool enabled(LogLevel) const override { return true; }
  void write(LogLevel, std::string_view event, std::string_view text) override {
    std::lock_guard lock(mutex_);
    lines_.push_back({std::string(event), std::string(text)});
  }
  bool has(std::string_view event, std::string_view part) {
    std::lock_guard lock(mutex_);
    return std::ranges::any_of(lines_, [&](const Line& l) { return l.event == event && l.text.contains(part); });
  }

 private:
  struct Line {
    std::string event, text;
  };
  std::mutex mutex_;
  std::vector<Line> lines_;
};

}  // namespace mq
