// LoadQueue: lets the partitions of a shard be read one after the other, so that what else the shard does waits for one
// of them at most. Belongs to one shard and outlives the tickets.
#pragma once
#include <deque>
#include <utility>

#include <kj/async.h>
#include <kj/common.h>

namespace mq::coordinator {

class LoadQueue {
 public:
  // A turn; it ends with the ticket.
  class Ticket {
   public:
    Ticket() = default;
    explicit Ticket(LoadQueue& queue) : queue_(&queue) {}
    Ticket(Ticket&& other) noexcept : queue_(std::exchange(other.queue_, nullptr)) {}
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(queue_, other.queue_);
      return *this;
    }
    ~Ticket() {
      if (queue_ != nullptr) queue_->leave();
    }

   private:
    LoadQueue* queue_ = nullptr;
  };

  LoadQueue() = default;
  KJ_DISALLOW_COPY(LoadQueue);

  kj::Promise<Ticket> enter() {
    if (!std::exchange(busy_, true)) return Ticket(*this);
    auto paf = kj::newPromiseAndFulfiller<Ticket>();
    waiting_.push_back(kj::mv(paf.fulfiller));
    return kj::mv(paf.promise);
  }

 private:
  void leave() {
    busy_ = false;
    while (!busy_ && !waiting_.empty()) {
      auto next = kj::mv(waiting_.front());
      waiting_.pop_front();
      if (!next->isWaiting()) continue;
      busy_ = true;
      next->fulfill(Ticket(*this));
    }
  }

  bool busy_ = false;
  std::deque<kj::Own<kj::PromiseFulfiller<Ticket>>> waiting_;
};

}  // namespace mq::coordinator
