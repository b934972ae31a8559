// What nodes say to each other, from the outside: a greeting, messages of raft, of the controller, of coordinators and
// of replication. Whatever comes, it is one, or an exception; memory stays in proportion to the bytes received.
#include <capnp/serialize.h>
#include <kj/async-io.h>

#include <cstring>

#include "../unit/peer/controller_samples.h"
#include "base/check.h"
#include "fuzz.h"
#include "peer/controller_messages.h"
#include "peer/coordinator_messages.h"
#include "peer/handshake.h"
#include "peer/raft_messages.h"
#include "peer/replication_messages.h"

namespace mq::fuzz {
namespace {

namespace schema = peer::schema;

// Gives the bytes, then the end.
class Source final : public kj::AsyncIoStream {
 public:
  explicit Source(Bytes bytes) : bytes_(bytes) {}
  kj::Promise<size_t> tryRead(void* buffer, size_t, size_t maxBytes) override {
    MQ_CHECK(maxBytes <= 64 << 10, maxBytes);  // as much as it made room for
    size_t count = std::min(maxBytes, bytes_.size());
    if (count > 0) std::memcpy(buffer, bytes_.data(), count);
    bytes_ = bytes_.subspan(count);
    return count;
  }
  kj::Promise<void> write(const void* buffer, size_t size) override {
    auto* from = static_cast<const uint8_t*>(buffer);
    written.insert(written.end(), from, from + size);
    return kj::READY_NOW;
  }
  kj::Promise<void> write(kj::ArrayPtr<const kj::ArrayPtr<const kj::byte>> pieces) override {
    for (const auto& piece : pieces) written.insert(written.end(), piece.begin(), piece.end());
    return kj::READY_NOW;
  }
  kj::Promise<void> whenWriteDisconnected() override { return kj::NEVER_DONE; }
  void shutdownWrite() override {}

  Buffer written;

