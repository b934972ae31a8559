#include "base/check.h"

#include <execinfo.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

namespace mq {
namespace {
// Process-wide on purpose: both exist to describe a process that is about to end, or a test process.
std::atomic<CheckHook> checkHook{nullptr};
std::atomic<bool> slowChecksOn{false};
}  // namespace

void checkFailed(const char* file, int line, const char* condition, const std::string& values) {
  std::fprintf(stderr, "%s:%d: MQ_CHECK failed: %s%s%s%s\n", file, line, condition, values.empty() ? "" : " (",
               values.c_str(), values.empty() ? "" : ")");
  void* frames[64];
  int count = backtrace(frames, 64);
  backtrace_symbols_fd(frames, count, STDERR_FILENO);
  if (CheckHook hook = checkHook.exchange(nullptr)) hook();
  std::abort();
}

void setCheckHook(CheckHook hook) { checkHook = hook; }
void setSlowChecks(bool on) { slowChecksOn = on; }
bool slowChecks() { return slowChecksOn.load(std::memory_order_relaxed); }

}  // namespace mq
