# Messages of coordinator/remote.h. Fields are only ever added.
@0xd7a90e4c15b8f362;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("mq::peer::schema");

struct MarkerRequest {
  topicHigh @0 :UInt64;
  topicLow @1 :UInt64;
  partition @2 :Int32;
  producer @3 :Int64;
  producerEpoch @4 :Int16;
  coordinatorEpoch @5 :Int32;
  commits @6 :Bool;
  strict @7 :Bool;
}

struct EntryRequest {
  transactionalId @0 :Text;
  producer @1 :Int64;
  producerEpoch @2 :Int16;
  topic @3 :Text;
  partition @4 :Int32;
  adds @5 :Bool;
}
