// Registration: this broker's place in its cluster: it registers, says regularly that it lives, and takes its leave. On
// shard 0.
//
//   begin() -> registered, fenced -> (logs are recovered) -> serve(): heartbeats, alive ... -> leave(): leads nothing
//   any more -> stop()
#pragma once
#include <kj/async.h>

#include "controller/controller.h"
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::broker {

class Registration {
 public:
  // Without an interval no heartbeats: the cluster is this node. `controller` outlives it.
  Registration(Shard& shard, controller::Controller& controller, controller::BrokerRegistration broker,
               std::optional<Duration> interval);
  KJ_DISALLOW_COPY(Registration);

  // Resolves when the controller has registered it and this node's image shows it. Tries as long as it takes; rejects
  // when it never will.
  kj::Promise<void> begin();
  // Resolves when the controller counts it as alive: it may lead from now on.
  kj::Promise<void> serve();
  // Resolves when what it led is led by others, as far as there are any, or when `limit` has passed.
  kj::Promise<void> leave(Duration limit);
  void stop();
  int64_t epoch() const { return epoch_; }

 private:
  Co<void> beat();
  Co<Result<controller::BrokerState>> beatOnce(Duration limit);

  Shard& shard_;
  controller::Controller& controller_;
  const controller::BrokerRegistration broker_;
  const std::optional<Duration> interval_;
  int64_t epoch_ = -1;
  bool wantsStop_ = false;
  Tasks tasks_;
};

}  // namespace mq::broker
