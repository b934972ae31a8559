#include "runtime/uv/pool.h"

#include <pthread.h>

namespace mq {

void WorkerPool::submit(Home& home, Task job, Task done) {
  std::lock_guard lock(mutex_);
  queue_.push_back({&home, std::move(job), std::move(done)});
  if (stopping_) return;
  if (idle_ >= queue_.size()) {
    wake_.notify_one();
  } else if (threads_.size() < threadsMax_) {
    threads_.emplace_back([this] { serve(); });
  }
}

void WorkerPool::serve() {
  pthread_setname_np(pthread_self(), name_.c_str());
  std::unique_lock lock(mutex_);
  for (;;) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (stopping_) return;
    Work work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work.job();
    work.job = nullptr;  // what it holds goes before the answer is known
    work.home->deliver(std::move(work.done));
    lock.lock();
  }
}

void WorkerPool::stop() {
  std::vector<std::thread> threads;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    threads.swap(threads_);
  }
  wake_.notify_all();
  for (auto& thread : threads) thread.join();
  for (auto& work : queue_) work.home->deliver(std::move(work.done));
  queue_.clear();
}

}  // namespace mq
