#include "runtime/uv/event_port.h"

#include "base/check.h"

namespace mq {

namespace {

constexpr uint64_t kNanosPerMs = 1'000'000;

kj::TimePoint timePoint(uint64_t nanos) {
  return kj::origin<kj::TimePoint>() + static_cast<int64_t>(nanos) * kj::NANOSECONDS;
}

}  // namespace

EventPort::EventPort() : timers_(timePoint(uv_hrtime())) {
  int failed = uv_loop_init(&loop_);
  MQ_CHECK(failed == 0, failed);
  uv_timer_init(&loop_, &timer_);
}

EventPort::~EventPort() noexcept(false) {
  uv_close(reinterpret_cast<uv_handle_t*>(&timer_), nullptr);
  while (uv_run(&loop_, UV_RUN_NOWAIT) != 0) {
  }
  int left = uv_loop_close(&loop_);
  MQ_CHECK(left == 0, left);  // a handle that nobody closed
}

bool EventPort::armTimer() {
  KJ_IF_MAYBE (next, timers_.nextEvent()) {
    KJ_IF_MAYBE (armed, armedFor_) {
      if (*armed == *next) return true;
    }
    // libuv compares whole milliseconds of the same clock, so round up here and it never wakes early for nothing.
    auto due = static_cast<uint64_t>((*next - kj::origin<kj::TimePoint>()) / kj::NANOSECONDS);
    uint64_t dueMs = (due + kNanosPerMs - 1) / kNanosPerMs;
    if (due <= uv_hrtime()) return false;
    uint64_t loopMs = uv_now(&loop_);
    armedFor_ = *next;
    timer_.data = this;
    uv_timer_start(
        &timer_,
        [](uv_timer_t* timer) {
          auto& self = *static_cast<EventPort*>(timer->data);
          self.noteWork();
          self.armedFor_ = nullptr;
          // uv_run looks at timers before it sleeps: without this it would sleep after ours has fired.
          uv_stop(&self.loop_);
        },
        dueMs > loopMs ? dueMs - loopMs : 0, 0);
  } else if (armedFor_ != nullptr) {
    armedFor_ = nullptr;
    uv_timer_stop(&timer_);
  }
  return true;
}

void EventPort::endTurn() {
  if (turnBegan_ == 0) return;
  Duration length(static_cast<int64_t>(uv_hrtime() - turnBegan_));
  turnBegan_ = 0;
  ++turns_.count;
  turns_.lengths.observe(length);
  if (length > 1ms) ++turns_.overOneMs;
  if (length > turns_.longest) turns_.longest = length;
}

void EventPort::beginTurn() {
  noteWork();
  timers_.advanceTo(timePoint(uv_hrtime()));
  if (mail_ != nullptr) mail_->awake();
}

bool EventPort::wait() {
  endTurn();
  ++waits_;
  bool sleep = armTimer() && (mail_ == nullptr || mail_->maySleep());
  uv_run(&loop_, sleep ? UV_RUN_ONCE : UV_RUN_NOWAIT);
  beginTurn();
  return false;  // wake() is not offered: other threads use the mailbox
}

bool EventPort::poll() {
  endTurn();
  uv_run(&loop_, UV_RUN_NOWAIT);
  beginTurn();
  return false;
}

}  // namespace mq
