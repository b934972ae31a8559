# Messages of raft/messages.h. Fields are only ever added: nodes of the version before and of the next understand each other.
@0xd6b1f3a7c2905e84;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("mq::peer::schema");

struct RaftMessage {
  from @0 :Replica;
  to @1 :Replica;
  term @2 :Int64;
  body :union {
    voteRequest @3 :VoteRequest;
    voteReply @4 :VoteReply;
    append @5 :Append;
    appendReply @6 :AppendReply;
    heartbeat @7 :Heartbeat;
    heartbeatReply @8 :Int64;  # round
    installSnapshot @9 :InstallSnapshot;
    snapshotReply @10 :SnapshotReply;
    timeoutNow @11 :Void;
    removed @12 :Int64;  # index
  }
}

struct Replica {
  node @0 :Int32;
  directory @1 :Data;  # 16 bytes
}

struct Position {
  index @0 :Int64;
  term @1 :Int64;
}

struct Entry {
  term @0 :Int64;
  type @1 :UInt8;  # EntryType
  data @2 :Data;
}

struct Member {
  replica @0 :Replica;
  isVoter @1 :Bool;
}

struct SnapshotInfo {
  id @0 :Position;
  bytes @1 :UInt64;
  members @2 :List(Member);
}

struct VoteRequest {
  last @0 :Position;
  isPreVote @1 :Bool;
  isTransfer @2 :Bool;
}

struct VoteReply {
  isPreVote @0 :Bool;
  isGranted @1 :Bool;
}

struct Append {
  previous @0 :Position;
  entries @1 :List(Entry);  # the first one follows previous
  commit @2 :Int64;
}

struct AppendReply {
  index @0 :Int64;
  isAccepted @1 :Bool;
  hint @2 :Position;
}

struct Heartbeat {
  commit @0 :Int64;
  round @1 :Int64;
}

struct InstallSnapshot {
  snapshot @0 :SnapshotInfo;
  offset @1 :UInt64;
  chunk @2 :Data;
}

struct SnapshotReply {
  id @0 :Position;
  next @1 :UInt64;
}
