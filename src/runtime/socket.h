// Stream, Listener, Network: sockets of one shard. Real: uv_poll_t (runtime/uv/). Fake, with delay, loss and
// partitions: test/sim/. A Stream is a kj::AsyncIoStream, so Cap'n Proto and kj-http run over it as they are.
//
// Dropping the promise of a read or write cancels it at once; the buffers are free from then on.
#pragma once
#include <kj/async-io.h>

#include "base/address.h"
#include "base/types.h"
#include "runtime/file.h"

namespace mq {

class Stream : public kj::AsyncIoStream {
 public:
  // Sends bytes [offset, offset + length) of the file without copying them through user space. Rejects as DISCONNECTED
  // when the peer is gone; a file shorter than asked rejects as FAILED and the stream must be closed (the peer has
  // been promised more bytes). The file outlives the promise: the caller keeps its FileRef.
  virtual kj::Promise<void> sendFile(const File& file, uint64_t offset, uint64_t length) = 0;
  // Bytes that can be had without waiting; 0: none now. False in *open once the peer has closed or the stream failed.
  // For parsing every whole frame before going back to the loop.
  virtual size_t readNow(MutableBytes into, bool* open) = 0;
  virtual const Address& peer() const = 0;   // numeric
  virtual const Address& local() const = 0;  // the address the peer reached: numeric
  virtual void cork(bool on) = 0;            // hold small writes back until uncorked (TCP_CORK)
  // Gives the connection away, for Network::adopt on another shard: no read or write is under way. What is left of the
  // stream may only be destroyed.
  virtual int release() = 0;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual kj::Promise<kj::Own<Stream>> accept() = 0;  // backs off by itself when descriptors run out
  // As accept(), but a connection that another shard will own: adopt it there with Network::adopt.
  virtual kj::Promise<int> acceptDescriptor() = 0;
  virtual const Address& local() const = 0;  // with the real port when 0 was asked
};

class Network {
 public:
  virtual ~Network() = default;
  // Throws (kj::Exception) naming address and reason, for instance a port in use.
  virtual kj::Own<Listener> listen(const Address& address) = 0;
  // As listen(), but clients are refused until the first accept(): the address is had early and served late.
  virtual kj::Own<Listener> reserve(const Address& address) = 0;
  virtual kj::Promise<kj::Own<Stream>> connect(const Address& address) = 0;
  // Takes ownership; from Listener::acceptDescriptor or Stream::release.
  virtual kj::Own<Stream> adopt(int descriptor) = 0;
};

// Whether connect() was refused by the host itself: it is alive, and nobody listens there.
bool isRefused(const kj::Exception& failedConnect);

}  // namespace mq
