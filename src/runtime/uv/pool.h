// WorkerPool: threads for jobs that must not run on a loop. A thread starts when a job finds none idle, up to the
// bound, and then stays; an idle pool costs nothing. Shared by the shards of a node.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shard.h"

namespace mq {

class WorkerPool {
 public:
  // Brings `done` to where it has to run. Any thread.
  class Home {
   public:
    virtual void deliver(Task done) = 0;

   protected:
    ~Home() = default;
  };

  WorkerPool(std::string name, uint32_t threadsMax) : name_(std::move(name)), threadsMax_(threadsMax) {}
  ~WorkerPool() { stop(); }

  void submit(Home& home, Task job, Task done);  // any thread
  // Lets running jobs end and joins the threads. Jobs that did not start never will: their `done` is delivered unrun,
  // for the home to destroy.
  void stop();

 private:
  struct Work {
    Home* home;
    Task job;
    Task done;
  };
  void serve();

  const std::string name_;
  const uint32_t threadsMax_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Work> queue_;
  std::vector<std::thread> threads_;
  uint32_t idle_ = 0;
  bool stopping_ = false;
};

}  // namespace mq
