// What coordinators ask of other nodes (coordinator/remote.h) as Cap'n Proto. Only for this folder: includes Cap'n
// Proto. Reading throws kj::Exception for a partition or an epoch of a coordinator that is none. Whether a producer is
// one is for the other side to say: a client may have named it.
#pragma once
#include "coordinator/remote.h"
#include "peer/coordinator.capnp.h"

namespace mq::peer {

void write(schema::MarkerRequest::Builder into, const coordinator::MarkerRequest& request);
coordinator::MarkerRequest read(schema::MarkerRequest::Reader request);

void write(schema::EntryRequest::Builder into, const coordinator::EntryRequest& request);
coordinator::EntryRequest read(schema::EntryRequest::Reader request);

}  // namespace mq::peer
