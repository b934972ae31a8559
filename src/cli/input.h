// Records out of a stream of bytes, for `mq produce`: lines, NUL or another delimiter, length-prefixed, chunks of a
// size, or JSON lines. Memory is bounded: a record over the limit is read past and reported, the next one is read as
// usual.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "cli/json_record.h"

namespace mq::cli {

enum class Framing { delimited, lengthPrefixed, chunks, json };

struct InputOptions {
  Framing framing = Framing::delimited;
  std::string delimiter = "\n";
  std::optional<std::string> keyDelimiter;  // delimited: text before its first occurrence is the key
  size_t chunkBytes = 0;
  size_t recordBytesMax = 0;
  bool emptyIsNull = false;  // -Z
  // Called every few milliseconds while the input has nothing to read and is not at its end; false ends it.
  std::function<bool()> whileIdle = nullptr;
};

struct InputRecord {
  uint64_t number = 0;       // of the line or record, from 1
  uint64_t offset = 0;       // of its first byte in the input
  std::optional<Bytes> key;  // views until the next call
  std::optional<Bytes> value;
  uint64_t oversize = 0;             // not 0: over the limit by its size; nothing else is set
  const JsonRecord* json = nullptr;  // framing json: all of it
  std::string problem;               // framing json: not a record, and why; nothing else is set
};

class Input {
 public:
  // Reads from the descriptor, which stays the caller's. `name` is for messages ("stdin").
  Input(int descriptor, std::string name, InputOptions options);

  // False at the end of the input, or when a signal interrupted it. Ends the command (CommandError, with the byte
  // offset) where the framing is broken beyond repair: a cut length-prefixed record, an unreadable file.
  bool next(InputRecord& record);

 private:
  bool fill();  // false at the end
  size_t left() const { return buffer_.size() - at_; }
  bool nextDelimited(InputRecord& record, Bytes& whole);
  bool nextLengthPrefixed(InputRecord& record);
  bool nextChunk(InputRecord& record);
  void take(size_t bytes);

  int descriptor_;
  std::string name_;
  InputOptions options_;
  Buffer buffer_;  // [at_, size) is unread
  size_t at_ = 0;
  size_t searched_ = 0;  // no delimiter before it
  uint64_t offset_ = 0;  // of buffer_[at_] in the input
  uint64_t number_ = 0;
  bool ended_ = false;
  JsonRecord json_;
};

}  // namespace mq::cli
