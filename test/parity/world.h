// The two worlds, behind one name: parity bodies run in both.
#pragma once
#include <functional>
#include <string>

#include "runtime/coro.h"
#include "runtime/shard.h"

namespace mq::parity {

struct Place {
  Shard& first;           // shard 0 of a node
  std::string directory;  // empty, and the body's own
  std::string host;       // where it may listen
  std::string operator/(const std::string& name) const { return directory + "/" + name; }
};

using Body = std::function<kj::Promise<void>(Place place)>;

struct RealWorld {
  static void run(uint32_t shards, const Body& body);
};
struct FakeWorld {
  static void run(uint32_t shards, const Body& body);
};

}  // namespace mq::parity
