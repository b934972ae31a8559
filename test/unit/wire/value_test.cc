#include "wire/value.h"

#include <doctest/doctest.h>

using namespace mq;
using namespace mq::wire;

TEST_CASE("A blob that owns its bytes keeps them through copies") {
  Blob copy;
  {
    Blob blob = Blob::copyOf("content");
    copy = blob;
  }
  CHECK(asText(copy.view()) == "content");
  Buffer source{1, 2, 3};
  CHECK(Blob::owning(Buffer(source)) == Blob(Bytes(source)));
  CHECK(Blob(Bytes(source)).view().data() == source.data());
}

TEST_CASE("A blob of external bytes has a length and no bytes") {
  Blob blob = Blob::external(1000);
  CHECK(blob.isExternal());
  CHECK(blob.size() == 1000);
  CHECK(blob.view().empty());
  CHECK(blob != Blob());
  CHECK(blob == Blob::external(1000));
  CHECK_FALSE(Blob::external(0).isExternal());
}

TEST_CASE("Unknown tags are copied with their values and compare by them") {
  UnknownTags tags;
  CHECK(tags.empty());
  tags.assign({{.tag = 4, .value = {1}}, {.tag = 2, .value = {2}}});
  UnknownTags copy = tags;
  CHECK(copy == tags);
  copy.assign({});
  CHECK(copy.empty());
  CHECK(tags.list().size() == 2);
  CHECK(tags.list()[0].tag == 2);
}
