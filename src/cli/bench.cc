// `mq bench produce|consume|e2e`: what a user's program would get, by librdkafka. Latencies count from the moment a
// record was due, so a stall shows in every record that it held up (open loop).
#include <algorithm>
#include <chrono>
#include <cstring>

#include "base/random.h"
#include "cli/commands.h"
#include "cli/kafka_client.h"
#include "cli/offset_range.h"
#include "cli/output.h"

namespace mq::cli {
namespace {
using Clock = std::chrono::steady_clock;

int64_t nanosecondsNow() { return Clock::now().time_since_epoch().count(); }

// Exact up to four million values; beyond, a uniform sample of so many (reservoir sampling).
class Latencies {
 public:
  void record(int64_t nanoseconds) {
    uint32_t us = static_cast<uint32_t>(std::clamp<int64_t>(nanoseconds / 1000, 0, UINT32_MAX));
    max_ = std::max(max_, us);
    ++count_;
    if (values_.size() < kKept) {
      values_.push_back(us);
    } else if (uint64_t at = random_.below(count_); at < kKept) {
      values_[at] = us;
    }
  }
  uint32_t quantile(double q) {  // microseconds
    if (values_.empty()) return 0;
    if (q >= 1) return max_;
    auto at = values_.begin() + static_cast<ptrdiff_t>(q * static_cast<double>(values_.size() - 1));
    std::nth_element(values_.begin(), at, values_.end());
    return *at;
  }

 private:
  static constexpr size_t kKept = 4'000'000;
  std::vector<uint32_t> values_;
  uint64_t count_ = 0;
  uint32_t max_ = 0;
  Prng random_{1};
};

struct Measured {
  uint64_t records = 0;
  uint64_t bytes = 0;
  uint64_t failed = 0;
  std::string firstError;
  Latencies latency;
};

void onDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
  auto& measured = *static_cast<Measured*>(opaque);
  if (message->err) {
    if (measured.failed++ == 0) measured.firstError = describeError(message->err, nullptr);
    return;
  }
  ++measured.records;
  measured.bytes += message->len;
  measured.latency.record(nanosecondsNow() - reinterpret_cast<intptr_t>(message->_private));
}

struct Load {
  size_t size;
  uint64_t records;
  double seconds;
  int64_t rate;  // records a second; 0: as fast as they go
};

Load loadOf(const Arguments& arguments, int64_t rateDefault, int64_t secondsDefault) {
  Load load;
  load.size = static_cast<size_t>(arguments.number("size", 8, 100'000'000).value_or(1024));
  load.records = static_cast<uint64_t>(arguments.number("number", 1, INT64_MAX).value_or(INT64_MAX));
  load.seconds = static_cast<double>(
      arguments.number("seconds", 1, 86'400).value_or(arguments.has("number") ? 86'400 : secondsDefault));
  load.rate = arguments.number("rate", 1, 100'000'000).value_or(rateDefault);
  return load;
}

// Half of it compresses, half does not: about 2:1, as text does.
Buffer payload(size_t size, uint64_t seed) {
  Prng random(seed);
  Buffer bytes(size);
  for (size_t i = 0; i < size; ++i)
    bytes[i] = i / 32 % 2 ? static_cast<uint8_t>('a' + i % 16) : static_cast<uint8_t>(random.next());
  return bytes;
}

void print(const Arguments& arguments, std::string_view what, Measured& measured, double seconds, bool latency) {
  Output out;
  double perSecond = static_cast<double>(measured.records) / seconds,
         mb = static_cast<double>(measured.bytes) / seconds / 1e6;
  auto us = [&](double quantile) { return static_cast<double>(measured.latency.quantile(quantile)); };
  if (arguments.has("json")) {
    out.write(
        fmt::format("{{\"bench\":\"{}\",\"records\":{},\"failed\":{},\"seconds\":{:.3f},\"records_per_s\":{:.0f},\"mb_"
                    "per_s\":{:.2f}",
                    what, measured.records, measured.failed, seconds, perSecond, mb));
    if (latency) {
      out.write(
          fmt::format(",\"p50_us\":{:.0f},\"p90_us\":{:.0f},\"p99_us\":{:.0f},\"p999_us\":{:.0f},\"max_us\":{:.0f}",
                      us(0.5), us(0.9), us(0.99), us(0.999), us(1.0)));
    }
    out.write("}\n");
  } else {
    out.write(fmt::format("{}: {} records in {:.1f} s, {:.0f}/s, {:.1f} MB/s", what, measured.records, seconds,
                          perSecond, mb));
    if (latency)
      out.write(fmt::format("; latency p50 {:.2f} p90 {:.2f} p99 {:.2f} p99.9 {:.2f} max {:.2f} ms", us(0.5) / 1000,
                            us(0.9) / 1000, us(0.99) / 1000, us(0.999) / 1000, us(1.0) / 1000));
    out.write(measured.failed ? fmt::format("; {} failed, first: {}\n", measured.failed, measured.firstError) : "\n");
  }
  out.flush();
}

Handle producerHandle(const Arguments& arguments, Measured& measured, bool lowLatency) {
  std::string acks = arguments.text("acks", "all");
  Properties properties = {{"acks", acks},
                           {"enable.idempotence", acks == "all" && !lowLatency ? "true" : "false"},
                           {"compression.codec", arguments.text("compression", "none")},
                           {"linger.ms", lowLatency ? "0" : "5"},
                           {"batch.size", "1000000"},
                           {"queue.buffering.max.kbytes", "65536"},
                           {"queue.buffering.max.messages", "1000000"},
                           {"message.timeout.ms", "30000"},
                           {"partitioner", "murmur2_random"}};
  return makeHandle(RD_KAFKA_PRODUCER, arguments, properties, &measured,
                    [](rd_kafka_conf_t* conf) { rd_kafka_conf_set_dr_msg_cb(conf, onDelivery); });
}

// Sends until the load is over; `everyTurn` runs between records and while waiting.
template <class Fn>
void send(rd_kafka_t* handle, rd_kafka_topic_t* topic, const Load& load, Measured& measured, Fn&& everyTurn) {
  Buffer bytes = payload(load.size, 1);
  int64_t begin = nanosecondsNow();
  int64_t end = begin + static_cast<int64_t>(load.seconds * 1e9);
  for (uint64_t i = 0; i < load.records && !Interrupts::any(); ++i) {
    int64_t now = nanosecondsNow();
    int64_t due = load.rate > 0
                      ? begin + static_cast<int64_t>(static_cast<double>(i) * 1e9 / static_cast<double>(load.rate))
                      : now;
    if (std::max(now, due) >= end) break;
    while (now < due && !Interrupts::any()) {
      int64_t wait = std::min<int64_t>((due - now) / 1'000'000, 10);
      rd_kafka_poll(handle, static_cast<int>(wait));
      everyTurn();
      now = nanosecondsNow();
    }
    std::memcpy(bytes.data(), &due, 8);  // a reader in this process learns from it when the record was due
    while (rd_kafka_produce(topic, RD_KAFKA_PARTITION_UA, RD_KAFKA_MSG_F_COPY, bytes.data(), bytes.size(), nullptr, 0,
                            reinterpret_cast<void*>(due)) != 0) {
      rd_kafka_resp_err_t error = rd_kafka_last_error();
      if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL) fail(exitFailed, "{}", describeError(error, nullptr));
      rd_kafka_poll(handle, 10);
      everyTurn();
    }
    if ((i & 0x3F) == 0) {
      rd_kafka_poll(handle, 0);
      everyTurn();
    }
  }
  while (rd_kafka_outq_len(handle) > 0) {
    rd_kafka_flush(handle, 50);
    everyTurn();
  }
}

