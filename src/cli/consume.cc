// `mq consume`: records of a topic's partitions to stdout. The bounds are pinned before the first record; the end of a
// partition is reached by position, so a tail of markers, aborted or compacted records holds nobody up.
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "cli/commands.h"
#include "cli/group_consume.h"
#include "cli/kafka_client.h"
#include "cli/offset_range.h"
#include "cli/output.h"
#include "cli/record_text.h"

namespace mq::cli {
namespace {
using Clock = std::chrono::steady_clock;

struct TopicDeleter {
  void operator()(rd_kafka_topic_t* topic) const { rd_kafka_topic_destroy(topic); }
};
struct QueueDeleter {
  void operator()(rd_kafka_queue_t* queue) const { rd_kafka_queue_destroy(queue); }
};

std::vector<int32_t> partitionsWanted(const Arguments& arguments, const std::string& topic,
                                      const std::vector<int32_t>& there) {
  if (arguments.all("partition").empty()) return there;
  std::vector<int32_t> wanted;
  for (const std::string& list : arguments.all("partition")) {
    for (size_t from = 0; from <= list.size();) {
      size_t to = std::min(list.find(',', from), list.size());
      std::string item = list.substr(from, to - from);
      from = to + 1;
      size_t used = 0;
      int value = -1;
      try {
        value = std::stoi(item, &used);
      } catch (const std::exception&) {
      }
      if (used != item.size() || value < 0)
        fail(exitUsage, "-p takes partition numbers such as 0 or 0,3, not '{}'", list);
      if (std::find(there.begin(), there.end(), value) == there.end()) {
        fail(exitNotFound, "topic '{}' has no partition {}; it has 0 to {}", topic, value, there.back());
      }
      if (std::find(wanted.begin(), wanted.end(), value) == wanted.end()) wanted.push_back(value);
    }
  }
  return wanted;
}

class Consumer {
 public:
  Consumer(const Arguments& arguments, std::string topic, std::map<int32_t, PartitionBounds> bounds, Read read)
      : bounds_(std::move(bounds)) {
    Properties properties = {
        {"enable.partition.eof", "true"},
        {"auto.offset.reset", "error"},
        {"isolation.level", read == Read::committed ? "read_committed" : "read_uncommitted"},
        {"fetch.wait.max.ms", "100"},
        {"queued.max.messages.kbytes", "65536"},
        // With fewer, librdkafka 2.0 sleeps for a second whenever a fetch of tiny records fills its queue.
        {"queued.min.messages", "300000"},
        {"check.crcs", "true"},
        {"allow.auto.create.topics", "false"},
        {"socket.nagle.disable", "true"},
    };
    handle_ = makeHandle(RD_KAFKA_CONSUMER, arguments, properties, this, [](rd_kafka_conf_t*) {});
    topic_.reset(rd_kafka_topic_new(handle_.get(), topic.c_str(), nullptr));
    queue_.reset(rd_kafka_queue_new(handle_.get()));
    for (const auto& [partition, bound] : bounds_) {
      if (bound.to && bound.from >= *bound.to) continue;
      if (rd_kafka_consume_start_queue(topic_.get(), partition, bound.from, queue_.get()) != 0) {
        fail(exitFailed, "{}-{}: {}", topic, partition, describeError(rd_kafka_last_error(), nullptr));
      }
      active_.push_back(partition);
    }
  }

  ~Consumer() {
    for (int32_t partition : active_) rd_kafka_consume_stop(topic_.get(), partition);
  }
  Consumer(const Consumer&) = delete;
  Consumer& operator=(const Consumer&) = delete;

  bool done() const { return active_.empty(); }

  // Hands every record that arrives within `wait` to `take`, which answers false when it has enough. Answers whether
  // anything arrived.
  template <class Take>
  bool poll(std::chrono::milliseconds wait, Take&& take) {
    rd_kafka_message_t* messages[1000];
    ssize_t count =
        rd_kafka_consume_batch_queue(queue_.get(), static_cast<int>(wait.count()), messages, std::size(messages));
    if (count < 0) fail(exitFailed, "{}", describeError(rd_kafka_last_error(), nullptr));
    bool any = false, more = true;
    try {
      for (ssize_t i = 0; i < count; ++i) {
        if (more) any |= look(*messages[i], more, take);
      }
    } catch (...) {
      for (ssize_t i = 0; i < count; ++i) rd_kafka_message_destroy(messages[i]);
      throw;
    }
    for (ssize_t i = 0; i < count; ++i) rd_kafka_message_destroy(messages[i]);
    return any;
  }

