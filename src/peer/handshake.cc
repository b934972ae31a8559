#include "peer/handshake.h"

#include <capnp/message.h>
#include <capnp/serialize-async.h>
#include <kj/debug.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "peer/peer.capnp.h"

namespace mq::peer {
namespace {

constexpr uint16_t kProtocol = 1;
constexpr uint64_t kWordsMax = 512;  // 4 KiB: no stranger makes us allocate more
constexpr size_t kTextMax = 1000;
constexpr int32_t kShardsMax = 4096;  // of one node

kj::ArrayPtr<const kj::byte> bytesOf(const Uuid& id) { return kj::arrayPtr(id.bytes.data(), id.bytes.size()); }

Uuid uuidOf(capnp::Data::Reader data, const char* what) {
  KJ_REQUIRE(data.size() == 16, "a greeting whose id has not 16 bytes", what, data.size());
  Uuid id;
  std::memcpy(id.bytes.data(), data.begin(), 16);
  return id;
}

// Shown to people: what came from outside is cut and made printable.
std::string textOf(capnp::Text::Reader text) {
  std::string printable(text.cStr(), std::min(text.size(), kTextMax));
  for (char& c : printable)
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  return printable;
}

void write(schema::Hello::Builder into, const Greeting& greeting) {
  const Identity& identity = greeting.identity;
  into.setProtocol(kProtocol);
  if (identity.cluster) into.setCluster(bytesOf(*identity.cluster));
  into.setNode(identity.node.value());
  into.setDirectory(bytesOf(identity.directory));
  into.setIncarnation(bytesOf(identity.incarnation));
  into.setWanted(greeting.wanted.value());
  into.setChannel(static_cast<uint8_t>(greeting.channel));
  into.setVersion(identity.version);
  into.setShard(greeting.shard);
  into.setCallerShard(greeting.callerShard);
  into.setShards(greeting.shards);
}

Greeting read(schema::Hello::Reader hello) {
  KJ_REQUIRE(hello.getProtocol() == kProtocol, "the peer speaks another protocol between nodes", hello.getProtocol(),
             kProtocol);
  Greeting greeting;
  Identity& identity = greeting.identity;
  if (hello.getCluster().size() > 0) identity.cluster = uuidOf(hello.getCluster(), "cluster");
  identity.node = NodeId(hello.getNode());
  identity.directory = uuidOf(hello.getDirectory(), "directory");
  identity.incarnation = uuidOf(hello.getIncarnation(), "incarnation");
  identity.version = textOf(hello.getVersion());
  greeting.wanted = NodeId(hello.getWanted());
  KJ_REQUIRE(hello.getChannel() <= static_cast<uint8_t>(Channel::inquiry), "a channel that is not known",
             hello.getChannel());
  greeting.channel = static_cast<Channel>(hello.getChannel());
  greeting.shard = hello.getShard();
  greeting.callerShard = hello.getCallerShard();
  greeting.shards = std::max(hello.getShards(), 1u);
  KJ_REQUIRE(greeting.shard >= kNoShard && greeting.shard < kShardsMax && greeting.callerShard >= 0 &&
                 greeting.callerShard < kShardsMax && greeting.shards <= kShardsMax,
             "a shard that is none", greeting.shard, greeting.callerShard, greeting.shards);
  return greeting;
}

kj::Promise<kj::Own<capnp::MessageReader>> receive(kj::AsyncIoStream& stream) {
  return capnp::readMessage(stream, {.traversalLimitInWords = kWordsMax, .nestingLimit = 8});
}

}  // namespace

Co<Greeting> greet(kj::AsyncIoStream& stream, Greeting greeting) {
  capnp::MallocMessageBuilder message;
  write(message.initRoot<schema::Hello>(), greeting);
  co_await capnp::writeMessage(stream, message);
  auto answer = co_await receive(stream);
  auto welcome = answer->getRoot<schema::Welcome>();
  switch (welcome.which()) {
    case schema::Welcome::ACCEPTED: co_return read(welcome.getAccepted());
    case schema::Welcome::REFUSED:
      throw kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                          kj::str("refused: ", textOf(welcome.getRefused()).c_str()));
  }
  KJ_FAIL_REQUIRE("an answer to the greeting that is not known");
}

Co<Greeting> hear(kj::AsyncIoStream& stream) {
  auto message = co_await receive(stream);
  co_return read(message->getRoot<schema::Hello>());
}

Co<void> accept(kj::AsyncIoStream& stream, Identity self, uint32_t shards) {
  capnp::MallocMessageBuilder message;
  write(message.initRoot<schema::Welcome>().initAccepted(), {.identity = std::move(self), .shards = shards});
  co_await capnp::writeMessage(stream, message);
}

Co<void> refuse(kj::AsyncIoStream& stream, std::string reason) {
  capnp::MallocMessageBuilder message;
  message.initRoot<schema::Welcome>().setRefused(reason);
  co_await capnp::writeMessage(stream, message);
}

}  // namespace mq::peer
