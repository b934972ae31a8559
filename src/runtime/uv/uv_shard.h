// UvShard: the parts of one shard, on one thread: the event loop, its mailbox, its network.
//
// Tasks from other threads come through the mailbox, a vector under a mutex. A loop that is at work looks there
// whenever it looks for I/O; only one that sleeps is woken, through an eventfd. (Not uv_async_t: its receiver spins
// until the sender has come back from its write, and on a busy machine the sender has just been descheduled.) A shard's
// posts to itself take no lock. All are drained, a batch at a time, by an event of the loop.
#pragma once
#include <mutex>
#include <vector>

#include "runtime/shard.h"
#include "runtime/tasks.h"
#include "runtime/uv/event_port.h"
#include "runtime/uv/network.h"
#include "runtime/uv/node.h"
#include "runtime/uv/pool.h"

namespace mq {

class UvShard final : public Shard, private WorkerPool::Home, private EventPort::Mail {
 public:
  UvShard(UvNode& node, uint32_t index, uint64_t seed);
  ~UvShard() noexcept(false);

  uint32_t index() const override { return index_; }
  uint32_t count() const override { return node_.shards(); }
  Instant now() const override { return EventPort::now(); }
  WallMs wallNow() const override;
  kj::Timer& timer() override { return port_.timer(); }
  Prng& random() override { return random_; }
  Logger& log() override { return node_.log_; }
  FileSystem& files() override { return *node_.files_; }
  Network& network() override { return network_; }
  void post(uint32_t shard, Task task) override;
  void offload(Pool pool, Task job, Task done) override;
  void spawn(kj::Promise<void> task) override { spawned_.add(kj::mv(task)); }
  void atEnd(Task task) override { atEnd_.push_back(std::move(task)); }
  const TurnStats& turns() const override { return port_.turns(); }

  EventPort& port() { return port_; }
  kj::EventLoop& loop() { return loop_; }
  void resolve(Task job, Task done);  // as offload(), for look-ups of names
  // Resolves when stop() is called, from any thread.
  kj::Promise<void> untilStopped();
  void stop();
  // After the loop's last turn, in its WaitScope: cancels, discards, and runs the atEnd() tasks.
  void end();

 protected:
  Shard& at(uint32_t shard) override { return *node_.shards_[shard]; }

 private:
  // Runs a batch of posted tasks as one event of the loop.
  class Drain final : public kj::_::Event {
   public:
    Drain(UvShard& shard, kj::EventLoop& loop) : Event(loop), shard_(shard) {}
    void traceEvent(kj::_::TraceBuilder&) override {}

   protected:
    kj::Maybe<kj::Own<kj::_::Event>> fire() override {
      shard_.drain();
      return nullptr;
    }

   private:
    UvShard& shard_;
  };

  void deliver(Task task) override;  // from other threads
  bool maySleep() override;
  void awake() override;
  void drain();

  UvNode& node_;
  const uint32_t index_;
  EventPort port_;
  kj::EventLoop loop_;
  Drain drain_;
  const int wakeUp_;  // eventfd
  uv_poll_t* const wakeUpPoll_;
  Prng random_;
  UvNetwork network_;

  std::mutex mutex_;
  std::vector<Task> mailbox_;  // under mutex_
  bool asleep_ = false;        // under mutex_: the next to deliver must wake the loop
  std::vector<Task> own_;      // posted by this shard
  std::vector<Task> batch_;    // being run; kept for its memory
  bool ended_ = false;

  kj::Own<kj::PromiseFulfiller<void>> stopped_;
  std::vector<Task> atEnd_;
  Tasks spawned_;
};

}  // namespace mq
