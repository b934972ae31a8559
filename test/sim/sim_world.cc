#include "sim_world.h"

namespace mq::sim {

namespace {

constexpr kj::uint kEventsPerBatch = 64;  // what a microsecond of virtual time is charged for

}  // namespace

SimWorld::SimWorld(WorldOptions options)
    : options_(options),
      random_(options.seed),
      loop_(options.stepsMax),
      events_(loop_),
      scope_(events_),
      network_(loop_, random_.fork(), options.network) {
  scope_.setBusyPollInterval(kEventsPerBatch);
}

SimWorld::~SimWorld() {
  for (auto& node : nodes_) node->kill();
}

SimNode& SimWorld::addNode() {
  auto id = static_cast<uint32_t>(nodes_.size() + 1);
  nodes_.push_back(std::make_unique<SimNode>(loop_, network_, id, random_.fork(), options_.node));
  return *nodes_.back();
}

kj::Promise<void> SimWorld::sleep(Duration duration) {
  return loop_.timer().atTime(kj::origin<kj::TimePoint>() +
                              static_cast<int64_t>((now() + duration).time_since_epoch().count()) * kj::NANOSECONDS);
}

void SimWorld::run(std::function<kj::Promise<void>()> test) { test().wait(scope_); }

}  // namespace mq::sim
