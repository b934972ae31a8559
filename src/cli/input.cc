#include "cli/input.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "cli/command.h"
#include "cli/kafka_client.h"

namespace mq::cli {
namespace {
constexpr size_t kPiece = 256 << 10;
constexpr int kIdleMs = 20;
}  // namespace

Input::Input(int descriptor, std::string name, InputOptions options)
    : descriptor_(descriptor), name_(std::move(name)), options_(std::move(options)) {}

bool Input::fill() {
  if (ended_) return false;
  if (at_ > 0) {
    buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<ptrdiff_t>(at_));
    searched_ -= std::min(searched_, at_);
    at_ = 0;
  }
  size_t have = buffer_.size();
  buffer_.resize(have + kPiece);
  if (options_.whileIdle) {
    pollfd readable{.fd = descriptor_, .events = POLLIN, .revents = 0};
    while (::poll(&readable, 1, kIdleMs) <= 0 && !Interrupts::any()) {
      if (options_.whileIdle()) continue;
      ended_ = true;
      return false;
    }
  }
  ssize_t got;
  do got = ::read(descriptor_, buffer_.data() + have, kPiece);
  while (got < 0 && errno == EINTR && !Interrupts::any());
  int error = errno;
  buffer_.resize(have + (got > 0 ? static_cast<size_t>(got) : 0));
  if (got < 0 && error != EINTR)
    fail(exitFailed, "cannot read {} at byte {}: {}", name_, offset_ + have, strerror(error));
  ended_ = got <= 0;
  return !ended_;
}

void Input::take(size_t bytes) {
  at_ += bytes;
  offset_ += bytes;
  searched_ = at_;
}

bool Input::next(InputRecord& record) {
  record = {};
  if (Interrupts::any()) return false;
  switch (options_.framing) {
    case Framing::lengthPrefixed: return nextLengthPrefixed(record);
    case Framing::chunks: return nextChunk(record);
    case Framing::delimited:
    case Framing::json: break;
  }
  Bytes whole;
  do {
    if (!nextDelimited(record, whole)) return false;
    // A blank line between JSON lines is no record.
  } while (options_.framing == Framing::json && record.oversize == 0 &&
           asText(whole).find_first_not_of(" \t\r") == std::string_view::npos);
  if (record.oversize > 0) return true;
  if (options_.framing == Framing::json) {
    Result<JsonRecord> parsed = parseJsonRecord(asText(whole));
    if (!parsed) {
      record.problem = parsed.failure().message;
      return true;
    }
    json_ = std::move(*parsed);
    record.json = &json_;
    return true;
  }
  if (options_.keyDelimiter) {
    size_t split = asText(whole).find(*options_.keyDelimiter);
    if (split != std::string_view::npos) {
      record.key = whole.first(split);
      whole = whole.subspan(split + options_.keyDelimiter->size());
    }
  }
  if (!(whole.empty() && options_.emptyIsNull)) record.value = whole;
  return true;
}

bool Input::nextDelimited(InputRecord& record, Bytes& whole) {
  const std::string& delimiter = options_.delimiter;
  uint64_t skipped = 0;
  uint64_t start = offset_;
  for (;;) {
    auto begin = buffer_.begin() + static_cast<ptrdiff_t>(searched_);
    const void* hit = nullptr;
    if (searched_ < buffer_.size())
      hit = memmem(&*begin, buffer_.size() - searched_, delimiter.data(), delimiter.size());
    size_t length;
    bool found = hit != nullptr;
    if (found) {
      length = static_cast<size_t>(static_cast<const uint8_t*>(hit) - (buffer_.data() + at_));
    } else {
      searched_ = std::max(at_, buffer_.size() - std::min(buffer_.size(), delimiter.size() - 1));
      if (left() > options_.recordBytesMax + delimiter.size()) {  // let go of what can no longer be a record
        size_t drop = left() - (delimiter.size() - 1);
        skipped += drop;
        take(drop);
      }
      if (fill()) continue;
      if (Interrupts::any()) return false;  // what was read of a line that is not finished is not a record
      if (left() == 0 && skipped == 0) return false;
      length = left();
    }
    record.number = ++number_;
    record.offset = start;
    if (skipped + length > options_.recordBytesMax) record.oversize = skipped + length;
    whole = Bytes(buffer_).subspan(at_, length);
    take(length + (found ? delimiter.size() : 0));
    return true;
  }
}

bool Input::nextLengthPrefixed(InputRecord& record) {
  auto need = [&](size_t bytes, std::string_view what) {
    while (left() < bytes) {
      if (fill()) continue;
      if (Interrupts::any()) return false;
      fail(exitFailed, "{} ends in the middle of {} that begins at byte {}", name_, what, record.offset);
    }
    return true;
  };
  record.offset = offset_;
  while (left() == 0) {
    if (!fill()) return false;
  }
  record.number = ++number_;
  if (!need(4, "the length of a record")) return false;
  uint32_t length = loadBigEndian<uint32_t>(buffer_.data() + at_);
  take(4);
  if (length == 0xFFFFFFFF) return true;  // null
  if (length > options_.recordBytesMax) {
    record.oversize = length;
    for (uint64_t skip = length; skip > 0;) {
      if (!need(1, "a record")) return false;
      size_t piece = static_cast<size_t>(std::min<uint64_t>(skip, left()));
      take(piece);
      skip -= piece;
    }
    return true;
  }
  if (!need(length, "a record")) return false;
  record.value = Bytes(buffer_).subspan(at_, length);
  take(length);
  return true;
}

bool Input::nextChunk(InputRecord& record) {
  while (left() < options_.chunkBytes && fill()) {
  }
  if (left() == 0 || Interrupts::any()) return false;
  size_t length = std::min(left(), options_.chunkBytes);
  record.number = ++number_;
  record.offset = offset_;
  record.value = Bytes(buffer_).subspan(at_, length);
  take(length);
  return true;
}

}  // namespace mq::cli
