#include "broker/registration.h"

#include <kj/debug.h>

#include "runtime/coro.h"

namespace mq::broker {
namespace {

constexpr Duration kRetryEvery = 100ms;
constexpr Duration kRegisterWithin = 10s;
constexpr Duration kTellEvery = 5s;

bool isFinal(Error error) { return error == Error::inconsistentClusterId || error == Error::invalidRegistration; }

}  // namespace

Registration::Registration(Shard& shard, controller::Controller& controller, controller::BrokerRegistration broker,
                           std::optional<Duration> interval)
    : shard_(shard),
      controller_(controller),
      broker_(std::move(broker)),
      interval_(interval),
      tasks_(shard.log(), "heartbeat-failed") {}

kj::Promise<void> Registration::begin() {
  auto run = [](Registration& self) -> Co<void> {
    Instant tellAt = self.shard_.now();
    while (true) {
      auto answer = co_await self.controller_.ask(self.broker_, kRegisterWithin);
      if (answer) {
        self.epoch_ = std::get<controller::RegisteredBroker>(answer->response).epoch;
        break;
      }
      const Failure& why = answer.failure();
      if (isFinal(why.error) || !self.interval_)
        kj::throwFatalException(KJ_EXCEPTION(FAILED, "broker registration refused", why.message.c_str()));
      if (self.shard_.now() >= tellAt) {
        self.shard_.log().warning("not-registered-yet", "{}", why.message);
        tellAt = self.shard_.now() + kTellEvery;
      }
      co_await self.shard_.after(kRetryEvery);
    }
  };
  return run(*this);
}

kj::Promise<void> Registration::serve() {
  if (!interval_) return kj::READY_NOW;
  auto run = [](Registration& self) -> Co<void> {
    self.tasks_.add(self.beat());
    while (true) {
      auto state = co_await self.beatOnce(kRegisterWithin);
      if (state && !state->isFenced) break;
      co_await self.shard_.after(kRetryEvery);
    }
  };
  return run(*this);
}

Co<Result<controller::BrokerState>> Registration::beatOnce(Duration limit) {
  controller::BrokerHeartbeat beat{
      .id = broker_.id, .epoch = epoch_, .offset = controller_.image()->offset(), .wantsStop = wantsStop_};
  auto answer = co_await controller_.ask(beat, limit);
  if (!answer) co_return answer.failure();
  co_return std::get<controller::BrokerState>(answer->response);
}

Co<void> Registration::beat() {
  bool wasFenced = false;
  while (true) {
    co_await shard_.after(*interval_);
    if (wantsStop_) continue;  // leave() speaks
    auto state = co_await beatOnce(*interval_ * 4);
    if (state) {
      if (state->isFenced != std::exchange(wasFenced, state->isFenced))
        shard_.log().warning("broker-state", "broker {} {}", broker_.id,
                             state->isFenced ? "is fenced" : "is not fenced any more");
    } else if (state.errorCode() == Error::staleBrokerEpoch && !wantsStop_) {
      // Unregistered by hand, or a registration that the cluster has lost with its log.
      auto again = co_await controller_.ask(broker_, kRegisterWithin);
      if (again)
        epoch_ = std::get<controller::RegisteredBroker>(again->response).epoch;
      else
        shard_.log().warning("not-registered", "{}", again.failure().message);
    }
  }
}

kj::Promise<void> Registration::leave(Duration limit) {
  if (!interval_ || epoch_ < 0) return kj::READY_NOW;
  wantsStop_ = true;
  auto run = [](Registration& self, Duration limit) -> Co<void> {
    Instant end = self.shard_.now() + limit;
    while (self.shard_.now() < end) {
      auto state = co_await self.beatOnce(std::max<Duration>(end - self.shard_.now(), 1ms));
      if (state && state->mayStop) co_return;
      co_await self.shard_.after(kRetryEvery);
    }
    self.shard_.log().warning("leave-unanswered", "broker {} stops without having handed over what it leads",
                              self.broker_.id);
  };
  return run(*this, limit);
}

void Registration::stop() { tasks_.cancelAll(); }

}  // namespace mq::broker
