# Messages of replica/replication.h: the replication channel, between a shard of a follower and a shard of its leader.
# Fields are only ever added. Topic ids are two numbers here, and lists have no pointers where they can do without: a
# request names thousands of partitions.
@0x9ad27c4be6130f58;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("mq::peer::schema");

interface Replication {
  ping @0 () -> ();
  follow @1 (request :FollowRequest) -> (response :FollowResponse);
  report @2 (reports :List(DurableReport)) -> ();
}

struct Place {
  topicHigh @0 :UInt64;
  topicLow @1 :UInt64;
  partition @2 :Int32;
  leaderEpoch @3 :Int32;
  from @4 :Int64;
  lastEpoch @5 :Int32;
  durable @6 :Int64;
  logStart @7 :Int64;
}

struct Dropped {
  topicHigh @0 :UInt64;
  topicLow @1 :UInt64;
  partition @2 :Int32;
}

struct FollowRequest {
  places @0 :List(Place);
  dropped @1 :List(Dropped);
  bytesMax @2 :UInt32;
  atMostUs @3 :UInt64;
}

struct DurableReport {
  topicHigh @0 :UInt64;
  topicLow @1 :UInt64;
  partition @2 :Int32;
  leaderEpoch @3 :Int32;
  durable @4 :Int64;
  logStart @5 :Int64;
}

struct Followed {
  topicHigh @0 :UInt64;
  topicLow @1 :UInt64;
  partition @2 :Int32;
  error @3 :Int16;  # Kafka's numbers
  leaderEpoch @4 :Int32;
  highWatermark @5 :Int64;
  logStart @6 :Int64;
  divergingEpoch @7 :Int32;
  divergingEnd @8 :Int64;
  bytes @9 :Data;
}

struct FollowResponse {
  partitions @0 :List(Followed);
}
