#include "runtime/uv/node.h"

#include <pthread.h>
#include <sys/random.h>

#include <csignal>
#include <optional>
#include <thread>

#include "base/check.h"
#include "runtime/uv/file_system.h"
#include "runtime/uv/uv_shard.h"

namespace mq {

namespace {

// KJ looks for I/O only when its queue is empty, unless told otherwise; then a busy shard would starve its timers.
// An event takes about 0.1 us and a look 1 us.
constexpr kj::uint kEventsBetweenPolls = 256;

uint32_t processors() {
  uint32_t count = std::thread::hardware_concurrency();
  return count == 0 ? 1 : count;
}

uint64_t entropy() {
  uint64_t seed = 0;
  ssize_t count = getrandom(&seed, sizeof seed, 0);
  MQ_CHECK(count == sizeof seed, count);
  return seed;
}

// Waits for either signal; the handlers are installed only while a promise waits.
class SignalWaiter {
 public:
  SignalWaiter(kj::PromiseFulfiller<int>& fulfiller, EventPort& port) : fulfiller_(fulfiller), port_(port) {
    for (size_t i = 0; i < 2; ++i) {
      handles_[i] = new uv_signal_t;
      uv_signal_init(port.loop(), handles_[i]);
      handles_[i]->data = this;
      uv_signal_start(
          handles_[i],
          [](uv_signal_t* handle, int number) {
            auto& self = *static_cast<SignalWaiter*>(handle->data);
            self.port_.noteWork();
            self.fulfiller_.fulfill(kj::mv(number));
          },
          i == 0 ? SIGINT : SIGTERM);
    }
  }
  ~SignalWaiter() {
    for (auto* handle : handles_) closeHandle(handle);
  }

 private:
  kj::PromiseFulfiller<int>& fulfiller_;
  EventPort& port_;
  uv_signal_t* handles_[2];
};

}  // namespace

UvNode::UvNode(UvNodeOptions options, Logger& log) : options_(options), log_(log), files_(realFileSystem()) {
  // sendfile has no flag to leave this signal out; every write checks for EPIPE anyway.
  std::signal(SIGPIPE, SIG_IGN);
  auto pool = [&](Pool which, const char* name, uint32_t threads) {
    pools_[static_cast<size_t>(which)] = std::make_unique<WorkerPool>(name, threads);
  };
  pool(Pool::sync, "mq-sync", options.syncThreads);
  pool(Pool::read, "mq-read", options.readThreads);
  pool(Pool::compute, "mq-compute", options.computeThreads == 0 ? processors() : options.computeThreads);
  pool(Pool::background, "mq-background", options.backgroundThreads);
  resolver_ = std::make_unique<WorkerPool>("mq-resolve", 2);

  Prng seeds(options.seed == 0 ? entropy() : options.seed);
  uint32_t count = options.shards == 0 ? processors() : options.shards;
  for (uint32_t i = 0; i < count; ++i) shards_.push_back(std::make_unique<UvShard>(*this, i, seeds.next()));
}

UvNode::~UvNode() = default;

void UvNode::run(Body body) {
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < shards_.size(); ++i) threads.emplace_back([this, i] { serve(i); });

  std::optional<kj::Exception> failure;
  {
    UvShard& first = *shards_[0];
    kj::WaitScope scope(first.loop());
    scope.setBusyPollInterval(kEventsBetweenPolls);
    try {
      kj::Promise<void> promise = body(first);
      promise.wait(scope);
    } catch (...) {
      failure.emplace(caughtException());
    }
    for (uint32_t i = 1; i < shards_.size(); ++i) shards_[i]->stop();
    arrive(0);
    first.end();
  }
  shards_[0] = nullptr;
  leave(0);
  for (auto& thread : threads) thread.join();
  if (failure) kj::throwFatalException(kj::mv(*failure));
}

void UvNode::serve(uint32_t index) {
  pthread_setname_np(pthread_self(), fmt::format("mq-shard-{}", index).c_str());
  {
    UvShard& shard = *shards_[index];
    kj::WaitScope scope(shard.loop());
    scope.setBusyPollInterval(kEventsBetweenPolls);
    shard.untilStopped().wait(scope);
    arrive(index);
    shard.end();
  }
  shards_[index] = nullptr;
  leave(index);
}

void UvNode::arrive(uint32_t index) {
  std::unique_lock lock(mutex_);
  ++stopped_;
  changed_.notify_all();
  if (index == 0) {
    changed_.wait(lock, [this] { return stopped_ == shards_.size(); });
    // Nothing submits work any more, and until the first shard goes its mailbox can take what jobs deliver.
    lock.unlock();
    for (auto& pool : pools_) pool->stop();
    resolver_->stop();
    lock.lock();
    turn_ = static_cast<int64_t>(shards_.size()) - 1;
    changed_.notify_all();
  }
  changed_.wait(lock, [this, index] { return turn_ == static_cast<int64_t>(index); });
}

void UvNode::leave(uint32_t index) {
  std::lock_guard lock(mutex_);
  turn_ = static_cast<int64_t>(index) - 1;
  changed_.notify_all();
}

kj::Promise<int> UvNode::signal() { return kj::newAdaptedPromise<int, SignalWaiter>(shards_[0]->port()); }

}  // namespace mq