 private:
  Bytes bytes_;
};

enum Kind : uint8_t {
  kHello,
  kWelcome,
  kRaft,
  kRequest,
  kAnswer,
  kStatus,
  kJoin,
  kFollow,
  kFollowed,
  kReports,
  kMarker,
  kEntry,
  kKinds
};

template <class Schema, class Look>
void message(Bytes input, Look look) {
  auto words = kj::heapArray<capnp::word>(input.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), input.data(), words.asBytes().size());
  capnp::FlatArrayMessageReader reader(words, {.traversalLimitInWords = words.size() * 2 + 64, .nestingLimit = 16});
  look(reader.getRoot<Schema>());
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  Bytes rest = input.subspan(1);
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  try {
    switch (input.front() % kKinds) {
      case kHello: {
        Source source(rest);
        peer::hear(source).wait(scope);
        break;
      }
      case kWelcome: {
        Source source(rest);
        peer::greet(source, {}).wait(scope);
        break;
      }
      case kRaft:
        message<schema::RaftMessage>(rest, [](auto root) {
          raft::Message got = peer::read(root);
          raft::isSane(got, {});
          raft::show(got);
        });
        break;
      case kRequest: message<schema::Request>(rest, [](auto root) { peer::read(root); }); break;
      case kAnswer: message<schema::Answer>(rest, [](auto root) { (void)peer::read(root); }); break;
      case kStatus: message<schema::NodeStatus>(rest, [](auto root) { peer::read(root); }); break;
      case kJoin: message<schema::JoinRequest>(rest, [](auto root) { peer::read(root); }); break;
      case kFollow: message<schema::FollowRequest>(rest, [](auto root) { peer::read(root); }); break;
      case kFollowed:
        message<schema::FollowResponse>(rest, [](auto root) {
          for (auto& followed : peer::read(root))
            for (uint8_t& byte : followed.bytes) byte = 0;
        });
        break;
      case kMarker: message<schema::MarkerRequest>(rest, [](auto root) { peer::read(root); }); break;
      case kEntry: message<schema::EntryRequest>(rest, [](auto root) { peer::read(root); }); break;
      default:
        message<schema::Replication::ReportParams>(rest, [](auto root) { peer::read(root.getReports()); });
        break;
    }
  } catch (const kj::Exception&) {
  }
}

std::vector<Buffer> fuzzSeeds() {
  std::vector<Buffer> seeds;
  auto add = [&](uint8_t kind, const Buffer& bytes) {
    seeds.push_back({kind});
    seeds.back().insert(seeds.back().end(), bytes.begin(), bytes.end());
  };
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  const peer::Identity self{.cluster = Uuid::fromHalves(1, 2),
                            .node = NodeId(3),
                            .directory = Uuid::fromHalves(4, 5),
                            .incarnation = Uuid::fromHalves(6, 7),
                            .version = "1.0"};
  Source hello({}), welcome({}), refusal({});
  auto greeting = peer::greet(hello, {.identity = self, .wanted = NodeId(1), .channel = peer::Channel::bulk});
  greeting.poll(scope);
  peer::accept(welcome, self, 2).wait(scope);
  peer::refuse(refusal, "this is node 2").wait(scope);
  add(kHello, hello.written);
  add(kWelcome, welcome.written);
  add(kWelcome, refusal.written);

  const raft::Replica one{NodeId(1), Uuid::fromHalves(1, 1)}, two{NodeId(2), Uuid::fromHalves(2, 2)};
  const raft::SnapshotInfo snapshot{.id = {9, 2}, .bytes = 20, .members = {{{one, true}, {two, false}}}};
  std::vector<decltype(raft::Message::body)> bodies = {
      raft::VoteRequest{.last = {5, 2}, .isPreVote = true},
      raft::Append{.previous = {5, 2},
                   .entries = {{.index = 6, .term = 3, .type = raft::EntryType::records, .data = Buffer(40)},
                               {.index = 7, .term = 3, .type = raft::EntryType::noop, .data = {}}},
                   .commit = 5},
      raft::AppendReply{.index = 7, .isAccepted = true},
      raft::Heartbeat{.commit = 5, .round = 8},
      raft::InstallSnapshot{.snapshot = snapshot, .offset = 0, .chunk = Buffer(20)},
      raft::SnapshotReply{{9, 2}, 20},
      raft::Removed{4}};
  auto addMessage = [&](Kind kind, auto write) {
    capnp::MallocMessageBuilder builder;
    write(builder);
    auto words = capnp::messageToFlatArray(builder);
    add(kind, Buffer(words.asBytes().begin(), words.asBytes().end()));
  };
  for (auto& body : bodies) {
    addMessage(kRaft, [&](auto& builder) {
      peer::write(builder.template initRoot<schema::RaftMessage>(), {.from = one, .to = two, .term = 3, .body = body});
    });
  }

  peer::ControllerSamples samples(1);
  for (size_t kind = 0; kind < samples.kRequests; ++kind) {
    addMessage(kRequest, [&](auto& builder) {
      peer::write(builder.template initRoot<schema::Request>(), samples.request(kind));
    });
  }
  for (size_t kind = 0; kind < samples.kResponses; ++kind) {
    addMessage(kAnswer, [&](auto& builder) {
      controller::Answered answered{.offset = 5, .response = samples.response(kind)};
      peer::write(builder.template initRoot<schema::Answer>(), Result<controller::Answered>(answered));
    });
  }
  addMessage(kAnswer, [&](auto& builder) {
    peer::write(builder.template initRoot<schema::Answer>(), Result<controller::Answered>(samples.failure()));
  });
  addMessage(kStatus, [&](auto& builder) {
    peer::write(builder.template initRoot<schema::NodeStatus>(), samples.nodeStatus());
  });
  addMessage(kJoin, [&](auto& builder) {
    peer::write(builder.template initRoot<schema::JoinRequest>(), samples.joinRequest());
  });

  const TopicIdPartition partition{Uuid::fromHalves(1, 2), 3};
  addMessage(kFollow, [&](auto& builder) {
    peer::write(builder.template initRoot<schema::FollowRequest>(),
                {.places = {{.id = partition, .leaderEpoch = LeaderEpoch(4), .from = Offset(5)}},
                 .dropped = {partition},
                 .bytesMax = 1000,
                 .atMost = 1s});
  });
  addMessage(kFollowed, [&](auto& builder) {
    auto partitions = builder.template initRoot<schema::FollowResponse>().initPartitions(2);
    peer::write(partitions[0], {.id = partition, .leaderEpoch = LeaderEpoch(4), .highWatermark = Offset(5)});
    partitions[0].initBytes(30);
    peer::write(partitions[1], {.id = partition, .error = Error::fencedLeaderEpoch});
  });
  addMessage(kReports, [&](auto& builder) {
    peer::write(builder.template initRoot<schema::Replication::ReportParams>().initReports(1),
                {{partition, LeaderEpoch(4), Offset(5)}});
  });
  addMessage(kMarker, [&](auto& builder) {
    peer::write(builder.template initRoot<schema::MarkerRequest>(),
                {.partition = partition, .marker = {{ProducerId(5), 6}, 7, true}, .strict = true});
  });
  addMessage(kEntry, [&](auto& builder) {
    peer::write(builder.template initRoot<schema::EntryRequest>(),
                {.transactionalId = "txn", .producer = {ProducerId(5), 6}, .partition = {"t", 3}, .adds = true});
  });
  return seeds;
}

}  // namespace mq::fuzz
