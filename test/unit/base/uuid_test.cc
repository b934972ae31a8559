#include "base/uuid.h"

#include <doctest/doctest.h>

#include "base/random.h"

using namespace mq;

TEST_CASE("A Uuid prints as 22 characters of base64url and parses back") {
  Prng random(1);
  for (int i = 0; i < 100; ++i) {
    Uuid id = random.uuid();
    CHECK(id.toString().size() == 22);
    CHECK(Uuid::parse(id.toString()) == id);
  }
  CHECK(kZeroUuid.toString() == "AAAAAAAAAAAAAAAAAAAAAA");
  CHECK(Uuid::fromHalves(0, 1).toString() == "AAAAAAAAAAAAAAAAAAAAAQ");
}

TEST_CASE("Text that is not exactly one Uuid is refused") {
  CHECK_FALSE(Uuid::parse(""));
  CHECK_FALSE(Uuid::parse("AAAAAAAAAAAAAAAAAAAAA"));
  CHECK_FALSE(Uuid::parse("AAAAAAAAAAAAAAAAAAAAAAA"));
  CHECK_FALSE(Uuid::parse("AAAAAAAAAAAAAAAAAAAA+A"));
  CHECK_FALSE(Uuid::parse("AAAAAAAAAAAAAAAAAAAAAB"));  // trailing bits that no writer sets
}
