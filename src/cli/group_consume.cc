#include "cli/group_consume.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <set>

#include <kj/common.h>

#include "cli/child.h"
#include "cli/group_member.h"
#include "cli/output.h"

namespace mq::cli {
namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kChildLook{10'000};
constexpr milliseconds kBlockedQuietly{1000};  // so long a reader of ours may be slow before we stop fetching
constexpr milliseconds kBackOffMax{30'000};    // of --exec
constexpr size_t kBatchBytesMax = 64 << 20;    // of --exec

// When nothing has come for the time of --timeout.
class Patience {
 public:
  explicit Patience(const Arguments& arguments) : timeout_(arguments.number("timeout", 1, 86'400'000)) {}
  void seen() { last_ = Clock::now(); }
  bool isOver() const { return timeout_ && Clock::now() - last_ >= milliseconds(*timeout_); }
  [[noreturn]] void end(int64_t count) const {
    fail(exitNothing, "no record within {} ms ({} before)", *timeout_, count);
  }

 private:
  std::optional<int64_t> timeout_;
  Clock::time_point last_ = Clock::now();
};

// Records to stdout. A record is delivered when the system has taken its last byte.
class Printer {
 public:
  Printer(Member& member, const RecordStyle& style) : member_(member), style_(style) {
    out_.whileBlocked([this] { blocked(); });
    member_.beforeRevoke([this](const std::set<TopicPartition>& revoked) {
      settle();
      // What is taken later of partitions that others have by then is not ours to commit.
      std::erase_if(marks_, [&](const Mark& mark) { return revoked.contains(*mark.at); });
      lastTopic_ = nullptr;
    });
  }

  void print(const rd_kafka_message_t& message) {
    text_.clear();
    appendRecord(text_, message, style_);
    written_ += text_.size();
    if (message.rkt != lastTopic_ || message.partition != at_->partition) {
      at_ = &*places_.insert(placeOf(message)).first;
      lastTopic_ = message.rkt;
    }
    marks_.push_back({at_, message.offset + 1, written_});
    out_.write(text_);
    settle();
  }

  void flush() {
    out_.flush();
    settle();
  }
  size_t buffered() const { return out_.buffered(); }

  void settle() {
    for (; !marks_.empty() && marks_.front().end <= out_.accepted(); marks_.pop_front())
      member_.delivered(*marks_.front().at, marks_.front().next);
  }

 private:
  struct Mark {
    const TopicPartition* at;
    int64_t next;
    uint64_t end;  // in the bytes of stdout
  };

  void blocked() {
    auto now = Clock::now();
    if (now - lastBlocked_ > kBlockedQuietly) blockedSince_ = now;
    lastBlocked_ = now;
    if (now - blockedSince_ < kBlockedQuietly) return;
    if (Interrupts::any()) throw CommandError{Interrupts::exitCode(), ""};
    settle();
    member_.serve();
    member_.commitSometimes();
  }

  Member& member_;
  const RecordStyle& style_;
  Output out_;
  std::string text_;
  uint64_t written_ = 0;
  std::deque<Mark> marks_;
  std::set<TopicPartition> places_;
  const TopicPartition* at_ = nullptr;
  const rd_kafka_topic_t* lastTopic_ = nullptr;
  Clock::time_point blockedSince_{}, lastBlocked_{};
};

void printAll(const Arguments& arguments, Member& member, Printer& printer) {
  KJ_DEFER(printer.settle());  // whatever ends this: what was taken is taken
  int64_t limit = arguments.number("number", 1, INT64_MAX).value_or(INT64_MAX), printed = 0;
  Patience patience(arguments);
  while (!member.isDone() && printed < limit && !Interrupts::any()) {
    Message message = member.next(milliseconds(printer.buffered() > 0 ? 0 : 100));
    if (message) {
      printer.print(*message);
      ++printed;
      patience.seen();
    } else {
      printer.flush();  // what there is must not wait in our buffer
      if (patience.isOver()) patience.end(printed);
      // The reader of our output may have left while there is nothing to write.
      pollfd item{STDOUT_FILENO, 0, 0};
      if (::poll(&item, 1, 0) > 0 && (item.revents & POLLERR)) throw CommandError{exitPipe, ""};
    }
    member.commitSometimes();
  }
  printer.flush();
}

// Records to the command of --exec, in batches of one partition.
class Runner {
 public:
  Runner(const Arguments& arguments, Member& member, RecordStyle style)
      : member_(member), style_(std::move(style)), command_(*arguments.text("exec")) {
    style_.escape = false;
    batchMax_ = static_cast<size_t>(arguments.number("batch", 1, 1'000'000).value_or(1));
    std::string onError = arguments.text("on-error", "stop");
    if (onError != "stop" && onError != "skip") fail(exitUsage, "--on-error takes stop or skip, not '{}'", onError);
    isSkipping_ = onError == "skip";
    member_.beforeRevoke([this](const std::set<TopicPartition>& revoked) {
      // Whoever gets the partition must not begin with what is being done.
      if (child_ && revoked.contains(at_)) {
        while (!code_) code_ = child_->wait(kChildLook);
        if (*code_ == 0) member_.delivered(at_, next());
      }
    });
  }

  bool isEmpty() const { return batch_.empty(); }
  bool isFull() const { return batch_.size() >= batchMax_ || input_.size() >= kBatchBytesMax; }
  bool takes(const rd_kafka_message_t& message) const { return batch_.empty() || placeOf(message) == at_; }
  void add(Message message) {
    if (batch_.empty()) {
      at_ = placeOf(*message);
      serial_ = member_.serialOf(at_);
    }
    appendRecord(input_, *message, style_);
    batch_.push_back(std::move(message));
  }
  size_t skipped() const { return skipped_; }

  // Until the command takes the batch, a signal comes, or the partition goes to another member.
  void run() {
    auto backOff = milliseconds(100);
    for (;;) {
      int code = runOnce();
      if (!isOurs()) break;
      if (code == 0) {
        member_.delivered(at_, next());
        break;
      }
      if (Interrupts::any()) {
        fmt::print(stderr, "mq: {}: '{}' ended with {}; not committed\n", text(), command_, code);
        break;
      }
      if (code == kAgain) {
        fmt::print(stderr, "mq: {}: '{}' wants it again (exit {}), in {}\n", text(), command_, code,
                   humanDuration(static_cast<uint64_t>(backOff.count())));
        rest(backOff);
        backOff = std::min(backOff * 2, kBackOffMax);
        if (!isOurs() || Interrupts::any()) break;
        continue;
      }
      if (!isSkipping_) {
        fail(exitFailed, "{}: '{}' ended with {}; not committed, and so is all behind it. --on-error skip goes on",
             text(), command_, code);
      }
      fmt::print(stderr, "mq: skipped {}: '{}' ended with {}\n", text(), command_, code);
      skipped_ += batch_.size();
      member_.delivered(at_, next());
      break;
    }
    batch_.clear();
    input_.clear();
    if (auto error = member_.commitNow())
      fmt::print(stderr, "mq: {}: done, but not committed: {}\n", at_.text(), describeError(error, nullptr));
  }

 private:
  static constexpr int kAgain = 75;  // EX_TEMPFAIL

  // Otherwise whoever has the partition now has begun with what is committed.
  bool isOurs() const { return member_.serialOf(at_) == serial_; }
  int64_t next() const { return batch_.back()->offset + 1; }
  std::string text() const {
    if (batch_.size() == 1) return fmt::format("{} offset {}", at_.text(), batch_.front()->offset);
    return fmt::format("{} offsets {} to {}", at_.text(), batch_.front()->offset, batch_.back()->offset);
  }

  int runOnce() {
    const rd_kafka_message_t& first = *batch_.front();
    std::optional<std::string> key;
    if (first.key) key = std::string(static_cast<const char*>(first.key), first.key_len);
    if (key && key->find('\0') != std::string::npos) key.reset();  // a variable cannot hold it
    child_.emplace(command_,
                   Child::Environment{{"MQ_TOPIC", at_.topic},
                                      {"MQ_PARTITION", std::to_string(at_.partition)},
                                      {"MQ_OFFSET", std::to_string(first.offset)},
                                      {"MQ_KEY", key}},
                   input_);
    code_.reset();
    for (auto quietUntil = Clock::now() + kBlockedQuietly; !code_;) {
      auto ended = child_->wait(milliseconds(100));
      if (!code_) code_ = ended;
      if (!code_ && Clock::now() >= quietUntil) member_.serve();
    }
    child_.reset();
    return *code_;
  }

  void rest(milliseconds time) {
    for (auto until = Clock::now() + time; Clock::now() < until && !Interrupts::any() && isOurs();) {
      ::poll(nullptr, 0, 50);
      member_.serve();
    }
  }

  Member& member_;
  RecordStyle style_;
  std::string command_;
  size_t batchMax_ = 1;
  bool isSkipping_ = false;
  TopicPartition at_;
  uint64_t serial_ = 0;
  std::vector<Message> batch_;
  std::string input_;
  std::optional<Child> child_;
  std::optional<int> code_;
  size_t skipped_ = 0;
};

void runAll(const Arguments& arguments, Member& member, Runner& runner) {
  int64_t limit = arguments.number("number", 1, INT64_MAX).value_or(INT64_MAX), taken = 0;
  Patience patience(arguments);
  while (!Interrupts::any()) {
    bool isOver = member.isDone() || taken >= limit;
    Message message = isOver ? nullptr : member.next(milliseconds(100));
    uint64_t serial = message ? member.serialOf(placeOf(*message)) : 0;
    // A batch is as large as what is there, at most --batch.
    if (!runner.isEmpty() && (!message || !runner.takes(*message))) runner.run();
    // Meanwhile the partition may have gone, or have begun anew with what is committed.
    if (message && member.serialOf(placeOf(*message)) == serial) {
      runner.add(std::move(message));
      ++taken;
      if (runner.isFull() || taken >= limit) runner.run();
      patience.seen();
    } else if (isOver) {
      return;
    } else if (patience.isOver()) {
      patience.end(taken);
    }
  }
}

// Runs the work, and leaves the group whatever comes of it.
template <class Work>
void asMember(Member& member, Work work) {
  try {
    work();
  } catch (const CommandError& error) {
    try {
      member.leave();
    } catch (const CommandError& second) {
      fmt::print(stderr, "mq: {}\n", second.message);
    }
    throw;
  }
  member.leave();
}

}  // namespace

int consumeInGroup(const Arguments& arguments, RecordStyle style) {
  if (std::string protocol = arguments.text("protocol", "classic"); protocol != "classic")
    fail(exitUsage, "--protocol takes classic, the only one that this mq reads in, not '{}'", protocol);
  if (!arguments.all("partition").empty())
    fail(exitUsage, "-p does not go with -g: the group gives each member its partitions");
  if (arguments.has("exec") && arguments.has("no-commit"))
    fail(exitUsage, "--exec commits what its command takes: --no-commit contradicts that");
  for (std::string_view flag : {"batch", "on-error"}) {
    if (arguments.has(flag) && !arguments.has("exec")) fail(exitUsage, "--{} belongs to --exec", flag);
  }
  if (arguments.text("group")->empty()) fail(exitUsage, "-g takes the name of a group");
  auto range = parseOffsetRange(arguments.text("offset", "stored"), wallClockMs(), OffsetsOf::group);
  if (!range) fail(exitUsage, "--offset: {}", range.failure().message);
  const auto& words = arguments.positionals();
  Read read = arguments.has("read-uncommitted") ? Read::uncommitted : Read::committed;

  Interrupts interrupts;
  Member member(arguments, {words.begin(), words.end()}, read, *range);
  size_t skipped = 0;
  if (arguments.has("exec")) {
    Runner runner(arguments, member, std::move(style));
    asMember(member, [&] { runAll(arguments, member, runner); });
    skipped = runner.skipped();
  } else {
    Printer printer(member, style);
    asMember(member, [&] { printAll(arguments, member, printer); });
  }
  if (Interrupts::any()) return Interrupts::exitCode();
  if (skipped > 0) fail(exitFailed, "{} records were skipped", skipped);
  return exitDone;
}

}  // namespace mq::cli
