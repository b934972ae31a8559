#include "sim_loop.h"

#include <kj/debug.h>

namespace mq::sim {

namespace {

constexpr size_t kTailLines = 200;
constexpr Duration kBatchCost = 1us;
constexpr Instant kBegin{1h};

kj::TimePoint timePoint(Instant instant) {
  return kj::origin<kj::TimePoint>() + static_cast<int64_t>(instant.time_since_epoch().count()) * kj::NANOSECONDS;
}

Instant instant(kj::TimePoint point) {
  return Instant(Duration((point - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS));
}

}  // namespace

void Trace::add(Instant now, std::string_view line) {
  std::string full = fmt::format("{:>13.6f} {}", std::chrono::duration<double>(now - kBegin).count(), line);
  for (char c : full) hash_ = (hash_ ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  ++lines_;
  if (sink_) sink_(full);
  tail_.push_back(std::move(full));
  if (tail_.size() > kTailLines) tail_.pop_front();
}

SimLoop::SimLoop(uint64_t stepsMax) : now_(kBegin), timers_(timePoint(kBegin)), stepsMax_(stepsMax) {}

void SimLoop::at(Instant when, Owner owner, Task action) {
  actions_.emplace(std::max(when, now_), Action{owner, std::move(action)});
}

std::vector<Task> SimLoop::takeBack(Owner owner) {
  std::vector<Task> taken;
  for (auto at = actions_.begin(); at != actions_.end();) {
    if (at->second.owner == owner) {
      taken.push_back(std::move(at->second.run));
      at = actions_.erase(at);
    } else {
      ++at;
    }
  }
  return taken;
}

void SimLoop::advance(Instant to) {
  now_ = std::max(now_, to);
  timers_.advanceTo(timePoint(now_));
}

void SimLoop::countStep() {
  if (++steps_ > stepsMax_) KJ_FAIL_REQUIRE("the simulation does not come to an end", steps_);
}

bool SimLoop::wait() {
  countStep();
  bool actionNext = !actions_.empty();
  KJ_IF_MAYBE (timer, timers_.nextEvent()) {
    if (!actionNext || instant(*timer) < actions_.begin()->first) {
      advance(instant(*timer));
      return false;
    }
  }
  if (!actionNext) KJ_FAIL_REQUIRE("the simulation is stuck: everybody waits and nothing is under way");
  advance(actions_.begin()->first);
  auto next = actions_.extract(actions_.begin());
  next.mapped().run();
  return false;
}

bool SimLoop::poll() {
  countStep();
  advance(now_ + kBatchCost);
  while (!actions_.empty() && actions_.begin()->first <= now_) {
    auto next = actions_.extract(actions_.begin());
    next.mapped().run();
  }
  return false;
}

}  // namespace mq::sim
