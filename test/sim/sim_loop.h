// SimLoop: virtual time. One KJ event loop serves all shards of all nodes; when it has nothing to run, time jumps to
// the next timer or action. Actions are what the fake world does by itself: a message arrives, a pool's job ends. They
// run one at a time, as callbacks of libuv would, and settle promises.
//
// Code takes no time, except that a loop that never goes idle is charged a microsecond for each batch of its events, so
// that a busy node cannot stop the clock.
//
// Trace: everything the world decides is told here, as one line, and hashed. Two runs of a seed have the same hash.
#pragma once
#include <fmt/format.h>
#include <kj/async.h>
#include <kj/timer.h>

#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/random.h"
#include "base/types.h"
#include "runtime/shard.h"

namespace mq::sim {

class Trace {
 public:
  using Sink = std::function<void(const std::string& line)>;

  uint64_t hash() const { return hash_; }
  uint64_t lines() const { return lines_; }
  const std::deque<std::string>& tail() const { return tail_; }  // the last lines, for the report of a failed run
  void setSink(Sink sink) { sink_ = std::move(sink); }
  void add(Instant now, std::string_view line);

 private:
  uint64_t hash_ = 0xCBF29CE484222325u;  // FNV-1a
  uint64_t lines_ = 0;
  std::deque<std::string> tail_;
  Sink sink_;
};

class SimLoop final : public kj::EventPort {
 public:
  using Owner = const void*;

  explicit SimLoop(uint64_t stepsMax);

  Instant now() const { return now_; }
  kj::Timer& timer() { return timers_; }
  Trace& trace() { return trace_; }
  // Sees each line that a node's processes log, besides the trace.
  using LogWatcher = std::function<void(uint32_t node, std::string_view event, std::string_view text)>;
  void watchLog(LogWatcher watcher) { logWatcher_ = std::move(watcher); }
  void logged(uint32_t node, std::string_view event, std::string_view text) {
    if (logWatcher_) logWatcher_(node, event, text);
  }
  template <class... Args>
  void tell(fmt::format_string<Args...> format, Args&&... args) {
    trace_.add(now_, fmt::format(format, std::forward<Args>(args)...));
  }

  // Those of the same time run in the order of scheduling. The owner is only a mark to take them back by.
  void at(Instant when, Owner owner, Task action);
  void after(Duration wait, Owner owner, Task action) { at(now_ + wait, owner, std::move(action)); }
  // The owner's actions that have not run, for the caller to destroy.
  std::vector<Task> takeBack(Owner owner);

  bool wait() override;
  bool poll() override;

 private:
  struct Action {
    Owner owner;
    Task run;
  };
  void advance(Instant to);
  void countStep();

  Instant now_;
  kj::TimerImpl timers_;
  std::multimap<Instant, Action> actions_;
  const uint64_t stepsMax_;
  uint64_t steps_ = 0;
  Trace trace_;
  LogWatcher logWatcher_;
};

}  // namespace mq::sim
