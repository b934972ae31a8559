// The real FileSystem.
#include "runtime/uv/file_system.h"

#include <doctest/doctest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "../test_directory.h"

using namespace mq;

namespace {

std::string failureOf(const std::function<void()>& action, kj::Exception::Type* type = nullptr) {
  try {
    action();
  } catch (kj::Exception& e) {
    if (type != nullptr) *type = e.getType();
    return e.getDescription().cStr();
  }
  return "nothing thrown";
}

std::string contentOf(const File& file) {
  std::string bytes(file.size() + 10, '\0');
  bytes.resize(file.read(0, {reinterpret_cast<uint8_t*>(bytes.data()), bytes.size()}));
  return bytes;
}

}  // namespace

TEST_CASE("RealFileSystem: many pieces, also large and empty ones, are written in order at the offset") {
  TestDirectory directory;
  auto files = realFileSystem();
  FileRef file = files->open(directory / "f", OpenMode::createNew);
  std::string expected = "........";
  file->write(0, asBytes(expected));
  std::vector<std::string> parts;
  for (size_t i = 0; i < 200; ++i)
    parts.push_back(std::string(i % 7 == 0 ? 0 : i * 37, static_cast<char>('a' + i % 26)));
  parts.push_back(std::string(1'000'001, 'L'));
  parts.push_back("end");
  std::vector<Bytes> pieces;
  for (auto& part : parts) {
    pieces.push_back(asBytes(part));
    expected += part;
  }
  file->write(8, pieces);
  CHECK(contentOf(*file) == expected);
  file->write(3, std::span<const Bytes>());
  CHECK(file->size() == expected.size());
}

TEST_CASE("RealFileSystem: reads stop at the end, truncate cuts and extends with zeros") {
  TestDirectory directory;
  auto files = realFileSystem();
  FileRef file = files->open(directory / "f", OpenMode::create);
  file->write(0, asBytes("0123456789"));
  uint8_t buffer[8];
  CHECK(file->read(7, buffer) == 3);
  CHECK(file->read(10, buffer) == 0);
  CHECK(file->read(1000, buffer) == 0);
  file->truncate(4);
  file->truncate(6);
  CHECK(contentOf(*file) == std::string("0123\0\0", 6));
  file->sync();
}

TEST_CASE("RealFileSystem: reserved space is no part of the file, and truncate gives it back") {
  TestDirectory directory;
  auto files = realFileSystem();
  FileRef file = files->open(directory / "f", OpenMode::create);
  file->write(0, asBytes("0123"));
  auto allocated = [&] {
    file->sync();
    struct stat status;
    REQUIRE(::fstat(file->descriptor(), &status) == 0);
    return status.st_blocks * 512;
  };
  auto before = allocated();
  if (!file->reserve(1 << 20)) return;  // some file systems cannot
  CHECK(file->size() == 4);
  CHECK(contentOf(*file) == "0123");
  CHECK(allocated() >= 1 << 20);
  file->write(4, asBytes("45"));
  CHECK(contentOf(*file) == "012345");
  file->truncate(6);
  CHECK(contentOf(*file) == "012345");
  CHECK(allocated() == before);
}

TEST_CASE("RealFileSystem: open modes keep, make or refuse as they say") {
  TestDirectory directory;
  auto files = realFileSystem();
  CHECK(failureOf([&] { files->open(directory / "f", OpenMode::read); }) ==
        "cannot open " + directory / "f" + ": No such file or directory");
  CHECK_THROWS_AS(files->open(directory / "f", OpenMode::readWrite), kj::Exception);
  files->open(directory / "f", OpenMode::createNew)->write(0, asBytes("kept"));
  CHECK_THROWS_AS(files->open(directory / "f", OpenMode::createNew), kj::Exception);
  CHECK(contentOf(*files->open(directory / "f", OpenMode::create)) == "kept");
  FileRef readOnly = files->open(directory / "f", OpenMode::read);
  kj::Exception::Type type;
  failureOf([&] { readOnly->write(0, asBytes("x")); }, &type);
  CHECK(type == kj::Exception::Type::FAILED);
}

TEST_CASE("RealFileSystem: an open file stays readable when renamed, replaced or removed") {
  TestDirectory directory;
  auto files = realFileSystem();
  FileRef file = files->open(directory / "a", OpenMode::create);
  file->write(0, asBytes("first"));
  files->rename(directory / "a", directory / "b");
  CHECK(!files->exists(directory / "a"));
  CHECK(contentOf(*file) == "first");
  files->open(directory / "c", OpenMode::create);
  files->rename(directory / "c", directory / "b");
  files->remove(directory / "b");
  CHECK(contentOf(*file) == "first");
  CHECK_THROWS_AS(files->remove(directory / "b"), kj::Exception);
}

