#include "world.h"

#include "../unit/test_directory.h"
#include "runtime/uv/log.h"
#include "runtime/uv/node.h"
#include "sim_world.h"

namespace mq::parity {

void RealWorld::run(uint32_t shards, const Body& body) {
  TestDirectory directory;
  auto log = stderrLogger(LogLevel::error);
  UvNode node({.shards = shards, .seed = 1}, *log);
  node.run([&](Shard& first) { return body({.first = first, .directory = directory.path(), .host = "127.0.0.1"}); });
}

void FakeWorld::run(uint32_t shards, const Body& body) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    sim::SimWorld world({.seed = seed});
    sim::SimNode& node = world.addNode();
    node.start(shards, [&](Shard& first) {
      first.files().makeDirectory("/data");
      return body({.first = first, .directory = "/data", .host = node.host()});
    });
    world.run([&] { return node.ended(); });
  }
}

}  // namespace mq::parity
