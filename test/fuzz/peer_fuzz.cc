// What nodes say to each other, from the outside: a greeting, and a message of raft. Whatever comes, it is one, or an
// exception; memory stays in proportion to the bytes received.
#include <capnp/serialize.h>
#include <kj/async-io.h>

#include <cstring>

#include "base/check.h"
#include "fuzz.h"
#include "peer/handshake.h"
#include "peer/raft_messages.h"

namespace mq::fuzz {
namespace {

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

void message(Bytes input) {
  auto words = kj::heapArray<capnp::word>(input.size() / sizeof(capnp::word));
  std::memcpy(words.begin(), input.data(), words.asBytes().size());
  capnp::FlatArrayMessageReader reader(words, {.traversalLimitInWords = words.size() * 2 + 64, .nestingLimit = 16});
  raft::Message got = peer::read(reader.getRoot<peer::schema::RaftMessage>());
  raft::isSane(got, {});
  raft::show(got);
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  Bytes rest = input.subspan(1);
  kj::EventLoop loop;
  kj::WaitScope scope(loop);
  try {
    if (input.front() % 3 == 0) {
      Source source(rest);
      peer::hear(source).wait(scope);
    } else if (input.front() % 3 == 1) {
      Source source(rest);
      peer::greet(source, {}).wait(scope);
    } else {
      message(rest);
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
  peer::accept(welcome, self).wait(scope);
  peer::refuse(refusal, "this is node 2").wait(scope);
  add(0, hello.written);
  add(1, welcome.written);
  add(1, refusal.written);

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
  for (auto& body : bodies) {
    capnp::MallocMessageBuilder builder;
    peer::write(builder.initRoot<peer::schema::RaftMessage>(), {.from = one, .to = two, .term = 3, .body = body});
    auto words = capnp::messageToFlatArray(builder);
    add(2, Buffer(words.asBytes().begin(), words.asBytes().end()));
  }
  return seeds;
}

}  // namespace mq::fuzz
