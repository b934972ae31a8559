#include "world.h"

#include <stdlib.h>

#include <filesystem>
#include <memory>

#include "runtime/uv/log.h"
#include "runtime/uv/node.h"
#include "sim_world.h"

namespace mq::parity {

void RealWorld::run(uint32_t shards, const Body& body) {
  std::string directory = (std::filesystem::temp_directory_path() / "mq-parity-XXXXXX").string();
  if (mkdtemp(directory.data()) == nullptr) throw std::runtime_error("cannot make " + directory);
  std::shared_ptr<void> removed(nullptr, [&](void*) {
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  });
  auto log = stderrLogger(LogLevel::error);
  UvNode node({.shards = shards, .seed = 1}, *log);
  node.run([&](Shard& first) { return body({.first = first, .directory = directory, .host = "127.0.0.1"}); });
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
