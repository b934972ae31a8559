// Every request codec, behind its header: key and version in it choose the codec. The byte in front chooses between
// request and response, for the thin client reads what any cluster sends.
// What decodes must encode, and that must decode to the same again.
#include "base/check.h"
#include "fuzz.h"
#include "wire/apis.h"
#include "wire/framing.h"
#include "wire/messages.h"

namespace mq::fuzz {
namespace {

using namespace wire;

const Message* find(MessageKind kind, int16_t key) {
  for (const Message* message : allMessages()) {
    if (message->kind == kind && message->number == key) return message;
  }
  return nullptr;
}

struct Any {
  explicit Any(const Message& descriptor) : descriptor(descriptor), message(descriptor.create()) {}
  ~Any() { descriptor.destroy(message); }
  const Message& descriptor;
  void* message;
};

void roundTrip(const Message& descriptor, ByteReader& reader, int16_t version) {
  size_t before = reader.left();
  Any first(descriptor);
  if (!decodeInto(descriptor, reader, version, first.message)) return;
  MQ_CHECK(before - reader.left() >= descriptor.body.bytesMin[version - descriptor.versions.first], descriptor.name);

  Buffer bytes;
  auto encoded = encodeFrom(descriptor, first.message, version, bytes, nullptr);
  MQ_CHECK(encoded, descriptor.name, version, encoded.failure().message);

  Any second(descriptor);
  ByteReader again(bytes);
  auto decoded = decodeInto(descriptor, again, version, second.message);
  MQ_CHECK(decoded, descriptor.name, version, decoded.failure().message);
  MQ_CHECK(again.atEnd(), descriptor.name, version);
  MQ_CHECK(describe(descriptor, first.message, version) == describe(descriptor, second.message, version),
           descriptor.name, version);
}

// Something in every field: one element per array, no null, an unknown tag in every struct.
void fill(const Message& message, int16_t version, const Structure& structure, void* object) {
  auto* bytes = static_cast<uint8_t*>(object);
  for (const Field& field : structure.fields) {
    if (!field.versions.contains(version)) continue;
    void* at = bytes + field.offset;
    if (field.optional) at = field.optional->emplace(at);
    if (field.array) at = field.array->renew(at, 1);
    switch (field.type) {
      case Type::structure: fill(message, version, *field.structure, at); break;
      case Type::string: *static_cast<std::string*>(at) = "text"; break;
      case Type::bytes:
      case Type::records: *static_cast<Blob*>(at) = Blob::copyOf("bytes"); break;
      default: *static_cast<uint8_t*>(at) = 1; break;  // the lowest byte of a number
    }
  }
  if (message.flexible.contains(version)) {
    reinterpret_cast<UnknownTags*>(bytes + structure.unknownTagsOffset)->assign({{.tag = 1000, .value = {1, 2}}});
  }
}

}  // namespace

void fuzzOne(Bytes input) {
  if (input.empty()) return;
  ByteReader reader(input.subspan(1));
  auto header = decodeRequestHeader(reader);
  if (!header) return;
  int16_t key = header->requestApiKey;
  bool isResponse = input[0] & 1;
  const Message* message = find(isResponse ? MessageKind::response : MessageKind::request, key);
  MQ_CHECK(message, key);
  roundTrip(*message, reader, header->requestApiVersion);
}

std::vector<Buffer> fuzzSeeds() {
  std::vector<Buffer> seeds;
  for (const Api& api : kApis) {
    for (int16_t version = api.versions.first; version <= api.versions.last; ++version) {
      for (auto kind : {MessageKind::request, MessageKind::response}) {
        Any any(*find(kind, api.key));
        fill(any.descriptor, version, any.descriptor.body, any.message);
        Buffer seed{static_cast<uint8_t>(kind == MessageKind::response)};
        RequestHeader header{
            .requestApiKey = api.key, .requestApiVersion = version, .correlationId = 1, .clientId = "c"};
        MQ_CHECK(encodeRequestHeader(header, seed));
        auto encoded = encodeFrom(any.descriptor, any.message, version, seed, nullptr);
        MQ_CHECK(encoded, api.name, version, encoded.failure().message);
        seeds.push_back(std::move(seed));
      }
    }
  }
  return seeds;
}

}  // namespace mq::fuzz
