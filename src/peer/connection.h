// Connection: Cap'n Proto RPC over one stream, once the greeting is over. Only for this folder: includes Cap'n Proto.
// Bounded by the size of one message; what a peer sends beyond, or what is no message at all, ends it.
#pragma once
#include <capnp/rpc-twoparty.h>

#include "peer/buffered_stream.h"
#include "runtime/shard.h"

namespace mq::peer {

class Connection {
 public:
  // The calling side.
  Connection(Shard& shard, kj::Own<kj::AsyncIoStream> stream, size_t messageBytesMax);
  // The answering side. Beyond `unansweredBytesMax` of calls it reads no more.
  Connection(Shard& shard, kj::Own<kj::AsyncIoStream> stream, size_t messageBytesMax,
             capnp::Capability::Client interface, size_t unansweredBytesMax);
  KJ_DISALLOW_COPY(Connection);

  capnp::Capability::Client interface();  // of the answering side
  kj::Promise<void> onEnd() { return network_.onDisconnect(); }

 private:
  BufferedStream stream_;
  capnp::TwoPartyVatNetwork network_;
  capnp::RpcSystem<capnp::rpc::twoparty::VatId> rpc_;
};

}  // namespace mq::peer
