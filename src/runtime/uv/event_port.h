// EventPort: a libuv loop under KJ's event loop. KJ runs its queue of events; when that is empty, or every so often
// (busy polling, see shard.cc), it asks here for news, and one uv_run tells it what sockets, timers and other threads
// brought. Callbacks of libuv only settle promises, so no code of ours runs inside uv_run but the system calls of
// streams.
//
// Timers are KJ's; one uv_timer_t stands for the earliest. Time is uv_hrtime() throughout: kj::Timer and Shard::now()
// count from the same zero.
//
// Handles live on the heap until libuv gives them back: close() with closeHandle(). Belongs to one thread, which may
// change between construction and the first wait.
#pragma once
#include <kj/async.h>
#include <kj/timer.h>
#include <uv.h>

#include "base/types.h"
#include "runtime/shard.h"

namespace mq {

class EventPort final : public kj::EventPort {
 public:
  // News that does not come through libuv. Asked with no lock held, on the loop's thread.
  class Mail {
   public:
    virtual bool maySleep() = 0;  // true: from now on, who has news must interrupt the sleep
    virtual void awake() = 0;     // news goes to KJ's queue; interrupting is no longer needed

   protected:
    ~Mail() = default;
  };

  EventPort();
  ~EventPort() noexcept(false);
  EventPort(const EventPort&) = delete;
  EventPort& operator=(const EventPort&) = delete;

  void setMail(Mail* mail) { mail_ = mail; }
  uv_loop_t* loop() { return &loop_; }
  kj::Timer& timer() { return timers_; }
  const TurnStats& turns() const { return turns_; }
  uint64_t waits() const { return waits_; }  // how often the loop went to sleep
  static Instant now() { return Instant(Duration(static_cast<int64_t>(uv_hrtime()))); }

  // Each callback from libuv says so first: a turn is measured from the first of them to the next wait.
  void noteWork() {
    if (turnBegan_ == 0) turnBegan_ = uv_hrtime();
  }

  void countReceived(size_t tasks) { turns_.tasksReceived += tasks; }

  bool wait() override;
  bool poll() override;

 private:
  void endTurn();
  void beginTurn();
  bool armTimer();  // false: a timer is due, do not sleep

  uv_loop_t loop_;
  uv_timer_t timer_;
  kj::TimerImpl timers_;
  Mail* mail_ = nullptr;
  kj::Maybe<kj::TimePoint> armedFor_;
  uint64_t turnBegan_ = 0;
  uint64_t waits_ = 0;
  TurnStats turns_;
};

// Closes a handle made with new; libuv forgets its descriptor at once, the memory goes when the loop has let go of it.
template <class Handle>
void closeHandle(Handle* handle) {
  handle->data = nullptr;
  uv_close(reinterpret_cast<uv_handle_t*>(handle), [](uv_handle_t* h) { delete reinterpret_cast<Handle*>(h); });
}

}  // namespace mq
