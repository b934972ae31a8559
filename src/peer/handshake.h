// The first message each way on a connection (peer.capnp): who calls whom, and whether they may talk. Every wait is the
// caller's to bound. Bytes that are no such message, or a peer that closes, are rejections that say so.
#pragma once
#include <kj/async-io.h>

#include "peer/identity.h"
#include "runtime/coro.h"

namespace mq::peer {

// Calls. What the answering side says of itself, or its refusal as a rejection. The stream outlives the promise.
Co<Greeting> greet(kj::AsyncIoStream& stream, Greeting greeting);
// Answers a call: what the caller said. Nothing is sent yet.
Co<Greeting> hear(kj::AsyncIoStream& stream);
Co<void> accept(kj::AsyncIoStream& stream, Identity self, uint32_t shards);
Co<void> refuse(kj::AsyncIoStream& stream, std::string reason);

}  // namespace mq::peer