 private:
  template <class Take>
  bool look(const rd_kafka_message_t& message, bool& more, Take&& take) {
    const PartitionBounds& bound = bounds_[message.partition];
    if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
      if (bound.to && message.offset >= *bound.to) finish(message.partition);
      return false;
    }
    if (message.err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      if (message.err == RD_KAFKA_RESP_ERR__AUTO_OFFSET_RESET) {
        fail(exitFailed,
             "{}-{}: the next record to read is gone: it was removed before it was read, or the topic was deleted and "
             "made again",
             rd_kafka_topic_name(topic_.get()), message.partition);
      }
      // Leader changes and lost connections are retried by the library; what arrives here is final for the partition.
      fail(exitCodeOf(message.err), "{}-{}: {}", rd_kafka_topic_name(topic_.get()), message.partition,
           describeError(message.err, static_cast<const char*>(message.payload)));
    }
    if (bound.to && message.offset >= *bound.to) {
      finish(message.partition);
      return false;
    }
    more = take(message);
    if (bound.to && message.offset + 1 >= *bound.to) finish(message.partition);
    return true;
  }

  void finish(int32_t partition) {
    auto at = std::find(active_.begin(), active_.end(), partition);
    if (at == active_.end()) return;
    active_.erase(at);
    rd_kafka_consume_stop(topic_.get(), partition);
  }

  std::map<int32_t, PartitionBounds> bounds_;
  Handle handle_;
  std::unique_ptr<rd_kafka_topic_t, TopicDeleter> topic_;
  std::unique_ptr<rd_kafka_queue_t, QueueDeleter> queue_;
  std::vector<int32_t> active_;
};

int runConsume(const Arguments& arguments) {
  RecordStyle style = recordStyle(arguments);
  if (arguments.has("group")) return consumeInGroup(arguments, std::move(style));
  for (std::string_view flag : {"exec", "batch", "on-error", "no-commit", "instance", "protocol"}) {
    if (arguments.has(flag)) fail(exitUsage, "--{} needs a group: -g GROUP", flag);
  }
  if (arguments.positionals().size() > 1) fail(exitUsage, "more than one topic needs a group: -g GROUP");
  std::string topic = *arguments.positional(0);
  auto range = parseOffsetRange(arguments.text("offset", "start"), wallClockMs());
  if (!range) fail(exitUsage, "--offset: {}", range.failure().message);
  Read read = arguments.has("read-uncommitted") ? Read::uncommitted : Read::committed;
  int64_t limit = arguments.number("number", 1, INT64_MAX).value_or(INT64_MAX);
  auto timeout = arguments.number("timeout", 1, 86'400'000);

  Client client(clientOptions(arguments));
  auto partitions = partitionsWanted(arguments, topic, partitionsOf(client, topic));
  auto bounds = resolveBounds(client, topic, partitions, *range, arguments.has("exit"), read);
  Consumer consumer(arguments, topic, std::move(bounds), read);

  Interrupts interrupts;
  Output out;
  std::string text;
  int64_t printed = 0;
  auto lastRecord = Clock::now();
  while (!consumer.done() && printed < limit && !Interrupts::any()) {
    bool any =
        consumer.poll(std::chrono::milliseconds(out.buffered() > 0 ? 0 : 100), [&](const rd_kafka_message_t& message) {
          text.clear();
          appendRecord(text, message, style);
          out.write(text);
          return ++printed < limit;
        });
    // Nothing more right now: what there is must not wait in our buffer.
    if (!any) out.flush();
    if (any) lastRecord = Clock::now();
    if (timeout && !any && Clock::now() - lastRecord >= std::chrono::milliseconds(*timeout)) {
      out.flush();
      fail(exitNothing, "no record within {} ms ({} printed)", *timeout, printed);
    }
    if (!any && !consumer.done()) {
      // The reader of our output may have left while there is nothing to write.
      pollfd item{STDOUT_FILENO, 0, 0};
      if (::poll(&item, 1, 0) > 0 && (item.revents & POLLERR)) throw CommandError{exitPipe, ""};
    }
  }
  out.flush();
  if (Interrupts::any()) return Interrupts::exitCode();
  return exitDone;
}

}  // namespace

