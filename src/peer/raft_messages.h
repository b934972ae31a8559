// raft::Message as Cap'n Proto, both ways. Only for this folder: includes Cap'n Proto.
#pragma once
#include "peer/raft.capnp.h"
#include "raft/messages.h"

namespace mq::peer {

void write(schema::RaftMessage::Builder into, const raft::Message& message);
// Ranges are raft::isSane()'s business. Throws kj::Exception for what is no message at all, for instance of a kind that
// a newer node has.
raft::Message read(schema::RaftMessage::Reader message);

// What it costs on its way, roughly: for bounds.
size_t costOf(const raft::Message& message);
// Large ones go by the bulk channel.
bool isBulk(const raft::Message& message);

}  // namespace mq::peer
