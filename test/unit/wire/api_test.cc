#include "wire/api.h"

#include <doctest/doctest.h>

#include "wire/apis.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"

using namespace mq::wire;

TEST_CASE("Apis are found by key, and holes in the numbers are not") {
  CHECK(std::size(kApis) == 79);
  for (const Api& api : kApis) CHECK(findApi(api.key) == &api);
  for (int16_t key : {-1, 4, 7, 52, 73, 95, 1000}) CHECK_FALSE(findApi(key));
  CHECK(findApi(18)->name == "ApiVersions");
}

TEST_CASE("The table and the structs agree") {
  const Api* fetch = findApi(static_cast<int16_t>(ApiKey::fetch));
  REQUIRE(fetch);
  CHECK(fetch->versions.first == FetchRequest::kVersionMin);
  CHECK(fetch->versions.last == FetchRequest::kVersionMax);
  CHECK(FetchRequest::Response::kApiKey == FetchRequest::kApiKey);
}

TEST_CASE("An unstable newest version is known to the codecs but not among the stable ones") {
  const Api* init = findApi(static_cast<int16_t>(ApiKey::initProducerId));
  REQUIRE(init);
  CHECK(init->versions.last == 6);
  CHECK(init->stableVersions().last == 5);
  CHECK(findApi(0)->stableVersions().last == findApi(0)->versions.last);
}
