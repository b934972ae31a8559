#include "peer/connection.h"

namespace mq::peer {
namespace {

using capnp::rpc::twoparty::Side;

capnp::ReaderOptions limits(size_t messageBytesMax) {
  return {.traversalLimitInWords = messageBytesMax / sizeof(capnp::word), .nestingLimit = 16};
}

}  // namespace

Connection::Connection(Shard& shard, kj::Own<kj::AsyncIoStream> stream, size_t messageBytesMax)
    : stream_(kj::mv(stream)),
      network_(stream_, Side::CLIENT, limits(messageBytesMax), shard.timer()),
      rpc_(capnp::makeRpcClient(network_)) {}

Connection::Connection(Shard& shard, kj::Own<kj::AsyncIoStream> stream, size_t messageBytesMax,
                       capnp::Capability::Client interface, size_t unansweredBytesMax)
    : stream_(kj::mv(stream)),
      network_(stream_, Side::SERVER, limits(messageBytesMax), shard.timer()),
      rpc_(capnp::makeRpcServer(network_, kj::mv(interface))) {
  rpc_.setFlowLimit(unansweredBytesMax / sizeof(capnp::word));
}

capnp::Capability::Client Connection::interface() {
  capnp::MallocMessageBuilder message(8);
  auto server = message.initRoot<capnp::rpc::twoparty::VatId>();
  server.setSide(Side::SERVER);
  return rpc_.bootstrap(server);
}

}  // namespace mq::peer