int runProduce(const Arguments& arguments) {
  Load load = loadOf(arguments, 0, 10);
  Client client(clientOptions(arguments));
  partitionsOf(client, *arguments.positional(0));
  Measured measured;
  Handle handle = producerHandle(arguments, measured, load.rate > 0);
  rd_kafka_topic_t* topic = rd_kafka_topic_new(handle.get(), arguments.positional(0)->c_str(), nullptr);
  Interrupts interrupts;
  auto begin = Clock::now();
  send(handle.get(), topic, load, measured, [] {});
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  rd_kafka_topic_destroy(topic);
  print(arguments, "produce", measured, seconds, true);
  return Interrupts::any() ? Interrupts::exitCode() : measured.failed ? exitFailed : exitDone;
}

// Reads partitions from `bounds` on, all into one queue.
class Reader {
 public:
  Reader(const Arguments& arguments, const std::string& name, const std::map<int32_t, PartitionBounds>& bounds,
         int waitMs)
      : handle_(makeHandle(RD_KAFKA_CONSUMER, arguments,
                           {{"fetch.wait.max.ms", std::to_string(waitMs)},
                            {"auto.offset.reset", "error"},
                            {"queued.max.messages.kbytes", "65536"}},
                           nullptr, [](rd_kafka_conf_t*) {})),
        topic_(rd_kafka_topic_new(handle_.get(), name.c_str(), nullptr)),
        queue_(rd_kafka_queue_new(handle_.get())) {
    for (const auto& [partition, bound] : bounds) {
      partitions_.push_back(partition);
      if (rd_kafka_consume_start_queue(topic_, partition, bound.from, queue_) != 0)
        fail(exitFailed, "{}", describeError(rd_kafka_last_error(), nullptr));
    }
  }
  ~Reader() {
    for (int32_t partition : partitions_) rd_kafka_consume_stop(topic_, partition);
    rd_kafka_queue_destroy(queue_);
    rd_kafka_topic_destroy(topic_);
  }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  template <class Fn>
  void poll(int waitMs, Fn&& fn) {
    rd_kafka_message_t* messages[1000];
    ssize_t count = rd_kafka_consume_batch_queue(queue_, waitMs, messages, std::size(messages));
    for (ssize_t i = 0; i < count; ++i) {
      if (messages[i]->err == RD_KAFKA_RESP_ERR_NO_ERROR) fn(*messages[i]);
      rd_kafka_message_destroy(messages[i]);
    }
  }

 private:
  Handle handle_;
  rd_kafka_topic_t* topic_;
  rd_kafka_queue_t* queue_;
  std::vector<int32_t> partitions_;
};

