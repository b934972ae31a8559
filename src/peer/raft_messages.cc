#include "peer/raft_messages.h"

#include <kj/debug.h>

#include <cstring>

namespace mq::peer {
namespace {

using peer::read;
using peer::write;

constexpr size_t kMessageBytes = 200;  // of one without entries

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

kj::ArrayPtr<const kj::byte> asData(Bytes bytes) { return kj::arrayPtr(bytes.data(), bytes.size()); }
Buffer asBuffer(capnp::Data::Reader bytes) { return Buffer(bytes.begin(), bytes.end()); }

void write(schema::Position::Builder into, raft::Position position) {
  into.setIndex(position.index);
  into.setTerm(position.term);
}
raft::Position read(schema::Position::Reader position) { return {position.getIndex(), position.getTerm()}; }

void write(schema::SnapshotInfo::Builder into, const raft::SnapshotInfo& snapshot) {
  write(into.initId(), snapshot.id);
  into.setBytes(snapshot.bytes);
  write(into.initMembers(static_cast<unsigned>(snapshot.members.members.size())), snapshot.members);
}
raft::SnapshotInfo read(schema::SnapshotInfo::Reader snapshot) {
  return {.id = read(snapshot.getId()), .bytes = snapshot.getBytes(), .members = read(snapshot.getMembers())};
}

void write(schema::Append::Builder into, const raft::Append& append) {
  write(into.initPrevious(), append.previous);
  into.setCommit(append.commit);
  auto entries = into.initEntries(static_cast<unsigned>(append.entries.size()));
  for (unsigned i = 0; i < entries.size(); ++i) {
    const raft::Entry& entry = append.entries[i];
    entries[i].setTerm(entry.term);
    entries[i].setType(static_cast<uint8_t>(entry.type));
    entries[i].setData(asData(entry.data));
  }
}
raft::Append read(schema::Append::Reader append) {
  raft::Append result{.previous = read(append.getPrevious()), .entries = {}, .commit = append.getCommit()};
  int64_t index = result.previous.index;
  KJ_REQUIRE(index >= 0 && index < INT64_MAX - UINT32_MAX, "an index that is out of range", index);
  for (auto entry : append.getEntries()) {
    KJ_REQUIRE(entry.getType() <= static_cast<uint8_t>(raft::EntryType::membership), "an entry of an unknown type",
               entry.getType());
    result.entries.push_back({.index = ++index,
                              .term = entry.getTerm(),
                              .type = static_cast<raft::EntryType>(entry.getType()),
                              .data = asBuffer(entry.getData())});
  }
  return result;
}

}  // namespace

void write(schema::Replica::Builder into, const raft::Replica& replica) {
  into.setNode(replica.id.value());
  into.setDirectory(asData(replica.directory.bytes));
}
raft::Replica read(schema::Replica::Reader replica) {
  capnp::Data::Reader directory = replica.getDirectory();
  KJ_REQUIRE(directory.size() == 16, "a directory id that has not 16 bytes", directory.size());
  raft::Replica result{.id = NodeId(replica.getNode()), .directory = {}};
  std::memcpy(result.directory.bytes.data(), directory.begin(), 16);
  return result;
}

void write(capnp::List<schema::Member>::Builder into, const raft::Membership& members) {
  for (unsigned i = 0; i < into.size(); ++i) {
    write(into[i].initReplica(), members.members[i].replica);
    into[i].setIsVoter(members.members[i].isVoter);
  }
}
raft::Membership read(capnp::List<schema::Member>::Reader members) {
  raft::Membership result;
  for (auto member : members)
    result.members.push_back({.replica = read(member.getReplica()), .isVoter = member.getIsVoter()});
  return result;
}

void write(schema::RaftMessage::Builder into, const raft::Message& message) {
  write(into.initFrom(), message.from);
  write(into.initTo(), message.to);
  into.setTerm(message.term);
  auto body = into.initBody();
  std::visit(Overloaded{
                 [&](const raft::VoteRequest& request) {
                   auto vote = body.initVoteRequest();
                   write(vote.initLast(), request.last);
                   vote.setIsPreVote(request.isPreVote);
                   vote.setIsTransfer(request.isTransfer);
                 },
                 [&](const raft::VoteReply& reply) {
                   auto vote = body.initVoteReply();
                   vote.setIsPreVote(reply.isPreVote);
                   vote.setIsGranted(reply.isGranted);
                 },
                 [&](const raft::Append& append) { write(body.initAppend(), append); },
                 [&](const raft::AppendReply& reply) {
                   auto answer = body.initAppendReply();
                   answer.setIndex(reply.index);
                   answer.setIsAccepted(reply.isAccepted);
                   write(answer.initHint(), reply.hint);
                 },
                 [&](const raft::Heartbeat& beat) {
                   auto heartbeat = body.initHeartbeat();
                   heartbeat.setCommit(beat.commit);
                   heartbeat.setRound(beat.round);
                 },
                 [&](const raft::HeartbeatReply& reply) { body.setHeartbeatReply(reply.round); },
                 [&](const raft::InstallSnapshot& install) {
                   auto snapshot = body.initInstallSnapshot();
                   write(snapshot.initSnapshot(), install.snapshot);
                   snapshot.setOffset(install.offset);
                   snapshot.setChunk(asData(install.chunk));
                 },
                 [&](const raft::SnapshotReply& reply) {
                   auto answer = body.initSnapshotReply();
                   write(answer.initId(), reply.id);
                   answer.setNext(reply.next);
                 },
                 [&](const raft::TimeoutNow&) { body.setTimeoutNow(); },
                 [&](const raft::Removed& removed) { body.setRemoved(removed.index); },
             },
             message.body);
}

raft::Message read(schema::RaftMessage::Reader message) {
  raft::Message result{
      .from = read(message.getFrom()), .to = read(message.getTo()), .term = message.getTerm(), .body = {}};
  auto body = message.getBody();
  using Body = schema::RaftMessage::Body;
  switch (body.which()) {
    case Body::VOTE_REQUEST: {
      auto vote = body.getVoteRequest();
      result.body = raft::VoteRequest{
          .last = read(vote.getLast()), .isPreVote = vote.getIsPreVote(), .isTransfer = vote.getIsTransfer()};
      return result;
    }
    case Body::VOTE_REPLY: {
      auto vote = body.getVoteReply();
      result.body = raft::VoteReply{.isPreVote = vote.getIsPreVote(), .isGranted = vote.getIsGranted()};
      return result;
    }
    case Body::APPEND: result.body = read(body.getAppend()); return result;
    case Body::APPEND_REPLY: {
      auto reply = body.getAppendReply();
      result.body = raft::AppendReply{
          .index = reply.getIndex(), .isAccepted = reply.getIsAccepted(), .hint = read(reply.getHint())};
      return result;
    }
    case Body::HEARTBEAT: {
      auto beat = body.getHeartbeat();
      result.body = raft::Heartbeat{.commit = beat.getCommit(), .round = beat.getRound()};
      return result;
    }
    case Body::HEARTBEAT_REPLY: result.body = raft::HeartbeatReply{body.getHeartbeatReply()}; return result;
    case Body::INSTALL_SNAPSHOT: {
      auto install = body.getInstallSnapshot();
      result.body = raft::InstallSnapshot{.snapshot = read(install.getSnapshot()),
                                          .offset = install.getOffset(),
                                          .chunk = asBuffer(install.getChunk())};
      return result;
    }
    case Body::SNAPSHOT_REPLY: {
      auto reply = body.getSnapshotReply();
      result.body = raft::SnapshotReply{.id = read(reply.getId()), .next = reply.getNext()};
      return result;
    }
    case Body::TIMEOUT_NOW: result.body = raft::TimeoutNow{}; return result;
    case Body::REMOVED: result.body = raft::Removed{body.getRemoved()}; return result;
  }
  KJ_FAIL_REQUIRE("a message of a kind that is not known");
}

size_t costOf(const raft::Message& message) {
  size_t bytes = kMessageBytes;
  if (auto* append = std::get_if<raft::Append>(&message.body)) {
    for (const raft::Entry& entry : append->entries) bytes += raft::costOf(entry);
  } else if (auto* install = std::get_if<raft::InstallSnapshot>(&message.body)) {
    bytes += install->chunk.size() + install->snapshot.members.members.size() * sizeof(raft::Member);
  }
  return bytes;
}

bool isBulk(const raft::Message& message) {
  return std::holds_alternative<raft::Append>(message.body) ||
         std::holds_alternative<raft::InstallSnapshot>(message.body);
}

}  // namespace mq::peer
