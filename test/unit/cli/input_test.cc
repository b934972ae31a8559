#include "cli/input.h"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cli/command.h"

using namespace mq;
using namespace mq::cli;
using namespace std::string_literals;

namespace {

// Content behind a descriptor; as a pipe it comes in pieces.
class Source {
 public:
  explicit Source(std::string_view content) : fd_(memfd_create("input", MFD_CLOEXEC)) {
    for (size_t at = 0; at < content.size();) {
      ssize_t wrote = ::write(fd_, content.data() + at, content.size() - at);
      REQUIRE(wrote > 0);
      at += static_cast<size_t>(wrote);
    }
    lseek(fd_, 0, SEEK_SET);
  }
  ~Source() { ::close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

// Each record as text: "key|value", "(null)", "(oversize N)", "(problem)".
std::vector<std::string> all(std::string_view content, InputOptions options) {
  if (options.recordBytesMax == 0) options.recordBytesMax = 1 << 20;
  Source source(content);
  Input input(source.fd(), "stdin", options);
  std::vector<std::string> found;
  InputRecord record;
  while (input.next(record)) {
    CHECK(record.number == found.size() + 1);
    std::string text;
    if (record.oversize > 0) {
      text = fmt::format("(oversize {})", record.oversize);
    } else if (!record.problem.empty()) {
      text = "(problem)";
    } else if (record.json != nullptr) {
      text = "json:" + (record.json->value ? std::string(asText(*record.json->value)) : "(null)");
    } else {
      if (record.key) text = std::string(asText(*record.key)) + "|";
      text += record.value ? std::string(asText(*record.value)) : "(null)";
    }
    found.push_back(text);
  }
  return found;
}

using Texts = std::vector<std::string>;

std::string length(uint32_t value) {
  uint8_t bytes[4];
  storeBigEndian<uint32_t>(bytes, value);
  return std::string(asText(bytes));
}

std::string failureOf(std::string_view content, InputOptions options) {
  try {
    all(content, options);
  } catch (const CommandError& error) {
    CHECK(error.exitCode == exitFailed);
    return error.message;
  }
  return "none";
}

}  // namespace

TEST_CASE("input: a line is a record; the last one counts without its newline; an empty line is an empty record") {
  CHECK(all("", {}) == Texts{});
  CHECK(all("\n", {}) == Texts{""});
  CHECK(all("a", {}) == Texts{"a"});
  CHECK(all("a\n", {}) == Texts{"a"});
  CHECK(all("a\nb", {}) == Texts{"a", "b"});
  CHECK(all("a\n\nb\n", {}) == Texts{"a", "", "b"});
  CHECK(all("\n\n\n", {}) == Texts{"", "", ""});
  CHECK(all("a\r\nb\r\n", {}) == Texts{"a\r", "b\r"});  // bytes stay as they are
  CHECK(all("a\0b\n"s, {}) == Texts{"a\0b"s});
  CHECK(all("\xff\xfe\n", {}) == Texts{"\xff\xfe"});
  CHECK(all("a\n\nb", {.emptyIsNull = true}) == Texts{"a", "(null)", "b"});
}

TEST_CASE("input: other delimiters, also of several bytes and across the border of two reads") {
  CHECK(all("a\0b\0"s, {.delimiter = "\0"s}) == Texts{"a", "b"});
  CHECK(all("a--b-c--", {.delimiter = "--"}) == Texts{"a", "b-c"});
  CHECK(all("---", {.delimiter = "--"}) == Texts{"", "-"});
  // A delimiter that begins in one piece and ends in the next.
  for (size_t size : {262140u, 262141u, 262142u, 262143u, 262144u, 262145u}) {
    std::string head(size, 'x');
    CHECK(all(head + "<eol>tail<eol>", {.delimiter = "<eol>"}) == Texts{head, "tail"});
  }
}

TEST_CASE("input: what stands before the key delimiter is the key") {
  CHECK(all("k=v\nk=v=w\nno\n=v\nk=\n", {.keyDelimiter = "="}) == Texts{"k|v", "k|v=w", "no", "|v", "k|"});
  CHECK(all("k::v\n", {.keyDelimiter = "::"}) == Texts{"k|v"});
  CHECK(all("k=\n", {.keyDelimiter = "=", .emptyIsNull = true}) == Texts{"k|(null)"});
}

TEST_CASE("input: a record over the limit is named with its size, in bounded memory, and the next one is read") {
  std::string huge(3'000'000, 'x');
  CHECK(all("a\n" + huge + "\nb\n", {.recordBytesMax = 1000}) == Texts{"a", "(oversize 3000000)", "b"});
  CHECK(all(huge, {.recordBytesMax = 1000}) == Texts{"(oversize 3000000)"});
  CHECK(all(std::string(1000, 'x') + "\nb", {.recordBytesMax = 1000})[0].size() == 1000);
  CHECK(all(std::string(1001, 'x') + "\nb", {.recordBytesMax = 1000}) == Texts{"(oversize 1001)", "b"});
  CHECK(all(std::string(5000, 'x') + "--b--", {.delimiter = "--", .recordBytesMax = 1000}) ==
        Texts{"(oversize 5000)", "b"});
}

TEST_CASE("input: length-prefixed records; FFFFFFFF is null; a cut one is named with its offset") {
  InputOptions options{.framing = Framing::lengthPrefixed};
  CHECK(all("", options) == Texts{});
  CHECK(all(length(1) + "a" + length(0) + length(0xFFFFFFFF) + length(3) + "b\nc", options) ==
        Texts{"a", "", "(null)", "b\nc"});
  CHECK(failureOf(length(1) + "a" + "\0\0"s, options) ==
        "stdin ends in the middle of the length of a record that begins at byte 5");
  CHECK(failureOf(length(1) + "a" + length(5) + "abc", options) ==
        "stdin ends in the middle of a record that begins at byte 5");
  // A length that nothing backs costs nothing, and what is over the limit is passed over.
  CHECK(failureOf(length(0x7FFFFFFF) + "abc", options) == "stdin ends in the middle of a record that begins at byte 0");
  options.recordBytesMax = 10;
  CHECK(all(length(20) + std::string(20, 'x') + length(1) + "a", options) == Texts{"(oversize 20)", "a"});
}

TEST_CASE("input: chunks have the size asked for, the last one the rest") {
  InputOptions options{.framing = Framing::chunks, .chunkBytes = 4};
  CHECK(all("", options) == Texts{});
  CHECK(all("abcd", options) == Texts{"abcd"});
  CHECK(all("abcdefghi", options) == Texts{"abcd", "efgh", "i"});
  std::string bytes(1'000'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31 >> 3);
  std::string together;
  for (const std::string& chunk : all(bytes, {.framing = Framing::chunks, .chunkBytes = 77'777})) together += chunk;
  CHECK(together == bytes);
}

TEST_CASE("input: JSON lines, blank ones left out, a wrong one reported and the next one read") {
  InputOptions options{.framing = Framing::json};
  CHECK(all("{\"value\":\"a\"}\r\n{\"value\":null}", options) == Texts{"json:a", "json:(null)"});
  CHECK(all("{\"value\":\"a\"}\nnot json\n{\"value\":\"b\"}\n", options) == Texts{"json:a", "(problem)", "json:b"});
  Source source("{\"value\":\"a\"}\n \t\r\n\n{\"value\":\"b\"}\n");
  Input input(source.fd(), "stdin", {.framing = Framing::json, .recordBytesMax = 1000});
  InputRecord record;
  CHECK(input.next(record));
  CHECK(input.next(record));
  CHECK(record.number == 4);  // the line's, as an editor counts
  CHECK(record.offset == 19);
  CHECK_FALSE(input.next(record));
}

TEST_CASE("input: one that cannot be read is named") {
  Input input(-1, "data.bin", {.recordBytesMax = 10});
  InputRecord record;
  try {
    input.next(record);
    FAIL("it could be read");
  } catch (const CommandError& error) {
    CHECK(error.message == "cannot read data.bin at byte 0: Bad file descriptor");
  }
}
