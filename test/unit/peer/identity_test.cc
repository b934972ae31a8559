#include "peer/identity.h"

#include <doctest/doctest.h>

#include "base/random.h"

using namespace mq;
using namespace mq::peer;

namespace {

Uuid id(uint64_t n) { return Uuid::fromHalves(n, n); }
Identity node(int32_t number, std::optional<Uuid> cluster = id(1)) {
  return {.cluster = cluster,
          .node = NodeId(number),
          .directory = id(100 + static_cast<uint64_t>(number)),
          .incarnation = id(200 + static_cast<uint64_t>(number)),
          .version = "1"};
}
std::string why(const Identity& self, const Identity& caller, int32_t wanted = -1) {
  return refusalOf(self, {.identity = caller, .wanted = NodeId(wanted)}).value_or("");
}

}  // namespace

TEST_CASE("identity: who is refused, and the reason that a person reads") {
  CHECK(why(node(1), node(2)) == "");
  CHECK(why(node(1), node(2), 1) == "");
  CHECK(why(node(1), node(2), 3) == "this is node 1, not node 3: look at controllers and peer.listen");
  CHECK(why(node(1), node(2, id(9))).starts_with("node 1 here is of cluster "));
  CHECK(why(node(1), node(-1)) == "node id -1 is not one");
  CHECK(why(node(1), node(1)) == "node 1 calls itself");
  Identity twin = node(1);
  twin.incarnation = id(7);
  CHECK(why(node(1), twin).starts_with("node id 1 is taken by the node that was called"));
}

TEST_CASE("identity: a node that is of no cluster yet talks to everybody") {
  CHECK(why(node(1, std::nullopt), node(2)) == "");
  CHECK(why(node(1), node(2, std::nullopt)) == "");
  CHECK(why(node(1, std::nullopt), node(2, std::nullopt)) == "");
}

TEST_CASE("identity: whom the caller does not stay with") {
  CHECK_FALSE(mismatch(node(1), NodeId(2), node(2)));
  CHECK_FALSE(mismatch(node(1), kNoNode, node(5)));
  CHECK(mismatch(node(1), NodeId(2), node(3)).value().starts_with("node 3 is there, not node 2"));
  CHECK(mismatch(node(1), NodeId(2), node(2, id(9))).value().find("is of cluster") != std::string::npos);
}
