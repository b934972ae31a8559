#include "base/error.h"

#include <doctest/doctest.h>

using namespace mq;

TEST_CASE("Errors have Kafka's numbers and names") {
  CHECK(static_cast<int16_t>(Error::offsetOutOfRange) == 1);
  CHECK(static_cast<int16_t>(Error::unknownServerError) == -1);
  CHECK(kafkaName(Error::kafkaStorageError) == "KAFKA_STORAGE_ERROR");
  CHECK(isRetriable(Error::notLeaderOrFollower));
  CHECK_FALSE(isRetriable(Error::messageTooLarge));
  CHECK(isKnownError(0));
  CHECK_FALSE(isKnownError(30000));
  CHECK(kafkaName(static_cast<Error>(30000)) == "UNLISTED_ERROR");
}

TEST_CASE("A Result carries a value, or a code with its message") {
  auto half = [](int n) -> Result<int> {
    if (n % 2) return failure(Error::invalidRequest, "{} is odd", n);
    return n / 2;
  };
  CHECK(*half(4) == 2);
  CHECK(half(4).errorCode() == Error::none);
  CHECK(half(3).errorCode() == Error::invalidRequest);
  CHECK(half(3).failure().message == "3 is odd");
}
