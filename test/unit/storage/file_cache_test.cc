#include "storage/file_cache.h"

#include <doctest/doctest.h>

#include <memory>

#include "fixtures.h"
#include "runtime/uv/file_system.h"

using namespace mq;
using namespace mq::storage;
using namespace mq::storage::test;

TEST_CASE("the least recently used file is closed when others need its place") {
  TestDirectory directory;
  auto system = realFileSystem();
  FileCache cache(*system, 2);
  FileCache::Slot a, b, c;
  auto use = [&](FileCache::Slot& slot, const char* name) {
    return cache.use(slot, OpenMode::create, [&] { return directory / name; });
  };
  use(a, "a");
  use(b, "b");
  use(a, "a");
  use(c, "c");
  CHECK(a.isOpen());
  CHECK(!b.isOpen());
  CHECK(c.isOpen());
  CHECK(cache.openCount() == 2);
  CHECK(cache.opened() == 3);
  use(b, "b");
  CHECK(!a.isOpen());
  CHECK(cache.opened() == 4);
}

TEST_CASE("a pinned file is passed over, and outlives its slot") {
  TestDirectory directory;
  auto system = realFileSystem();
  FileCache cache(*system, 1);
  FileRef pinned;
  {
    FileCache::Slot a, b;
    pinned = cache.use(a, OpenMode::create, [&] { return directory / "a"; });
    pinned->write(0, asBytes("here"));
    cache.use(b, OpenMode::create, [&] { return directory / "b"; });
    CHECK(a.isOpen());
    CHECK(cache.openCount() == 2);
    a.close();
    CHECK(cache.openCount() == 1);
    system->remove(directory / "a");
  }
  CHECK(cache.openCount() == 0);
  uint8_t bytes[4];
  CHECK(pinned->read(0, bytes) == 4);
}

TEST_CASE("a file that cannot be opened leaves its slot closed") {
  TestDirectory directory;
  auto system = realFileSystem();
  FileCache cache(*system, 4);
  FileCache::Slot slot;
  CHECK_THROWS(cache.use(slot, OpenMode::read, [&] { return directory / "missing"; }));
  CHECK(!slot.isOpen());
  CHECK(cache.openCount() == 0);
}