TEST_CASE("RealFileSystem: directories are made with parents, listed by name, removed when empty") {
  TestDirectory directory;
  auto files = realFileSystem();
  files->makeDirectory(directory / "x/y/z");
  files->makeDirectory(directory / "x/y/z/");
  files->open(directory / "x/b", OpenMode::create)->write(0, asBytes("123"));
  files->open(directory / "x/a", OpenMode::create);
  auto list = files->list(directory / "x");
  REQUIRE(list.size() == 3);
  CHECK(list[0].name == "a");
  CHECK(list[1].name == "b");
  CHECK(list[1].size == 3);
  CHECK(!list[1].isDirectory);
  CHECK(list[2].name == "y");
  CHECK(list[2].isDirectory);
  files->syncDirectory(directory / "x");
  CHECK_THROWS_AS(files->removeDirectory(directory / "x"), kj::Exception);
  files->removeDirectory(directory / "x/y/z");
  CHECK_THROWS_AS(files->makeDirectory(directory / "x/a"), kj::Exception);
  CHECK_THROWS_AS(files->makeDirectory(directory / "x/a/b"), kj::Exception);
  CHECK_THROWS_AS(files->list(directory / "none"), kj::Exception);
  CHECK(!files->exists(directory / "x/a/under-a-file"));
}

TEST_CASE("RealFileSystem: replaceFile swaps whole contents, readFile minds its bound") {
  TestDirectory directory;
  auto files = realFileSystem();
  files->replaceFile(directory / "f", "a long first content");
  files->replaceFile(directory / "f", "second");
  CHECK(files->readFile(directory / "f", 6) == "second");
  CHECK(failureOf([&] { files->readFile(directory / "f", 5); }).find("File too large") != std::string::npos);
  CHECK(files->list(directory.path()).size() == 1);
}

TEST_CASE("RealFileSystem: permission errors are FAILED and name the path" * doctest::skip(geteuid() == 0)) {
  TestDirectory directory;
  auto files = realFileSystem();
  chmod(directory.path().c_str(), 0500);
  kj::Exception::Type type;
  CHECK(failureOf([&] { files->open(directory / "f", OpenMode::create); }, &type) ==
        "cannot open " + directory / "f" + ": Permission denied");
  CHECK(type == kj::Exception::Type::FAILED);
  chmod(directory.path().c_str(), 0700);
}

TEST_CASE("RealFileSystem: a full disk is OVERLOADED, and the file can be written again once there is room" *
          doctest::skip(geteuid() != 0)) {
  TestDirectory directory;
  if (mount("none", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    MESSAGE("this system lets root mount nothing: nothing tested");
    return;
  }
  auto files = realFileSystem();
  CHECK(files->space(directory.path()).total == 1 << 20);
  {
    FileRef filler = files->open(directory / "filler", OpenMode::create);
    FileRef file = files->open(directory / "f", OpenMode::create);
    std::string half(512 * 1024, 'h');
    filler->write(0, asBytes(half));
    file->write(0, asBytes("before"));
    kj::Exception::Type type{};
    std::string text = failureOf([&] { file->write(6, asBytes(std::string(900 * 1024, 'x'))); }, &type);
    CHECK(text == "cannot write " + directory / "f" + ": No space left on device");
    CHECK(type == kj::Exception::Type::OVERLOADED);
    file->truncate(6);
    filler->truncate(0);
    file->write(6, asBytes(half));
    CHECK(contentOf(*file) == "before" + half);
  }
  CHECK(umount(directory.path().c_str()) == 0);
}

TEST_CASE("RealFileSystem: a lock keeps other processes out, tells who holds it, and ends with its holder") {
  TestDirectory directory;
  auto files = realFileSystem();
  std::string path = directory / "lock";
  int told[2], release[2];
  REQUIRE(pipe(told) == 0);
  REQUIRE(pipe(release) == 0);
  pid_t child = fork();
  if (child == 0) {
    close(release[1]);
    auto lock = realFileSystem()->lock(path, nullptr);
    char byte = lock ? 'y' : 'n';
    if (write(told[1], &byte, 1) != 1) _exit(1);
    (void)!read(release[0], &byte, 1);
    _exit(0);  // without unlocking
  }
  close(release[0]);
  char byte = 0;
  REQUIRE(read(told[0], &byte, 1) == 1);
  CHECK(byte == 'y');
  int64_t holder = 0;
  CHECK(!files->lock(path, &holder));
  CHECK(holder == child);
  close(release[1]);
  int status;
  waitpid(child, &status, 0);
  auto mine = files->lock(path, nullptr);
  CHECK(mine.has_value());
  CHECK(!files->lock(path, &holder));  // in the same process, too
  CHECK(holder == getpid());
  mine.reset();
  CHECK(files->lock(path, nullptr).has_value());
  close(told[0]);
  close(told[1]);
}