Command consumeCommand() {
  return {
      .path = "consume",
      .summary = "Print the records of a topic, alone or as a member of a group",
      .details =
          "Reads all partitions, or those of -p, from the start and follows; -e stops at the end as it is when the "
          "command starts. Values go to "
          "stdout, each with a newline behind it; on a terminal non-printing bytes are escaped. Records of open and "
          "aborted transactions are not shown.\n\n"
          "--offset FROM or FROM:TO, TO exclusive: start, end, N, -N (before the end), +N (behind the start), @TIME, "
          "where TIME is epoch seconds or "
          "milliseconds, a date, RFC 3339, or -1h, -30m: from then on.\n\n"
          "With -g the members of the group share the partitions of the topics and begin where the group has stopped "
          "(stored), which is the start when it has committed nothing. Committed, once a second and at the end, is "
          "what "
          "stdout has taken with all its bytes, also on a closed pipe, Ctrl-C and SIGTERM. A commit proves delivery to "
          "the pipe only: not that its reader has done anything with it. Where that matters use --exec, or --no-commit "
          "and mq group import.\n\n"
          "--exec runs a shell command for each batch, with the values on stdin (framed as they would be on stdout) "
          "and "
          "MQ_TOPIC, MQ_PARTITION, MQ_OFFSET and MQ_KEY of the first record set; MQ_KEY is missing for a null key and "
          "for one with a NUL byte. A batch is of one partition and not waited for: it has what is there. Exit code 0 "
          "commits; 75 runs it again, after a while that grows; anything else stops uncommitted with exit code 1. A "
          "record may be handed over again after a crash or a rebalance, so the command should be able to meet it "
          "twice.",
      .positionals = {{.name = "TOPIC", .help = "the topic; with -g one or more", .repeats = true}},
      .flags = withKafkaFlags(withRecordStyleFlags({
          {.name = "partition", .shortNames = "p", .value = "N,...", .help = "only these partitions", .repeats = true},
          {.name = "offset",
           .shortNames = "o",
           .value = "RANGE",
           .help = "where to begin and stop (default start, with -g stored)"},
          {.name = "exit", .shortNames = "e", .help = "stop at the end"},
          {.name = "number", .shortNames = "nc", .value = "N", .help = "stop after N records"},
          {.name = "timeout", .value = "MS", .help = "stop with exit code 3 when nothing arrived for so long"},
          {.name = "read-uncommitted", .help = "also records of open and aborted transactions"},
          {.name = "group", .shortNames = "g", .value = "GROUP", .help = "read as a member of this group"},
          {.name = "protocol", .value = "NAME", .help = "of the group: classic (the default, and the only one)"},
          {.name = "instance",
           .value = "ID",
           .help = "a static member: it keeps its partitions over a restart that is shorter than its session"},
          {.name = "no-commit", .help = "read from where the group is and leave it there"},
          {.name = "exec", .value = "CMD", .help = "run this for each batch; its exit code decides the commit"},
          {.name = "batch", .value = "N", .help = "records for one run of --exec, at most (default 1)"},
          {.name = "on-error",
           .value = "stop|skip",
           .help = "when --exec fails: stop, or log the offsets and go on (default stop)"},
      })),
      .examples = {{"mq consume orders -o -10 -e", "the last ten records of each partition"},
                   {"mq consume orders -o @-10m:end -J | jq -r .value", "ten minutes, ends by itself"},
                   {"mq consume blobs -p 0 -e --raw | tar x", "what mq produce --chunk wrote"},
                   {"mq consume -g billing orders --exec ./charge", "each order is committed when charge ends with 0"},
                   {"mq consume -g billing orders -n 1000 --no-commit -J > batch.jsonl",
                    "for a commit by hand, see mq group import"}},
      .run = runConsume};
}

}  // namespace mq::cli
