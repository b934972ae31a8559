#include "runtime/uv/uv_shard.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "base/check.h"

namespace mq {

UvShard::UvShard(UvNode& node, uint32_t index, uint64_t seed)
    : node_(node),
      index_(index),
      loop_(port_),
      drain_(*this, loop_),
      wakeUp_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      wakeUpPoll_(new uv_poll_t),
      random_(seed),
      network_(*this),
      spawned_(node.log_, "shard_task") {
  MQ_CHECK(wakeUp_ >= 0, errno);
  int failed = uv_poll_init(port_.loop(), wakeUpPoll_, wakeUp_);
  MQ_CHECK(failed == 0, failed);
  wakeUpPoll_->data = this;
  uv_poll_start(wakeUpPoll_, UV_READABLE, [](uv_poll_t* handle, int, int) {
    auto& self = *static_cast<UvShard*>(handle->data);
    self.port_.noteWork();
    uint64_t count;
    [[maybe_unused]] ssize_t got = ::read(self.wakeUp_, &count, sizeof count);  // only to clear it
  });
  port_.setMail(this);
}

UvShard::~UvShard() noexcept(false) {
  closeHandle(wakeUpPoll_);
  ::close(wakeUp_);
}

WallMs UvShard::wallNow() const {
  auto since = std::chrono::system_clock::now().time_since_epoch();
  return WallMs(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

void UvShard::post(uint32_t shard, Task task) {
  if (ended_) return;
  if (shard == index_) {
    own_.push_back(std::move(task));
    drain_.armBreadthFirst();
  } else {
    node_.shards_[shard]->deliver(std::move(task));
  }
}

void UvShard::deliver(Task task) {
  bool wake;
  {
    std::lock_guard lock(mutex_);
    mailbox_.push_back(std::move(task));
    wake = std::exchange(asleep_, false);
  }
  if (!wake) return;
  uint64_t one = 1;
  [[maybe_unused]] ssize_t wrote = ::write(wakeUp_, &one, sizeof one);  // fails only when it is set already
}

bool UvShard::maySleep() {
  std::lock_guard lock(mutex_);
  asleep_ = mailbox_.empty();
  return asleep_;
}

void UvShard::awake() {
  bool news;
  {
    std::lock_guard lock(mutex_);
    asleep_ = false;
    news = !mailbox_.empty();
  }
  if (news) drain_.armBreadthFirst();
}

void UvShard::drain() {
  // What these tasks post in turn makes the next batch, after the events that they cause.
  batch_.swap(own_);
  for (auto& task : batch_) task();
  batch_.clear();
  {
    std::lock_guard lock(mutex_);
    batch_.swap(mailbox_);
  }
  port_.countReceived(batch_.size());
  for (auto& task : batch_) task();
  batch_.clear();
}

void UvShard::offload(Pool pool, Task job, Task done) {
  node_.pools_[static_cast<size_t>(pool)]->submit(*this, std::move(job), std::move(done));
}

void UvShard::resolve(Task job, Task done) { node_.resolver_->submit(*this, std::move(job), std::move(done)); }

kj::Promise<void> UvShard::untilStopped() {
  auto pair = kj::newPromiseAndFulfiller<void>();
  stopped_ = kj::mv(pair.fulfiller);
  return kj::mv(pair.promise);
}

void UvShard::stop() {
  deliver([this] { stopped_->fulfill(); });
}

void UvShard::end() {
  ended_ = true;
  spawned_.cancelAll();
  {
    std::lock_guard lock(mutex_);
    batch_.swap(mailbox_);
  }
  batch_.clear();
  own_.clear();
  while (!atEnd_.empty()) {
    Task task = std::move(atEnd_.back());
    atEnd_.pop_back();
    task();
  }
  spawned_.cancelAll();
  stopped_ = nullptr;
}

}  // namespace mq
