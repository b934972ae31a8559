// What a follower and its leader say (replica/replication.h) as Cap'n Proto. Only for this folder: includes Cap'n
// Proto. Reading throws kj::Exception for what is no message: numbers out of range, lists of more than a million items.
#pragma once
#include "peer/replication.capnp.h"
#include "replica/replication.h"

namespace mq::peer {

inline constexpr uint32_t kFollowBytesMax = 64 << 20;  // of one answer; a single batch may be more
inline constexpr Duration kFollowMax = 60s;            // that a request may wait for news

void write(schema::FollowRequest::Builder into, const replica::FollowRequest& request);
replica::FollowRequest read(schema::FollowRequest::Reader request);  // within the bounds above

// Without the bytes: who answers puts them there.
void write(schema::Followed::Builder into, const replica::Followed& followed);
// `bytes` of the partitions lie in the message, which must be the caller's alone: it may change them.
std::vector<replica::Followed> read(schema::FollowResponse::Reader response);

void write(capnp::List<schema::DurableReport>::Builder into, const std::vector<replica::DurableReport>& reports);
std::vector<replica::DurableReport> read(capnp::List<schema::DurableReport>::Reader reports);

}  // namespace mq::peer
