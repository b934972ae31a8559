// What commands print and how: stdout carries data only, everything else is stderr. Colours and progress only on a
// terminal.
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace mq::cli {

int terminalWidth();  // of stderr or stdout, between 20 and 200; 80 when neither is a terminal
bool stderrIsTerminal();
bool stdoutIsTerminal();

// Buffered stdout that never loses an error: a closed pipe ends the process silently as SIGPIPE would (exit 141), any
// other failure (a full disk) throws CommandError with the system's reason.
class Output {
 public:
  Output();
  ~Output();
  void write(std::string_view text);
  void write(Bytes bytes) { write(asText(bytes)); }
  void flush();  // all bytes handed to the system, or throws
  size_t buffered() const { return buffer_.size(); }
  // Bytes handed to the system so far, also when a flush ended with an exception.
  uint64_t accepted() const { return accepted_; }
  // Never blocks in a write from now on; calls this every 100 ms while stdout takes nothing. It may throw to give up.
  void whileBlocked(std::function<void()> call) { whileBlocked_ = std::move(call); }

 private:
  std::string buffer_;
  uint64_t accepted_ = 0;
  std::function<void()> whileBlocked_;
  bool terminal_;
};

// Columns aligned by the widest cell; right-aligned where `numeric`.
class Table {
 public:
  explicit Table(std::vector<std::string> head, std::vector<bool> numeric = {});
  void row(std::vector<std::string> cells);
  void print(Output& out) const;

 private:
  std::vector<std::vector<std::string>> rows_;
  std::vector<bool> numeric_;
};

// For a terminal: bytes that do not print as \xHH. Text that is no UTF-8 is escaped byte by byte.
void appendEscaped(std::string& into, Bytes bytes);

int64_t wallClockMs();                              // since 1970
std::string isoTime(int64_t milliseconds);          // "2026-11-30T08:00:00.000Z"; "none" for -1
std::string absolutePath(const std::string& path);  // ends the command if it cannot be had
std::string humanBytes(uint64_t bytes);             // "1.4 GB", powers of ten
std::string humanDuration(uint64_t milliseconds);   // "3 d 4 h", "12 ms"

}  // namespace mq::cli
