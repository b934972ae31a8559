// All messages against the vectors that Kafka's own classes wrote.
#include "wire/codec.h"

#include <set>

#include <doctest/doctest.h>

#include "vectors.h"
#include "wire/messages.h"

using namespace mq;
using namespace mq::wire;

TEST_CASE("Every golden message decodes to its fields and encodes back to its bytes") {
  REQUIRE(goldenMessages().size() == 5303);
  for (const Vector& vector : goldenMessages()) {
    INFO(vector.title);
    Any message = makeAny(*vector.message);
    ByteReader reader(vector.body);
    auto done = decodeInto(*vector.message, reader, vector.version, message.get());
    REQUIRE_MESSAGE(done, done.failure().message);
    CHECK(reader.atEnd());
    REQUIRE(kafkasFields(*vector.message, describe(*vector.message, message.get(), vector.version)) == vector.fields);
    Buffer again;
    auto encoded = encodeFrom(*vector.message, message.get(), vector.version, again, nullptr);
    REQUIRE_MESSAGE(encoded, encoded.failure().message);
    REQUIRE(toHex(again) == toHex(vector.body));
  }
}

TEST_CASE("The golden messages cover every version of every message") {
  std::set<std::pair<const Message*, int16_t>> covered;
  for (const Vector& vector : goldenMessages()) covered.emplace(vector.message, vector.version);
  for (const Message* message : allMessages()) {
    INFO(message->name);
    for (int16_t version = message->versions.first; version <= message->versions.last; ++version) {
      INFO(version);
      CHECK(covered.contains({message, version}));
    }
  }
}

TEST_CASE("A version outside the known ones is refused both ways and changes nothing") {
  for (const Message* descriptor : allMessages()) {
    INFO(descriptor->name);
    for (int version : {descriptor->versions.first - 1, descriptor->versions.last + 1, INT16_MIN, INT16_MAX}) {
      Any message = makeAny(*descriptor);
      ByteReader reader{Bytes()};
      CHECK(decodeInto(*descriptor, reader, static_cast<int16_t>(version), message.get()).errorCode() ==
            Error::unsupportedVersion);
      Buffer buffer{7};
      CHECK(encodeFrom(*descriptor, message.get(), static_cast<int16_t>(version), buffer, nullptr).errorCode() ==
            Error::unsupportedVersion);
      CHECK(buffer == Buffer{7});
    }
  }
}
