// The bodies of Shard::run, call and within. Included by shard.h only.
#pragma once
#include <memory>
#include <optional>
#include <type_traits>

#include "runtime/shard.h"

namespace mq::shard_detail {

// What a function that runs elsewhere came to, and the promise at home that waits for it. The other thread fills it;
// only the home shard touches the waiter. Either may go first: the promise may be dropped, the outcome may be destroyed
// unsettled when the node stops.
template <class T>
class Outcome {
 public:
  using Value = kj::_::FixVoid<T>;

  class Waiter {
   public:
    Waiter(kj::PromiseFulfiller<T>& fulfiller, Outcome& outcome) : fulfiller_(fulfiller), outcome_(&outcome) {
      outcome.waiter_ = this;
    }
    ~Waiter() {
      if (outcome_ != nullptr) outcome_->waiter_ = nullptr;
    }

   private:
    friend class Outcome;
    kj::PromiseFulfiller<T>& fulfiller_;
    Outcome* outcome_;
  };

  Outcome() = default;
  Outcome(const Outcome&) = delete;
  Outcome& operator=(const Outcome&) = delete;
  ~Outcome() {
    if (waiter_ != nullptr) waiter_->outcome_ = nullptr;
  }

  template <class Fn>
  void fillFrom(Fn&& fn) noexcept {
    try {
      if constexpr (std::is_void_v<T>) {
        fn();
        value_.emplace();
      } else {
        value_.emplace(fn());
      }
    } catch (...) {
      exception_.emplace(caughtException());
    }
  }
  void fill(Value&& value) { value_.emplace(kj::mv(value)); }
  void fail(kj::Exception&& exception) { exception_.emplace(kj::mv(exception)); }

  void settle() {
    if (waiter_ == nullptr) return;
    Waiter& waiter = *std::exchange(waiter_, nullptr);
    waiter.outcome_ = nullptr;
    if (value_) {
      waiter.fulfiller_.fulfill(kj::mv(*value_));
    } else {
      waiter.fulfiller_.reject(kj::mv(*exception_));
    }
  }

 private:
  std::optional<Value> value_;
  std::optional<kj::Exception> exception_;
  Waiter* waiter_ = nullptr;
};

// A call on its way there and back, as one allocation.
template <class Fn, class T>
struct Call {
  Call(Fn&& function, Shard& target, uint32_t caller) : fn(std::move(function)), there(target), home(caller) {}
  Fn fn;
  Shard& there;
  uint32_t home;
  Outcome<T> outcome;

  static void goHome(std::unique_ptr<Call> call) {
    Shard& there = call->there;
    uint32_t home = call->home;
    there.post(home, [call = std::move(call)] { call->outcome.settle(); });
  }
  static Co<void> await(std::unique_ptr<Call> call) {
    try {
      if constexpr (std::is_void_v<T>) {
        co_await invokeOn(call->fn, call->there);
        call->outcome.fill({});
      } else {
        call->outcome.fill(co_await invokeOn(call->fn, call->there));
      }
    } catch (...) {
      call->outcome.fail(caughtException());
    }
    goHome(std::move(call));
  }
};

}  // namespace mq::shard_detail

namespace mq {

template <class Job>
auto Shard::run(Pool pool, Job job) -> kj::Promise<decltype(job())> {
  using T = decltype(job());
  struct Run {
    explicit Run(Job&& j) : job(std::move(j)) {}
    Job job;
    shard_detail::Outcome<T> outcome;
  };
  auto run = std::make_unique<Run>(std::move(job));
  Run& there = *run;
  auto promise = kj::newAdaptedPromise<T, typename shard_detail::Outcome<T>::Waiter>(run->outcome);
  offload(pool, [&there] { there.outcome.fillFrom(there.job); }, [run = std::move(run)] { run->outcome.settle(); });
  return promise;
}

template <class Fn>
auto Shard::call(uint32_t shard, Fn fn) -> kj::Promise<shard_detail::CallResult<Fn>> {
  using T = shard_detail::CallResult<Fn>;
  using Call = shard_detail::Call<Fn, T>;
  auto call = std::make_unique<Call>(std::move(fn), at(shard), index());
  auto promise = kj::newAdaptedPromise<T, typename shard_detail::Outcome<T>::Waiter>(call->outcome);
  post(shard, [call = std::move(call)]() mutable {
    Shard& there = call->there;
    if constexpr (std::is_same_v<decltype(shard_detail::invokeOn(call->fn, there)), T>) {
      call->outcome.fillFrom([&] { return shard_detail::invokeOn(call->fn, there); });
      Call::goHome(std::move(call));
    } else {
      there.spawn(Call::await(std::move(call)));
    }
  });
  return promise;
}

template <class T>
kj::Promise<T> Shard::within(Duration limit, kj::Promise<T> promise) {
  return promise.exclusiveJoin(after(limit).then([]() -> kj::Promise<T> { return kj::Exception(deadlinePassed()); }));
}

}  // namespace mq
