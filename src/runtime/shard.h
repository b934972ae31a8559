// Shard: one loop and the part of the world its code may touch. A shard is a thread with one libuv loop and shares no
// mutable state with another; in simulation all shards of all nodes take turns on one thread. Code above runtime/ gets
// its Shard in the constructor and uses no other clock, thread, socket, file or source of chance.
//
// Between shards: post() moves a task into the other's mailbox, drained in batches in the order of sending (per
// sender). call() is post() with an answer. What a task carries must be safe to use there: no promise, kj::Own or plain
// refcount crosses; raw pointers to another shard's objects may be carried and used only by tasks on that shard. A
// buffer is freed on its home shard.
//
// A node ends in this order: all its shards stop (no task, timer or socket runs any more), then shard by shard, the
// last first, what spawn() still holds is cancelled, tasks that never ran are destroyed, and the atEnd() tasks run. A
// simulated crash is the same, with a world that no longer answers.
#pragma once
#include <functional>
#include <type_traits>
#include <utility>

#include <kj/async.h>
#include <kj/timer.h>

#include "base/random.h"
#include "base/types.h"
#include "metrics/histogram.h"
#include "runtime/coro.h"
#include "runtime/file.h"
#include "runtime/logger.h"
#include "runtime/socket.h"

namespace mq {

using Task = std::move_only_function<void()>;  // must not throw

// Pools of threads for what must not run on a loop. Each has a bound of threads, shared by the shards of a node; its
// queue is bounded by what the senders allow themselves.
enum class Pool {
  sync,        // fsync and its kin
  read,        // cold reads, time look-ups
  compute,     // compression and checks of more than 64 KiB
  background,  // recovery, scrubbing, compaction, deletion
};

// A turn: what a loop does between two looks at the outside world.
struct TurnStats {
  uint64_t count = 0;
  uint64_t overOneMs = 0;
  Duration longest{0};
  metrics::Histogram lengths;
  uint64_t tasksReceived = 0;  // from other shards
};

class Shard;

namespace shard_detail {
template <class Fn>
decltype(auto) invokeOn(Fn& fn, Shard& there) {
  if constexpr (std::is_invocable_v<Fn&, Shard&>) {
    return fn(there);
  } else {
    return fn();
  }
}
template <class Fn>
using CallResult =
    kj::_::UnwrapPromise<kj::_::ReducePromises<decltype(invokeOn(std::declval<Fn&>(), std::declval<Shard&>()))>>;
}  // namespace shard_detail

class Shard {
 public:
  virtual ~Shard() noexcept(false) {}  // closing sockets may throw

  virtual uint32_t index() const = 0;
  virtual uint32_t count() const = 0;  // shards of this node
  virtual Instant now() const = 0;     // monotonic, at this moment
  virtual WallMs wallNow() const = 0;  // may jump in both directions
  virtual kj::Timer& timer() = 0;      // counts from the same zero as now(); its own now() is the turn's start
  virtual Prng& random() = 0;
  virtual Logger& log() = 0;
  virtual FileSystem& files() = 0;
  virtual Network& network() = 0;

  virtual void post(uint32_t shard, Task task) = 0;  // also to itself: runs in a later turn
  // Runs the job on a pool thread, then `done` in a turn of this shard. Jobs of one pool may run at the same time and
  // in any order. A job must not touch the shard; it owns, or shares by FileRef, whatever it uses.
  virtual void offload(Pool pool, Task job, Task done) = 0;

  // Owns the promise until it ends or the shard stops; a failure is logged. An object's own background work belongs
  // into its Tasks instead, so that it ends with the object.
  virtual void spawn(kj::Promise<void> task) = 0;
  // Runs the task on this shard's thread once every shard of the node has stopped, the latest first: where what was
  // built on this shard is destroyed.
  virtual void atEnd(Task task) = 0;
  virtual const TurnStats& turns() const = 0;

  // Resolves a moment after `wait` from now (never before).
  kj::Promise<void> after(Duration wait);
  // The job's result or exception, on this shard. Dropping the promise lets the job run to its end unobserved.
  template <class Job>
  auto run(Pool pool, Job job) -> kj::Promise<decltype(job())>;
  // fn() or fn(there) on the other shard, its result (or that of the promise it returns) or exception here. A plain
  // function makes no promise there. Dropping the promise lets fn run to its end unobserved. fn is destroyed at home.
  template <class Fn>
  auto call(uint32_t shard, Fn fn) -> kj::Promise<shard_detail::CallResult<Fn>>;
  // The promise, or a rejection as OVERLOADED ("deadline passed") and its cancellation after `limit`.
  template <class T>
  kj::Promise<T> within(Duration limit, kj::Promise<T> promise);

 protected:
  virtual Shard& at(uint32_t shard) = 0;  // another shard of this node: for tasks that run there
};

kj::Exception deadlinePassed();

}  // namespace mq

#include "runtime/shard_inl.h"
