#include "cli/group_member.h"

#include <poll.h>

#include <algorithm>
#include <span>

#include "cli/output.h"

namespace mq::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kCommitEvery{1000};
constexpr milliseconds kAnswerWait{10'000};  // for a commit, and for what is committed
constexpr milliseconds kLeaveWait{5000};
constexpr milliseconds kLookAgain{5000};  // at the start of a log, after a gap

struct ListDeleter {
  void operator()(rd_kafka_topic_partition_list_t* list) const { rd_kafka_topic_partition_list_destroy(list); }
};
using List = std::unique_ptr<rd_kafka_topic_partition_list_t, ListDeleter>;
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

}  // namespace

TopicPartition placeOf(const rd_kafka_message_t& message) {
  return {rd_kafka_topic_name(message.rkt), message.partition};
}

Member::Member(const Arguments& arguments, const std::set<std::string>& topics, Read read, const OffsetRange& range)
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

Message Member::next(milliseconds atMost) {
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

void Member::serve() {
  if (!isPaused_) pause(true);
  while (Message message = poll(milliseconds(0))) {
    backlog_.push_back(std::move(message));
    if (!isPaused_) pause(true);  // there was a rebalance
  }
}

uint64_t Member::serialOf(const TopicPartition& at) const {
  auto found = assigned_.find(at);
  return found == assigned_.end() ? 0 : found->second.serial;
}

void Member::delivered(const TopicPartition& at, int64_t next) {
  auto found = assigned_.find(at);
  if (found != assigned_.end() && next > found->second.from)
    found->second.delivered = std::max(found->second.delivered, next);
}

bool Member::isDone() const {
  return isBounded_ && isAssigned_ &&
         std::all_of(assigned_.begin(), assigned_.end(), [](const auto& entry) { return entry.second.isDone; });
}

void Member::commitSometimes() {
  collect(milliseconds(0));
  if (!isCommitting_ || isInFlight_ || Clock::now() - lastCommit_ < kCommitEvery) return;
  send();
}

rd_kafka_resp_err_t Member::commitNow() {
  if (!isCommitting_) return RD_KAFKA_RESP_ERR_NO_ERROR;
  auto deadline = Clock::now() + kAnswerWait;
  while (isInFlight_ && Clock::now() < deadline) collect(milliseconds(100));
  if (isInFlight_) return RD_KAFKA_RESP_ERR__TIMED_OUT;
  if (!send()) return RD_KAFKA_RESP_ERR_NO_ERROR;
  while (isInFlight_ && Clock::now() < deadline) collect(milliseconds(100));
  return isInFlight_ ? RD_KAFKA_RESP_ERR__TIMED_OUT : lastError_;
}

void Member::leave() {
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

Member::~Member() {
  close();
  backlog_.clear();
  commits_ = nullptr;
  bool isClosed = rd_kafka_consumer_closed(handle_.get()) != 0;
  rd_kafka_t* handle = handle_.release();
  // Without a coordinator the library would wait here for what it can tell nobody: the end of the process ends it.
  if (isClosed) rd_kafka_destroy_flags(handle, RD_KAFKA_DESTROY_F_NO_CONSUMER_CLOSE);
}

void Member::pinBounds(const std::set<std::string>& topics, const OffsetRange& range, Read read) {
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

void Member::close() {
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

void Member::tellDetail(const std::string& text) const {
  if (isVerbose_) tell(text);
}

// --- records

Message Member::poll(milliseconds atMost) {
  Message message(rd_kafka_consumer_poll(handle_.get(), static_cast<int>(atMost.count())));
  if (problem_) std::rethrow_exception(std::exchange(problem_, nullptr));
  return message;
}

Member::Assigned* Member::stateOf(const rd_kafka_message_t& message) {
  if (message.rkt != lastTopic_ || message.partition != lastPartition_ || !lastState_) {
    auto found = assigned_.find({rd_kafka_topic_name(message.rkt), message.partition});
    lastState_ = found == assigned_.end() ? nullptr : &found->second;
    lastTopic_ = message.rkt;
    lastPartition_ = message.partition;
  }
  return lastState_;
}

bool Member::isWanted(const rd_kafka_message_t& message) {
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

void Member::lookForGap(const rd_kafka_message_t& message, Assigned& state) {
  int64_t expected = std::exchange(state.position, message.offset);
  if (expected < 0) return;
  const char* topic = rd_kafka_topic_name(message.rkt);
  if (message.offset < expected) {
    tell(fmt::format("{}-{}: group '{}' was at {}, which is past the end: from {} on", topic, message.partition, group_,
                     expected, message.offset));
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

void Member::pause(const TopicPartition& at) {
  List list(rd_kafka_topic_partition_list_new(1));
  rd_kafka_topic_partition_list_add(list.get(), at.topic.c_str(), at.partition);
  rd_kafka_pause_partitions(handle_.get(), list.get());
}

void Member::pause(bool on) {
  List list(rd_kafka_topic_partition_list_new(static_cast<int>(assigned_.size())));
  for (const auto& [at, state] : assigned_) {
    if (!state.isDone) rd_kafka_topic_partition_list_add(list.get(), at.topic.c_str(), at.partition);
  }
  on ? rd_kafka_pause_partitions(handle_.get(), list.get()) : rd_kafka_resume_partitions(handle_.get(), list.get());
  isPaused_ = on;
}

// --- rebalancing

void Member::onRebalance(rd_kafka_t*, rd_kafka_resp_err_t event, rd_kafka_topic_partition_list_t* list, void* opaque) {
  Member& self = *static_cast<Member*>(opaque);
  // An exception must not pass through the library: poll() throws it.
  try {
    event == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS ? self.assign(list) : self.revoke(list);
  } catch (...) {
    self.problem_ = std::current_exception();
  }
}

bool Member::isCooperative() const {
  const char* protocol = rd_kafka_rebalance_protocol(handle_.get());
  return protocol && std::string_view(protocol) == "COOPERATIVE";
}

void Member::assign(rd_kafka_topic_partition_list_t* list) {
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

void Member::revoke(rd_kafka_topic_partition_list_t* list) {
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

void Member::refused(rd_kafka_error_t* error) {
  std::string text = describeError(rd_kafka_error_code(error), rd_kafka_error_string(error));
  rd_kafka_error_destroy(error);
  fail(exitFailed, "group '{}': {}", group_, text);
}

// --- commits, one at a time

bool Member::send() {
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

void Member::collect(milliseconds atMost) {
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
    if (item.err == RD_KAFKA_RESP_ERR_NO_ERROR && lastError_ == RD_KAFKA_RESP_ERR_NO_ERROR && found != assigned_.end())
      found->second.committed = item.offset;
  }
  if (lastError_ == RD_KAFKA_RESP_ERR_NO_ERROR) return;
  std::string text = fmt::format("group '{}': a commit failed, the next one covers it: {}", group_,
                                 describeError(lastError_, nullptr));
  isPassing(lastError_) ? tellDetail(text) : tell(text);
}

bool Member::isPassing(rd_kafka_resp_err_t error) {
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

}  // namespace mq::cli
