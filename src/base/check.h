// MQ_CHECK(condition, values...): an invariant of ours, always on. When it fails we are wrong, memory may no longer
// match the disk, and the process ends with the values, a backtrace and the last events of its shard.
// MQ_SLOW_CHECK: the same, costly; only where setSlowChecks(true) was called (tests, simulation).
// Never for input from outside: that is an Error.
#pragma once
#include <string>

#include <fmt/format.h>

namespace mq {

[[noreturn]] void checkFailed(const char* file, int line, const char* condition, const std::string& values);

// Called once by checkFailed before it aborts, for instance to print a trace. Must not allocate much or throw.
using CheckHook = void (*)();
void setCheckHook(CheckHook hook);

void setSlowChecks(bool on);
bool slowChecks();

namespace check_detail {
inline std::string show() { return {}; }
template <class First, class... Rest>
std::string show(const First& first, const Rest&... rest) {
  std::string text = fmt::format("{}", first);
  ((text += ", ", text += fmt::format("{}", rest)), ...);
  return text;
}
}  // namespace check_detail

}  // namespace mq

#define MQ_CHECK(condition, ...)                                                                \
  do {                                                                                          \
    if (!(condition)) [[unlikely]]                                                              \
      ::mq::checkFailed(__FILE__, __LINE__, #condition, ::mq::check_detail::show(__VA_ARGS__)); \
  } while (false)

#define MQ_SLOW_CHECK(condition, ...)                                       \
  do {                                                                      \
    if (::mq::slowChecks()) MQ_CHECK(condition __VA_OPT__(, ) __VA_ARGS__); \
  } while (false)
