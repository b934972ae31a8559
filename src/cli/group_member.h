// Member: this process as a member of a consumer group in the classic protocol: it has partitions, hands out their
// records in order, and commits what was handed over. Used by `mq consume -g`; one thread, librdkafka underneath.
//
// Every wait has an end: a commit and what is committed after ten seconds, leaving after five. Problems end the command
// (CommandError), also those of callbacks, which poll() throws.
#pragma once
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cli/group_admin.h"
#include "cli/kafka_client.h"
#include "cli/offset_range.h"

namespace mq::cli {

struct MessageDeleter {
  void operator()(rd_kafka_message_t* message) const { rd_kafka_message_destroy(message); }
};
using Message = std::unique_ptr<rd_kafka_message_t, MessageDeleter>;
struct QueueDeleter {
  void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
};

TopicPartition placeOf(const rd_kafka_message_t& message);

class Member {
  using Clock = std::chrono::steady_clock;
  using milliseconds = std::chrono::milliseconds;

 public:
  Member(const Arguments& arguments, const std::set<std::string>& topics, Read read, const OffsetRange& range);

  // Before partitions are taken away, while what was read of them can still be committed.
  void beforeRevoke(std::function<void(const std::set<TopicPartition>&)> call) { beforeRevoke_ = std::move(call); }

  // The next record to deal with; null when there is none within the time.
  Message next(milliseconds atMost);

  // Keeps the membership alive while records are not asked for. What arrives nevertheless is kept for next().
  void serve();

  // Of the present assignment of the partition, never the same again; 0: it is not ours.
  uint64_t serialOf(const TopicPartition& at) const;

  // Everything of the partition before the offset was handed over.
  void delivered(const TopicPartition& at, int64_t next);

  // With -e and TO: each partition of the present assignment was read to its end.
  bool isDone() const;

  // Sends a commit when one is due, and looks at the answers.
  void commitSometimes();

  // Commits what was delivered, and waits for it. None: done, or there is nothing to commit.
  rd_kafka_resp_err_t commitNow();

  // Commits and leaves the group.
  void leave();

  ~Member();
  Member(const Member&) = delete;
  Member& operator=(const Member&) = delete;

 private:
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

  void pinBounds(const std::set<std::string>& topics, const OffsetRange& range, Read read);

  // Gives up the partitions and tells the coordinator. The library's own way to do that waits for a session's time when
  // there is no coordinator to tell.
  void close();
  void tell(const std::string& text) const { fmt::print(stderr, "mq: {}\n", text); }
  void tellDetail(const std::string& text) const;

  // --- records

  Message poll(milliseconds atMost);
  Assigned* stateOf(const rd_kafka_message_t& message);
  bool isWanted(const rd_kafka_message_t& message);

  // Offsets are missing between what was expected and what came. Markers and compaction leave such holes, and are no
  // news; that retention was faster than this group is.
  void lookForGap(const rd_kafka_message_t& message, Assigned& state);
  void pause(const TopicPartition& at);
  void pause(bool on);

  // --- rebalancing

  static void onRebalance(rd_kafka_t*, rd_kafka_resp_err_t event, rd_kafka_topic_partition_list_t* list, void* opaque);
  bool isCooperative() const;
  void assign(rd_kafka_topic_partition_list_t* list);
  void revoke(rd_kafka_topic_partition_list_t* list);
  [[noreturn]] void refused(rd_kafka_error_t* error);

  // --- commits, one at a time

  bool send();
  void collect(milliseconds atMost);

  // What a rebalance, a new coordinator or a lost connection does to a commit.
  static bool isPassing(rd_kafka_resp_err_t error);

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

}  // namespace mq::cli
