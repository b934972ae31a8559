#include "cli/group_consume.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <set>
#include <span>

#include <kj/common.h>

#include "cli/child.h"
#include "cli/group_admin.h"
#include "cli/kafka_client.h"
#include "cli/offset_range.h"
#include "cli/output.h"

namespace mq::cli {
namespace {
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kCommitEvery{1000};
constexpr milliseconds kAnswerWait{10'000};  // for a commit, and for what is committed
constexpr milliseconds kLeaveWait{5000};
constexpr milliseconds kLookAgain{5000};       // at the start of a log, after a gap
constexpr milliseconds kBlockedQuietly{1000};  // so long a reader of ours may be slow before we stop fetching
constexpr milliseconds kBackOffMax{30'000};    // of --exec
constexpr size_t kBatchBytesMax = 64 << 20;    // of --exec

struct MessageDeleter {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
using Message = std::unique_ptr<rd_kafka_message_t, MessageDeleter>;
struct ListDeleter {
  void operator()(rd_kafka_topic_partition_list_t* list) const { rd_kafka_topic_partition_list_destroy(list); }
};
using List = std::unique_ptr<rd_kafka_topic_partition_list_t, ListDeleter>;
struct QueueDeleter {
  void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
};
struct EventDeleter {
  void operator()(rd_kafka_event_t* event) const { rd_kafka_event_destroy(event); }
};
using Event = std::unique_ptr<rd_kafka_event_t, EventDeleter>;

std::span<rd_kafka_topic_partition_t> itemsOf(rd_kafka_topic_partition_list_t* list) {
  return {list->elems, static_cast<size_t>(list->cnt)};
}

std::string namesOf(rd_kafka_topic_partition_list_t* list) {
  std::string names;
  for (const auto& item : itemsOf(list))
    names += fmt::format("{}{}-{}", names.empty() ? "" : ", ", item.topic, item.partition);
  return names.empty() ? "nothing" : names;
}

TopicPartition placeOf(const rd_kafka_message_t& message) {
  return {rd_kafka_topic_name(message.rkt), message.partition};
}

// What this member has of a partition, from assignment to revocation.
struct Assigned {
  uint64_t serial = 0;     // of this assignment: another one begins anew
  int64_t from = -1;       // where it began; -1: not known
  int64_t position = -1;   // expected next; -1: not known yet
  int64_t delivered = -1;  // everything before it was handed over; -1: nothing yet
  int64_t committed = -1;  // of what was delivered here
  std::optional<int64_t> end;
  bool isDone = false;
  Clock::time_point lookedAtStart{};
};

class Member {
 public:
  Member(const Arguments& arguments, const std::set<std::string>& topics, Read read, const OffsetRange& range)
      : arguments_(arguments),
        group_(*arguments.text("group")),
        isCommitting_(!arguments.has("no-commit")),
        isVerbose_(arguments.has("verbose")) {
    pinBounds(topics, range, read);
    Properties properties = {
        {"group.id", group_},
        {"enable.auto.commit", "false"},
        {"enable.auto.offset.store", "false"},
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "earliest"},  // told when it happens: lookForGap()
        {"isolation.level", read == Read::committed ? "read_committed" : "read_uncommitted"},
        {"heartbeat.interval.ms", "1000"},
        {"fetch.wait.max.ms", "100"},
        {"queued.max.messages.kbytes", "65536"},
        {"queued.min.messages", "300000"},  // as for `mq consume` without a group
        {"check.crcs", "true"},
        {"allow.auto.create.topics", "false"},
        {"socket.nagle.disable", "true"},
    };
    if (auto instance = arguments.text("instance")) properties.emplace_back("group.instance.id", *instance);
    handle_ = makeHandle(RD_KAFKA_CONSUMER, arguments, properties, this,
                         [](rd_kafka_conf_t* conf) { rd_kafka_conf_set_rebalance_cb(conf, onRebalance); });
    rd_kafka_poll_set_consumer(handle_.get());
    commits_.reset(rd_kafka_queue_new(handle_.get()));
    List list(rd_kafka_topic_partition_list_new(static_cast<int>(topics.size())));
    for (const std::string& topic : topics)
      rd_kafka_topic_partition_list_add(list.get(), topic.c_str(), RD_KAFKA_PARTITION_UA);
    if (auto error = rd_kafka_subscribe(handle_.get(), list.get()))
      fail(exitCodeOf(error), "group '{}': {}", group_, describeError(error, nullptr));
  }

  // Before partitions are taken away, while what was read of them can still be committed.
  void beforeRevoke(std::function<void(const std::set<TopicPartition>&)> call) { beforeRevoke_ = std::move(call); }

  // The next record to deal with; null when there is none within the time.
  Message next(milliseconds atMost) {
    if (isPaused_) pause(false);
    Message message;
    if (!backlog_.empty()) {
      message = std::move(backlog_.front());
      backlog_.pop_front();
    } else {
      message = poll(atMost);
    }
    if (!message || !isWanted(*message)) return nullptr;
    return message;
  }

  // Keeps the membership alive while records are not asked for. What arrives nevertheless is kept for next().
  void serve() {
    if (!isPaused_) pause(true);
    while (Message message = poll(milliseconds(0))) {
      backlog_.push_back(std::move(message));
      if (!isPaused_) pause(true);  // there was a rebalance
    }
  }

  // Of the present assignment of the partition, never the same again; 0: it is not ours.
  uint64_t serialOf(const TopicPartition& at) const {
    auto found = assigned_.find(at);
    return found == assigned_.end() ? 0 : found->second.serial;
  }

  // Everything of the partition before the offset was handed over.
  void delivered(const TopicPartition& at, int64_t next) {
    auto found = assigned_.find(at);
    if (found != assigned_.end() && next > found->second.from)
      found->second.delivered = std::max(found->second.delivered, next);
  }

  // With -e and TO: each partition of the present assignment was read to its end.
  bool isDone() const {
    return isBounded_ && isAssigned_ &&
           std::all_of(assigned_.begin(), assigned_.end(), [](const auto& entry) { return entry.second.isDone; });
  }

  // Sends a commit when one is due, and looks at the answers.
  void commitSometimes() {
    collect(milliseconds(0));
    if (!isCommitting_ || isInFlight_ || Clock::now() - lastCommit_ < kCommitEvery) return;
    send();
  }

  // Commits what was delivered, and waits for it. None: done, or there is nothing to commit.
  rd_kafka_resp_err_t commitNow() {
    if (!isCommitting_) return RD_KAFKA_RESP_ERR_NO_ERROR;
    auto deadline = Clock::now() + kAnswerWait;
    while (isInFlight_ && Clock::now() < deadline) collect(milliseconds(100));
    if (isInFlight_) return RD_KAFKA_RESP_ERR__TIMED_OUT;
    if (!send()) return RD_KAFKA_RESP_ERR_NO_ERROR;
    while (isInFlight_ && Clock::now() < deadline) collect(milliseconds(100));
    return isInFlight_ ? RD_KAFKA_RESP_ERR__TIMED_OUT : lastError_;
  }

  // Commits and leaves the group.
  void leave() {
    rd_kafka_resp_err_t error = commitNow();
    // A rebalance that is just now being settled takes no commits; the next generation does.
    for (auto deadline = Clock::now() + kAnswerWait;
         error == RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS && Clock::now() < deadline; error = commitNow()) {
      serve();
      ::poll(nullptr, 0, 100);
    }
    close();
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
      fail(exitFailed, "group '{}': what was delivered last could not be committed and will be delivered again: {}",
           group_, describeError(error, nullptr));
    }
  }

  ~Member() {
    close();
    backlog_.clear();
    commits_ = nullptr;
    bool isClosed = rd_kafka_consumer_closed(handle_.get()) != 0;
    rd_kafka_t* handle = handle_.release();
    // Without a coordinator the library would wait here for what it can tell nobody: the end of the process ends it.
    if (isClosed) rd_kafka_destroy_flags(handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
  }
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

 private:
  void pinBounds(const std::set<std::string>& topics, const OffsetRange& range, Read read) {
    bool untilEnd = arguments_.has("exit");
    isBounded_ = untilEnd || range.to;
    isStored_ = range.from.kind == OffsetPoint::Kind::stored;
    Client client(clientOptions(arguments_));
    for (const std::string& topic : topics) {
      std::vector<int32_t> partitions = partitionsOf(client, topic);
      if (!isBounded_ && isStored_) continue;
      for (const auto& [partition, bound] : resolveBounds(client, topic, partitions, range, untilEnd, read))
        bounds_[{topic, partition}] = bound;
    }
  }

  // Gives up the partitions and tells the coordinator. The library's own way to do that waits for a session's time when
  // there is no coordinator to tell.
  void close() {
    if (std::exchange(hasLeft_, true)) return;
    std::unique_ptr<rd_kafka_queue_t, QueueDeleter> queue(rd_kafka_queue_new(handle_.get()));
    if (rd_kafka_error_t* error = rd_kafka_consumer_close_queue(handle_.get(), queue.get())) {
      rd_kafka_error_destroy(error);
      return;
    }
    auto deadline = Clock::now() + kLeaveWait;
    while (!rd_kafka_consumer_closed(handle_.get()) && Clock::now() < deadline) {
      Event event(rd_kafka_queue_poll(queue.get(), 50));
      if (event && rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_REBALANCE) {
        onRebalance(handle_.get(), rd_kafka_event_error(event.get()), rd_kafka_event_topic_partition_list(event.get()),
                    this);
      }
    }
  }

  void tell(const std::string& text) const { fmt::print(stderr, "mq: {}\n", text); }
  void tellDetail(const std::string& text) const {
    if (isVerbose_) tell(text);
  }

  // --- records

  Message poll(milliseconds atMost) {
    Message message(rd_kafka_consumer_poll(handle_.get(), static_cast<int>(atMost.count())));
    if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
    return message;
  }

  Assigned* stateOf(const rd_kafka_message_t& message) {
    if (message.rkt != lastTopic_ || message.partition != lastPartition_ || !lastState_) {
      auto found = assigned_.find({rd_kafka_topic_name(message.rkt), message.partition});
      lastState_ = found == assigned_.end() ? nullptr : &found->second;
      lastTopic_ = message.rkt;
      lastPartition_ = message.partition;
    }
    return lastState_;
  }

  bool isWanted(const rd_kafka_message_t& message) {
    if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) {
      Assigned* state = stateOf(message);
      if (!state || state->isDone) return false;
      if (message.offset != state->position) lookForGap(message, *state);
      if (state->end && message.offset + 1 >= *state->end) {
        state->isDone = true;
        pause(placeOf(message));  // what follows would only be thrown away
        if (message.offset >= *state->end) return false;
      }
      state->position = message.offset + 1;
      return true;
    }
    if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      Assigned* state = stateOf(message);
      if (state && state->end && message.offset >= *state->end) state->isDone = true;
      return false;
    }
    std::string text = describeError(message.err, static_cast<const char*>(message.payload));
    if (message.err == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED) {
      tell(fmt::format("group '{}': {}; joining again", group_, text));
      return false;
    }
    char reason[512];
    if (rd_kafka_fatal_error(handle_.get(), reason, sizeof reason) == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID)
      fail(exitConflict, "group '{}': another member took the instance id '{}': {}", group_,
           arguments_.text("instance", ""), describeError(RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID, reason));
    // Leader changes and lost connections are retried by the library; what arrives here is final.
    fail(exitCodeOf(message.err), "group '{}': {}", group_, text);
  }

  // Offsets are missing between what was expected and what came. Markers and compaction leave such holes, and are no
  // news; that retention was faster than this group is.
  void lookForGap(const rd_kafka_message_t& message, Assigned& state) {
    int64_t expected = std::exchange(state.position, message.offset);
    if (expected < 0) return;
    const char* topic = rd_kafka_topic_name(message.rkt);
    if (message.offset < expected) {
      tell(fmt::format("{}-{}: group '{}' was at {}, which is past the end: from {} on", topic, message.partition,
                       group_, expected, message.offset));
      return;
    }
    if (Clock::now() - state.lookedAtStart < kLookAgain) return;
    state.lookedAtStart = Clock::now();
    int64_t start = 0, end = 0;
    rd_kafka_query_watermark_offsets(handle_.get(), topic, message.partition, &start, &end, 5000);
    if (start > expected) {
      tell(fmt::format("{}-{}: the records from {} to {} are gone, deleted before group '{}' had read them", topic,
                       message.partition, expected, std::min(start, message.offset) - 1, group_));
    }
  }

  void pause(const TopicPartition& at) {
    List list(rd_kafka_topic_partition_list_new(1));
    rd_kafka_topic_partition_list_add(list.get(), at.topic.c_str(), at.partition);
    rd_kafka_pause_partitions(handle_.get(), list.get());
  }

  void pause(bool on) {
    List list(rd_kafka_topic_partition_list_new(static_cast<int>(assigned_.size())));
    for (const auto& [at, state] : assigned_) {
      if (!state.isDone) rd_kafka_topic_partition_list_add(list.get(), at.topic.c_str(), at.partition);
    }
    on ? rd_kafka_pause_partitions(handle_.get(), list.get()) : rd_kafka_resume_partitions(handle_.get(), list.get());
    isPaused_ = on;
  }

  // --- rebalancing

  static void onRebalance(rd_kafka_t*, rd_kafka_resp_err_t event, rd_kafka_topic_partition_list_t* list, void* opaque) {
    Member& self = *static_cast<Member*>(opaque);
    // An exception must not pass through the library: poll() throws it.
    try {
      event == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS ? self.assign(list) : self.revoke(list);
    } catch (...) {
      self.problem_ = std::current_exception();
    }
  }

  bool isCooperative() const {
    const char* protocol = rd_kafka_rebalance_protocol(handle_.get());
    return protocol && std::string_view(protocol) == "COOPERATIVE";
  }

  void assign(rd_kafka_topic_partition_list_t* list) {
    tellDetail(fmt::format("group '{}': assigned {}", group_, namesOf(list)));
    List stored(rd_kafka_topic_partition_list_copy(list));
    bool isKnown =
        list->cnt == 0 || rd_kafka_committed(handle_.get(), stored.get(), static_cast<int>(kAnswerWait.count())) == 0;
    std::string fresh;
    for (auto& item : itemsOf(list)) {
      TopicPartition at{item.topic, item.partition};
      Assigned state;
      auto bound = bounds_.find(at);
      // What has come to be after the command began lies behind its end.
      if (isBounded_) state.end = bound == bounds_.end() ? 0 : bound->second.to;
      const auto* known =
          isKnown ? rd_kafka_topic_partition_list_find(stored.get(), item.topic, item.partition) : nullptr;
      bool isFirst = started_.insert(at).second;
      auto left = positions_.find(at);
      if (isFirst && !isStored_ && bound != bounds_.end()) {
        state.position = bound->second.from;
      } else if (!isCommitting_ && left != positions_.end()) {
        state.position = left->second;  // nobody else remembers
      } else if (known && known->err == RD_KAFKA_RESP_ERR_NO_ERROR && known->offset >= 0) {
        state.position = known->offset;
      } else if (known && known->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
        fresh += fmt::format("{}{}", fresh.empty() ? "" : ", ", at.text());
      }
      item.offset = state.position >= 0 ? state.position : RD_KAFKA_OFFSET_STORED;
      if (known && known->offset < 0 && state.position < 0) item.offset = RD_KAFKA_OFFSET_BEGINNING;
      state.isDone = state.end && state.position >= *state.end;
      state.from = state.position;
      state.serial = ++serials_;
      assigned_[at] = state;
    }
    if (!fresh.empty()) tell(fmt::format("group '{}' has no offset stored for {}: from the start", group_, fresh));
    lastState_ = nullptr;
    isPaused_ = false;
    isAssigned_ = true;
    if (isCooperative()) {
      if (rd_kafka_error_t* error = rd_kafka_incremental_assign(handle_.get(), list)) refused(error);
    } else if (auto error = rd_kafka_assign(handle_.get(), list)) {
      fail(exitFailed, "group '{}': {}", group_, describeError(error, nullptr));
    }
    for (const auto& [at, state] : assigned_) {
      if (state.isDone) pause(at);
    }
  }

  void revoke(rd_kafka_topic_partition_list_t* list) {
    bool isLost = rd_kafka_assignment_lost(handle_.get()) != 0;
    if (isLost && list->cnt > 0)
      tell(fmt::format("group '{}': lost {}; what is not committed will be read again", group_, namesOf(list)));
    else
      tellDetail(fmt::format("group '{}': gives up {}", group_, namesOf(list)));
    std::set<TopicPartition> revoked;
    for (const auto& item : itemsOf(list)) revoked.insert({item.topic, item.partition});
    std::exception_ptr problem;
    if (!isLost && !hasLeft_) {
      try {
        if (beforeRevoke_) beforeRevoke_(revoked);
        if (auto error = commitNow())
          tell(fmt::format("group '{}': the last commit before a rebalance failed: {}", group_,
                           describeError(error, nullptr)));
      } catch (...) {
        problem = std::current_exception();
      }
    }
    for (const TopicPartition& at : revoked) {
      auto found = assigned_.find(at);
      if (found == assigned_.end()) continue;
      if (found->second.delivered >= 0) positions_[at] = found->second.delivered;
      assigned_.erase(found);
    }
    std::erase_if(backlog_, [&](const Message& message) {
      return message->err == RD_KAFKA_RESP_ERR_NO_ERROR &&
             !assigned_.contains({rd_kafka_topic_name(message->rkt), message->partition});
    });
    // A partition that is paused when it goes would still be paused when it comes back.
    rd_kafka_resume_partitions(handle_.get(), List(rd_kafka_topic_partition_list_copy(list)).get());
    lastState_ = nullptr;
    isAssigned_ = isCooperative();
    if (isCooperative()) {
      if (rd_kafka_error_t* error = rd_kafka_incremental_unassign(handle_.get(), list)) refused(error);
    } else {
      rd_kafka_assign(handle_.get(), nullptr);
    }
    if (problem) std::rethrow_exception(problem);
  }

  [[noreturn]] void refused(rd_kafka_error_t* error) {
    std::string text = describeError(rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    fail(exitFailed, "group '{}': {}", group_, text);
  }

  // --- commits, one at a time

  bool send() {
    List list(rd_kafka_topic_partition_list_new(static_cast<int>(assigned_.size())));
    for (const auto& [at, state] : assigned_) {
      if (state.delivered < 0 || state.delivered == state.committed) continue;
      rd_kafka_topic_partition_list_add(list.get(), at.topic.c_str(), at.partition)->offset = state.delivered;
    }
    lastCommit_ = Clock::now();
    if (list->cnt == 0) return false;
    lastError_ = rd_kafka_commit_queue(handle_.get(), list.get(), commits_.get(), nullptr, nullptr);
    if (lastError_ == RD_KAFKA_RESP_ERR_NO_ERROR) isInFlight_ = true;
    return true;
  }

  void collect(milliseconds atMost) {
    if (!isInFlight_) return;
    Event event(rd_kafka_queue_poll(commits_.get(), static_cast<int>(atMost.count())));
    if (!event || rd_kafka_event_type(event.get()) != RD_KAFKA_EVENT_OFFSET_COMMIT) return;
    isInFlight_ = false;
    lastError_ = rd_kafka_event_error(event.get());
    rd_kafka_topic_partition_list_t* list = rd_kafka_event_topic_partition_list(event.get());
    if (!list) return;
    for (const auto& item : itemsOf(list)) {
      if (lastError_ == RD_KAFKA_RESP_ERR_NO_ERROR) lastError_ = item.err;
      auto found = assigned_.find({item.topic, item.partition});
      if (item.err == RD_KAFKA_RESP_ERR_NO_ERROR && lastError_ == RD_KAFKA_RESP_ERR_NO_ERROR &&
          found != assigned_.end())
        found->second.committed = item.offset;
    }
    if (lastError_ == RD_KAFKA_RESP_ERR_NO_ERROR) return;
    std::string text = fmt::format("group '{}': a commit failed, the next one covers it: {}", group_,
                                   describeError(lastError_, nullptr));
    isPassing(lastError_) ? tellDetail(text) : tell(text);
  }

  // What a rebalance, a new coordinator or a lost connection does to a commit.
  static bool isPassing(rd_kafka_resp_err_t error) {
    switch (error) {
      case RD_KAFKA_RESP_ERR_REBALANCE_IN_PROGRESS:
      case RD_KAFKA_RESP_ERR_ILLEGAL_GENERATION:
      case RD_KAFKA_RESP_ERR_UNKNOWN_MEMBER_ID:
      case RD_KAFKA_RESP_ERR_NOT_COORDINATOR:
      case RD_KAFKA_RESP_ERR_COORDINATOR_NOT_AVAILABLE:
      case RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS: return true;
      default: return error < 0;
    }
  }

  const Arguments& arguments_;
  const std::string group_;
  const bool isCommitting_;
  const bool isVerbose_;
  std::map<TopicPartition, PartitionBounds> bounds_;
  bool isBounded_ = false;
  bool isStored_ = true;
  Handle handle_;
  std::unique_ptr<rd_kafka_queue_t, QueueDeleter> commits_;
  std::function<void(const std::set<TopicPartition>&)> beforeRevoke_;
  std::exception_ptr problem_;  // of a callback
  bool hasLeft_ = false;

  std::map<TopicPartition, Assigned> assigned_;
  bool isAssigned_ = false;
  uint64_t serials_ = 0;
  std::set<TopicPartition> started_;             // have been assigned at least once
  std::map<TopicPartition, int64_t> positions_;  // of partitions given up
  std::deque<Message> backlog_;
  bool isPaused_ = false;
  const rd_kafka_topic_t* lastTopic_ = nullptr;
  int32_t lastPartition_ = -1;
  Assigned* lastState_ = nullptr;

  bool isInFlight_ = false;
  rd_kafka_resp_err_t lastError_ = RD_KAFKA_RESP_ERR_NO_ERROR;
  Clock::time_point lastCommit_ = Clock::now();
};

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
        while (!code_) code_ = child_->wait(kAnswerWait);
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