int runConsume(const Arguments& arguments) {
  std::string topic = *arguments.positional(0);
  uint64_t limit = static_cast<uint64_t>(arguments.number("number", 1, INT64_MAX).value_or(INT64_MAX));
  auto seconds = static_cast<double>(arguments.number("seconds", 1, 86'400).value_or(86'400));
  Client client(clientOptions(arguments));
  auto bounds = resolveBounds(client, topic, partitionsOf(client, topic), {}, true, Read::uncommitted);
  uint64_t there = 0;
  for (const auto& [partition, bound] : bounds) there += static_cast<uint64_t>(*bound.to - bound.from);
  Measured measured;
  Interrupts interrupts;
  Reader reader(arguments, topic, bounds, 100);
  auto begin = Clock::now();
  auto last = begin;
  while (measured.records < std::min(limit, there) && !Interrupts::any()) {
    reader.poll(100, [&](const rd_kafka_message_t& message) {
      ++measured.records;
      measured.bytes += message.len;
      last = Clock::now();
    });
    auto now = Clock::now();
    if (std::chrono::duration<double>(now - begin).count() > seconds) break;
    if (now - last > std::chrono::seconds(30))
      fail(exitNothing, "nothing arrived for 30 s, after {} of {} records", measured.records, there);
  }
  print(arguments, "consume", measured, std::max(std::chrono::duration<double>(last - begin).count(), 1e-6), false);
  return Interrupts::any() ? Interrupts::exitCode() : exitDone;
}

int runEndToEnd(const Arguments& arguments) {
  std::string name = *arguments.positional(0);
  Load load = loadOf(arguments, 1000, 10);
  Client client(clientOptions(arguments));
  auto range = parseOffsetRange("end", 0);
  auto bounds = resolveBounds(client, name, partitionsOf(client, name), *range, false, Read::uncommitted);
  Measured sent, received;
  Handle handle = producerHandle(arguments, sent, true);
  rd_kafka_topic_t* topic = rd_kafka_topic_new(handle.get(), name.c_str(), nullptr);
  Interrupts interrupts;
  Reader reader(arguments, name, bounds, 500);
  auto take = [&](const rd_kafka_message_t& message) {
    if (message.len < 8) return;
    int64_t due;
    std::memcpy(&due, message.payload, 8);
    ++received.records;
    received.bytes += message.len;
    received.latency.record(nanosecondsNow() - due);
  };
  auto begin = Clock::now();
  send(handle.get(), topic, load, sent, [&] { reader.poll(0, take); });
  for (auto deadline = Clock::now() + std::chrono::seconds(10);
       received.records < sent.records && Clock::now() < deadline && !Interrupts::any();)
    reader.poll(50, take);
  double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  rd_kafka_topic_destroy(topic);
  print(arguments, "ack", sent, seconds, true);
  print(arguments, "end to end", received, seconds, true);
  if (received.records < sent.records)
    fail(exitFailed, "{} acknowledged records did not arrive within 10 s", sent.records - received.records);
  return Interrupts::any() ? Interrupts::exitCode() : sent.failed ? exitFailed : exitDone;
}

std::vector<Flag> withLoadFlags(std::vector<Flag> own) {
  own.push_back({.name = "size", .value = "BYTES", .help = "of a value (default 1024)"});
  own.push_back({.name = "number", .shortNames = "n", .value = "N", .help = "records"});
  own.push_back({.name = "seconds", .value = "N", .help = "how long (default 10, without -n)"});
  own.push_back({.name = "rate",
                 .value = "N",
                 .help = "records a second, due at fixed times (produce: as fast as they go; e2e: 1000)"});
  own.push_back({.name = "acks", .value = "N", .help = "0, 1 or all (default all)"});
  own.push_back({.name = "compression", .shortNames = "z", .value = "CODEC", .help = "of the producer (default none)"});
  return own;
}

const Positional kTopic = {.name = "TOPIC", .help = "a topic that is there; bench writes to it"};

}  // namespace

std::vector<Command> benchCommands() {
  Flag json = {.name = "json", .shortNames = "J", .help = "one line of JSON"};
  return {
      {.path = "bench", .summary = "Measure produce, consume and end-to-end latency"},
      {.path = "bench produce",
       .summary = "Write records and measure throughput and the time to their acknowledgement",
       .positionals = {kTopic},
       .flags = withKafkaFlags(withLoadFlags({json})),
       .run = runProduce},
      {.path = "bench consume",
       .summary = "Read a topic from its start and measure throughput",
       .positionals = {{.name = "TOPIC", .help = "what to read"}},
       .flags = withKafkaFlags({{.name = "number", .shortNames = "n", .value = "N", .help = "records"},
                                {.name = "seconds", .value = "N", .help = "at most so long"},
                                json}),
       .run = runConsume},
      {.path = "bench e2e",
       .summary = "Write at a rate, read in the same process, and measure both latencies",
       .positionals = {kTopic},
       .flags = withKafkaFlags(withLoadFlags({json})),
       .run = runEndToEnd},
  };
}

}  // namespace mq::cli
