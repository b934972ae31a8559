#include "cli/output.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstring>
#include <filesystem>

#include <fmt/format.h>
#include <kj/common.h>

#include "cli/command.h"
#include "cli/json_record.h"

namespace mq::cli {

int terminalWidth() {
  for (int descriptor : {STDERR_FILENO, STDOUT_FILENO}) {
    winsize size{};
    if (isatty(descriptor) && ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
      return std::clamp<int>(size.ws_col, 20, 200);
    }
  }
  return 80;
}

bool stderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }
bool stdoutIsTerminal() { return isatty(STDOUT_FILENO) == 1; }

Output::Output() : terminal_(stdoutIsTerminal()) {}

// Only reached with bytes left when the command failed: its own error is the news, so this one attempt must not throw.
Output::~Output() {
  if (!buffer_.empty()) [[maybe_unused]]
    ssize_t written = ::write(STDOUT_FILENO, buffer_.data(), buffer_.size());
}

void Output::write(std::string_view text) {
  buffer_ += text;
  if (buffer_.size() >= (256 << 10) || (terminal_ && text.ends_with('\n'))) flush();
}

void Output::flush() {
  KJ_DEFER(buffer_.clear());  // also when it cannot be written: nothing is written twice
  // A pipe that is ready takes this much without blocking.
  size_t piece = whileBlocked_ ? PIPE_BUF : 256 << 10;
  std::string_view left = buffer_;
  while (!left.empty()) {
    if (whileBlocked_) {
      pollfd item{STDOUT_FILENO, POLLOUT, 0};
      if (::poll(&item, 1, 100) <= 0) {
        whileBlocked_();
        continue;
      }
    }
    ssize_t written = ::write(STDOUT_FILENO, left.data(), std::min(left.size(), piece));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      int error = errno;
      if (error == EPIPE) throw CommandError{exitPipe, ""};
      fail(exitFailed, "cannot write to stdout: {}", strerror(error));
    }
    accepted_ += static_cast<uint64_t>(written);
    left.remove_prefix(static_cast<size_t>(written));
  }
}

Table::Table(std::vector<std::string> head, std::vector<bool> numeric) : numeric_(std::move(numeric)) {
  numeric_.resize(head.size());
  rows_.push_back(std::move(head));
}

void Table::row(std::vector<std::string> cells) {
  cells.resize(rows_[0].size());
  rows_.push_back(std::move(cells));
}

void Table::print(Output& out) const {
  std::vector<size_t> widths(rows_[0].size());
  for (const auto& row : rows_) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  for (const auto& row : rows_) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      if (i) line += "  ";
      line += numeric_[i] ? fmt::format("{:>{}}", row[i], widths[i]) : fmt::format("{:<{}}", row[i], widths[i]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out.write(line + "\n");
  }
}

void appendEscaped(std::string& into, Bytes bytes) {
  bool text = isUtf8(bytes);
  for (uint8_t byte : bytes) {
    if (byte == '\t' || byte == '\n' || (byte >= 0x20 && byte < 0x7F) || (byte >= 0x80 && text)) {
      into += static_cast<char>(byte);
    } else {
      into += fmt::format("\\x{:02x}", byte);
    }
  }
}

int64_t wallClockMs() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string isoTime(int64_t milliseconds) {
  if (milliseconds == -1) return "none";
  // Years of four digits; beyond, the bare number says more than a date that no reader parses.
  constexpr int64_t kFirst = -62135596800000, kEnd = 253402300800000;
  if (milliseconds < kFirst || milliseconds >= kEnd) return fmt::format("{} ms", milliseconds);
  std::chrono::sys_time<std::chrono::milliseconds> time{std::chrono::milliseconds(milliseconds)};
  auto day = std::chrono::floor<std::chrono::days>(time);
  std::chrono::year_month_day date(day);
  std::chrono::hh_mm_ss clock(time - day);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", static_cast<int>(date.year()),
                     static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), clock.hours().count(),
                     clock.minutes().count(), clock.seconds().count(), clock.subseconds().count());
}

std::string absolutePath(const std::string& path) {
  std::error_code error;
  std::filesystem::path absolute = std::filesystem::absolute(path, error);
  if (error) fail(exitFailed, "{}: {}", path, error.message());
  std::string text = absolute.lexically_normal().string();
  while (text.size() > 1 && text.ends_with('/')) text.pop_back();
  return text;
}

std::string humanBytes(uint64_t bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB", "PB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1000 && unit < 5) value /= 1000, ++unit;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.{}f} {}", value, value < 10 ? 1 : 0, units[unit]);
}

std::string humanDuration(uint64_t ms) {
  if (ms < 1000) return fmt::format("{} ms", ms);
  if (ms < 60'000) return fmt::format("{:.1f} s", static_cast<double>(ms) / 1000);
  uint64_t minutes = ms / 60'000;
  if (minutes < 60) return fmt::format("{} min {} s", minutes, ms / 1000 % 60);
  if (minutes < 48 * 60) return fmt::format("{} h {} min", minutes / 60, minutes % 60);
  return fmt::format("{} d {} h", minutes / 1440, minutes / 60 % 24);
}

}  // namespace mq::cli
