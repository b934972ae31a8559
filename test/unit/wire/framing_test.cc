#include "wire/framing.h"

#include <doctest/doctest.h>

#include "vectors.h"
#include "wire/apis.h"
#include "wire/offset_commit_key.h"
#include "wire/offset_commit_value.h"

using namespace mq;
using namespace mq::wire;

TEST_CASE("A request header is read in the version that api and version ask for") {
  for (const Api& api : kApis) {
    for (int16_t version = api.versions.first; version <= api.versions.last; ++version) {
      RequestHeader header{
          .requestApiKey = api.key, .requestApiVersion = version, .correlationId = 77, .clientId = "me"};
      Buffer buffer;
      REQUIRE(encodeRequestHeader(header, buffer));
      CHECK(buffer.size() == (version >= api.requestFlexibleFrom ? 13u : 12u));
      ByteReader reader(buffer);
      auto decoded = decodeRequestHeader(reader);
      REQUIRE(decoded);
      CHECK(*decoded == header);
      CHECK(reader.atEnd());
    }
  }
}

TEST_CASE("ApiVersions of an unknown version still yields its correlation id") {
  RequestHeader header{
      .requestApiKey = kApiVersionsKey, .requestApiVersion = 99, .correlationId = 5, .clientId = std::nullopt};
  Buffer buffer;
  REQUIRE(encodeRequestHeader(header, buffer));
  ByteReader reader(buffer);
  auto decoded = decodeRequestHeader(reader);
  REQUIRE(decoded);
  CHECK(decoded->correlationId == 5);
  CHECK(decoded->clientId == std::nullopt);
}

TEST_CASE("An unknown api key and a cut header are refused") {
  Buffer http(64);
  std::ranges::copy(asBytes("GET / HTTP/1.1"), http.begin());
  ByteReader reader(http);
  CHECK(decodeRequestHeader(reader).errorCode() == Error::unsupportedVersion);
  ByteReader cut(Bytes(http).first(3));
  CHECK(decodeRequestHeader(cut).errorCode() == Error::invalidRequest);
}

TEST_CASE("The response header of ApiVersions is never flexible, that of others from their flexible version on") {
  auto size = [](ApiKey key, int16_t version) {
    Buffer buffer;
    encodeResponseHeader(static_cast<int16_t>(key), version, 1, buffer);
    ByteReader reader(buffer);
    CHECK(*decodeResponseHeader(static_cast<int16_t>(key), version, reader) == 1);
    return buffer.size();
  };
  CHECK(size(ApiKey::apiVersions, 2) == 4);
  CHECK(size(ApiKey::apiVersions, 3) == 4);
  CHECK(size(ApiKey::produce, 8) == 4);
  CHECK(size(ApiKey::produce, 9) == 5);
  CHECK(size(ApiKey::saslHandshake, 1) == 4);
}

TEST_CASE("Record keys carry their type and values their version in front") {
  OffsetCommitKey key{.group = "g", .topic = "t", .partition = 3};
  Buffer bytes;
  REQUIRE(encodeKey(key, bytes));
  CHECK(toHex(bytes) ==
        "00010001670001"
        "74"
        "00000003");
  CHECK(recordTypeOf(bytes) == OffsetCommitKey::kRecordType);
  CHECK(*decodeKey<OffsetCommitKey>(bytes) == key);
  CHECK(recordTypeOf(Bytes(bytes).first(1)) == -1);
  CHECK_FALSE(decodeKey<OffsetCommitKey>(Bytes(bytes).first(5)));

  OffsetCommitValue value{.offset = 42, .leaderEpoch = 1, .metadata = "m", .commitTimestamp = 9};
  Buffer valueBytes;
  REQUIRE(encodeVersioned(value, 3, valueBytes));
  CHECK(*decodeVersioned<OffsetCommitValue>(valueBytes) == value);
  valueBytes[1] = 99;
  CHECK(decodeVersioned<OffsetCommitValue>(valueBytes).errorCode() == Error::unsupportedVersion);
  CHECK(decodeVersioned<OffsetCommitValue>(Bytes(valueBytes).first(1)).errorCode() == Error::invalidRequest);
}

TEST_CASE("The prefixes of the golden records are the type of a key and the version of a value") {
  size_t seen = 0;
  for (const Vector& vector : goldenMessages()) {
    if (vector.prefix.empty()) continue;
    INFO(vector.title);
    ++seen;
    CHECK(recordTypeOf(vector.prefix) ==
          (vector.message->kind == MessageKind::recordKey ? vector.message->number : vector.version));
  }
  CHECK(seen > 500);
}
