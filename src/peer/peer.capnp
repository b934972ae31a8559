# How two nodes get to know each other, and what they may ask.
#
# A connection begins with one bare message each way, Hello and Welcome; what follows is Cap'n Proto RPC, where the accepting side's
# bootstrap interface is Services, or on the replication channel Replication. So nobody who is not of the cluster ever gets that far.
@0xb94c07d85e21af36;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("mq::peer::schema");
using Raft = import "raft.capnp";
using Controller = import "controller.capnp";
using Coordinator = import "coordinator.capnp";

struct Hello {
  protocol @0 :UInt16;  # grows only when a node must not talk to an older one any more
  cluster @1 :Data;     # 16 bytes; empty: not of a cluster yet
  node @2 :Int32;
  directory @3 :Data;    # 16 bytes, each of these
  incarnation @4 :Data;  # drawn at each start
  wanted @5 :Int32;      # the node that the caller looks for; in a Welcome -1
  channel @6 :UInt8;     # Channel of identity.h
  version @7 :Text;      # for people
  shard @8 :Int32;       # replication: the wanted shard of the answering node; -1: only its Welcome is wanted
  callerShard @9 :Int32; # replication: the caller's own
  shards @10 :UInt32;    # how many the sender has
}

struct Welcome {
  union {
    accepted @0 :Hello;
    refused @1 :Text;  # why, in a sentence for the caller's log
  }
}

interface Services {
  ping @0 () -> ();
  raft @1 (message :Raft.RaftMessage) -> ();
  status @2 () -> (status :Controller.NodeStatus);
  join @3 (request :Controller.JoinRequest) -> (status :Controller.NodeStatus);
  ask @4 (request :Controller.Request) -> (answer :Controller.Answer);
  writeMarker @5 (request :Coordinator.MarkerRequest) -> (status :Controller.Status);
  mayEnter @6 (request :Coordinator.EntryRequest) -> (status :Controller.Status);
}
