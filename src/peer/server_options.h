// What bounds the answering side of every connection.
#pragma once
#include "base/types.h"
#include "peer/identity.h"

namespace mq::peer {

struct ServerOptions {
  Duration greetingTimeout = 3s;
  Duration idleTimeout = 15s;  // nothing heard, not even a ping: the caller counts as gone
  size_t connectionsMax = 256;
  size_t messageBytesMax = 24_MiB;     // of what is asked
  size_t unansweredBytesMax = 32_MiB;  // of one connection: beyond, no more is read
};

}  // namespace mq::peer
