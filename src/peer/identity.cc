#include "peer/identity.h"

#include <fmt/format.h>

namespace mq::peer {
namespace {

bool differ(const std::optional<Uuid>& a, const std::optional<Uuid>& b) { return a && b && *a != *b; }

}  // namespace

std::optional<std::string> refusalOf(const Identity& self, const Greeting& greeting) {
  const Identity& caller = greeting.identity;
  if (caller.node.value() < 0) return fmt::format("node id {} is not one", caller.node);
  if (differ(self.cluster, caller.cluster)) {
    return fmt::format("node {} here is of cluster {}, node {} is of cluster {}", self.node, *self.cluster, caller.node,
                       *caller.cluster);
  }
  if (greeting.wanted != kNoNode && greeting.wanted != self.node)
    return fmt::format("this is node {}, not node {}: look at controllers and peer.listen", self.node, greeting.wanted);
  if (caller.incarnation == self.incarnation) return fmt::format("node {} calls itself", self.node);
  if (caller.node == self.node) {
    return fmt::format("node id {} is taken by the node that was called (directory {}, the caller's is {})", self.node,
                       self.directory, caller.directory);
  }
  return std::nullopt;
}

std::optional<std::string> mismatch(const Identity& self, NodeId wanted, const Identity& reached) {
  if (wanted != kNoNode && reached.node != wanted)
    return fmt::format("node {} is there, not node {}: look at controllers and peer.listen", reached.node, wanted);
  if (differ(self.cluster, reached.cluster))
    return fmt::format("node {} is of cluster {}, not of {}", reached.node, *reached.cluster, *self.cluster);
  return std::nullopt;
}

}  // namespace mq::peer
