// raft::Message as Cap'n Proto, both ways. Only for this folder: includes Cap'n Proto.
#pragma once
#include "peer/raft.capnp.h"
#include "raft/messages.h"

namespace mq::peer {

void write(schema::RaftMessage::Builder into, const raft::Message& message);
// Ranges are raft::isSane()'s business. Throws kj::Exception for what is no message at all, for instance of a kind that
// a newer node has.
raft::Message read(schema::RaftMessage::Reader message);

// Its parts, for messages of others. A directory id that has not 16 bytes throws.
void write(schema::Replica::Builder into, const raft::Replica& replica);
raft::Replica read(schema::Replica::Reader replica);
void write(capnp::List<schema::Member>::Builder into, const raft::Membership& members);
raft::Membership read(capnp::List<schema::Member>::Reader members);

// What it costs on its way, roughly: for bounds.
size_t costOf(const raft::Message& message);
// Large ones go by the bulk channel.
bool isBulk(const raft::Message& message);

}  // namespace mq::peer
