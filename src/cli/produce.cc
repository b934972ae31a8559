// `mq produce`: stdin or files into a topic. Every record that was read is acknowledged or reported as failed before
// the command ends; the exit code is 0 only if all were acknowledged.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <set>

#include "cli/commands.h"
#include "cli/input.h"
#include "cli/kafka_client.h"
#include "cli/output.h"
#include "cli/record_text.h"
#include "wire/create_topics_request.h"
#include "wire/create_topics_response.h"
#include "wire/describe_configs_request.h"
#include "wire/describe_configs_response.h"

namespace mq::cli {
namespace {
using Clock = std::chrono::steady_clock;
constexpr int kCommitTryMs = 5000;                  // then the signals and the time are looked at
constexpr size_t kRecordBytesMaxDefault = 1048588;  // Kafka's max.message.bytes

// What one run counts. Delivery reports arrive in poll() and flush(), on the command's own thread.
struct Delivery {
  uint64_t read = 0;
  uint64_t acknowledged = 0;
  uint64_t failed = 0;
  uint64_t committed = 0;  // --txn: of those acknowledged
  uint64_t bytes = 0;
  std::string firstError;
  int exitCode = exitDone;

  void fail(uint64_t number, std::string_view unit, const std::string& why, int code) {
    ++failed;
    if (firstError.empty()) {
      firstError = fmt::format("{} {}: {}", unit, number, why);
      exitCode = code;
    }
  }
};

struct Run {
  Delivery delivery;
  std::string_view unit;  // "line", "record", "chunk"
};

void onDelivery(rd_kafka_t*, const rd_kafka_message_t* message, void* opaque) {
  auto& run = *static_cast<Run*>(opaque);
  if (message->err == RD_KAFKA_RESP_ERR_NO_ERROR) {
    ++run.delivery.acknowledged;
    return;
  }
  run.delivery.fail(reinterpret_cast<uintptr_t>(message->_private), run.unit, describeError(message->err, nullptr),
                    exitCodeOf(message->err) == exitNotFound ? exitNotFound : exitFailed);
}

size_t parseSize(const std::string& text, std::string_view flag) {
  char* end = nullptr;
  errno = 0;
  unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  std::string_view unit = end;
  int shift = unit.empty() || unit == "B"    ? 0
              : unit == "K" || unit == "KiB" ? 10
              : unit == "M" || unit == "MiB" ? 20
                                             : -1;
  if (text.empty() || text[0] == '-' || errno || shift < 0 || value == 0 || value > (size_t{1} << 30) >> shift) {
    fail(exitUsage, "--{} takes a size such as 64K or 1M, at most 1024M, not '{}'", flag, text);
  }
  return static_cast<size_t>(value) << shift;
}

InputOptions inputOptions(const Arguments& arguments) {
  InputOptions options;
  int framings = 0;
  for (std::string_view flag : {"delimiter", "null-delimiter", "len", "chunk", "json"}) framings += arguments.has(flag);
  if (framings > 1) fail(exitUsage, "only one of -D, -0, --len, --chunk and -J makes sense at a time");
  if (auto delimiter = arguments.text("delimiter")) options.delimiter = unescape(*delimiter, "delimiter");
  if (arguments.has("null-delimiter")) options.delimiter = std::string(1, '\0');
  if (arguments.has("len")) options.framing = Framing::lengthPrefixed;
  if (auto chunk = arguments.text("chunk")) {
    options.framing = Framing::chunks;
    options.chunkBytes = parseSize(*chunk, "chunk");
  }
  if (arguments.has("json")) options.framing = Framing::json;
  if (auto key = arguments.text("key-delimiter")) {
    if (options.framing != Framing::delimited)
      fail(exitUsage, "-K splits lines; it does not go with --len, --chunk or -J");
    options.keyDelimiter = unescape(*key, "key-delimiter");
  }
  options.emptyIsNull = arguments.has("empty-is-null");
  return options;
}

// A topic that records go to: there, or made, or the command ends with the line that would make it.
class Topics {
 public:
  Topics(const Arguments& arguments, bool usable)
      : arguments_(arguments), client_(clientOptions(arguments)), usable_(usable) {}

  // What a batch of it may hold, in bytes.
  size_t ensure(const std::string& topic) {
    if (!usable_) return kRecordBytesMaxDefault;
    std::vector<std::string> names = {topic};
    auto metadata = client_.metadata(&names);
    Error error = metadata.topics.empty() ? Error::unknownTopicOrPartition : metadata.topics[0].errorCode;
    if (error == Error::unknownTopicOrPartition && arguments_.has("create")) {
      create(topic);
    } else if (error == Error::unknownTopicOrPartition) {
      fail(exitNotFound, "topic '{}' does not exist on {} ({} {}); create it with: mq topic create {} -b {}", topic,
           client_.where(), kafkaName(error), static_cast<int>(error), topic, brokerList(arguments_));
    } else if (error != Error::none && !isRetriable(error)) {
      fail(exitCodeOf(error), "topic '{}': {}", topic, describeError(error, std::nullopt));
    }
    return batchBytesMax(topic);
  }

 private:
  void create(const std::string& topic) {
    wire::CreateTopicsRequest request;
    request.topics.emplace_back();
    request.topics[0].name = topic;
    request.topics[0].numPartitions = -1;
    request.topics[0].replicationFactor = -1;
    request.timeoutMs = static_cast<int32_t>(clientOptions(arguments_).timeout.count());
    auto response = client_.call(request, Client::kController);
    if (response.topics.empty()) fail(exitFailed, "topic '{}': {} gave no answer", topic, client_.where());
    Error error = response.topics[0].errorCode;
    if (error != Error::none && error != Error::topicAlreadyExists) {
      fail(exitCodeOf(error), "topic '{}' could not be created: {}", topic,
           describeError(error, response.topics[0].errorMessage));
    }
    if (error == Error::none) fmt::print(stderr, "created topic '{}'\n", topic);
  }

  size_t batchBytesMax(const std::string& topic) {
    wire::DescribeConfigsRequest request;
    request.resources.emplace_back();
    request.resources[0].resourceType = 2;
    request.resources[0].resourceName = topic;
    request.resources[0].configurationKeys = {"max.message.bytes"};
    if (client_.versionOf(wire::DescribeConfigsRequest::kApiKey, wire::DescribeConfigsRequest::kVersionMin,
                          wire::DescribeConfigsRequest::kVersionMax) < 0) {
      return kRecordBytesMaxDefault;
    }
    auto response = client_.call(request);
    // Without the right to look, the default it is.
    if (response.results.empty() || response.results[0].errorCode != Error::none || response.results[0].configs.empty())
      return kRecordBytesMaxDefault;
    size_t bytes = std::strtoull(response.results[0].configs[0].value.value_or("").c_str(), nullptr, 10);
    return bytes > 0 ? bytes : kRecordBytesMaxDefault;
  }

  const Arguments& arguments_;
  Client client_;
  bool usable_;
};

bool setsSecurity(const Arguments& arguments) {
  for (const std::string& property : arguments.all("property")) {
    if (property.starts_with("security.") || property.starts_with("sasl.") || property.starts_with("ssl.")) return true;
  }
  return false;
}

// What the flags ask for, checked before any broker is asked for anything.
struct Wanted {
  explicit Wanted(const Arguments& arguments) : acks(arguments.text("acks", "all")), key(arguments.text("key")) {
    if (acks != "0" && acks != "1" && acks != "all" && acks != "-1")
      fail(exitUsage, "--acks takes 0, 1 or all, not '{}'", acks);
    timeoutMs = arguments.number("timeout", 1, 86'400'000).value_or(30'000);
    if (auto given = arguments.number("partition", 0, INT32_MAX)) partition = static_cast<int32_t>(*given);
    for (const std::string& header : arguments.all("header")) {
      size_t equals = header.find('=');
      if (equals == std::string::npos || equals == 0) fail(exitUsage, "-H {}: it takes NAME=VALUE", header);
      headers.emplace_back(header.substr(0, equals), header.substr(equals + 1));
    }
    txn = arguments.text("txn");
    if (txn && txn->empty()) fail(exitUsage, "--txn takes a transactional id, which stays the same from run to run");
    if (txn && acks != "all" && acks != "-1") fail(exitUsage, "--txn needs --acks all");
    if (auto every = arguments.text("txn-every")) parseEvery(*every);
    if (arguments.has("txn-every") && !txn) fail(exitUsage, "--txn-every goes with --txn ID");
  }

  // "1000" records, "100ms", "5s"
  void parseEvery(const std::string& text) {
    char* end = nullptr;
    errno = 0;
    const unsigned long long number = std::strtoull(text.c_str(), &end, 10);
    const std::string_view unit = end;
    if (std::isdigit(static_cast<unsigned char>(text[0])) && errno == 0 && number > 0 && number < 1'000'000'000'000) {
      using std::chrono::milliseconds;
      if (unit.empty()) txnEvery = number;
      if (unit == "ms") txnWithin = milliseconds(number);
      if (unit == "s") txnWithin = milliseconds(number * 1000);
      if (unit.empty() || unit == "ms" || unit == "s") return;
    }
    fail(exitUsage, "--txn-every takes a number of records or a time such as 100ms or 5s, not '{}'", text);
  }

  std::string acks;
  int64_t timeoutMs = 0;
  int32_t partition = -1;  // by key
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<std::string> key;
  std::optional<std::string> txn;
  uint64_t txnEvery = 0;                   // records; 0: no such limit
  std::chrono::milliseconds txnWithin{0};  // 0: no such limit; without either all is one transaction
};

class Producer {
 public:
  Producer(const Arguments& arguments, Wanted wanted, Run& run, size_t recordBytesMax)
      : run_(run), wanted_(std::move(wanted)) {
    Properties properties = {
        {"acks", wanted_.acks},
        {"enable.idempotence", wanted_.acks == "all" || wanted_.acks == "-1" ? "true" : "false"},
        {"compression.codec", arguments.text("compression", "none")},
        {"message.timeout.ms", std::to_string(wanted_.timeoutMs)},
        {"message.max.bytes", std::to_string(std::clamp<size_t>(recordBytesMax, 1000, 1'000'000'000))},
        {"batch.size", "1000000"},
        {"linger.ms", "5"},
        {"queue.buffering.max.messages", "1000000"},
        {"queue.buffering.max.kbytes", "65536"},
        {"partitioner", "murmur2_random"},
        {"topic.metadata.refresh.interval.ms", "30000"},
        {"socket.nagle.disable", "true"},
    };
    if (wanted_.txn) {
      properties.emplace_back("transactional.id", *wanted_.txn);
      properties.emplace_back("transaction.timeout.ms", std::to_string(transactionTimeout().count()));
    }
    handle_ = makeHandle(RD_KAFKA_PRODUCER, arguments, properties, &run,
                         [](rd_kafka_conf_t* conf) { rd_kafka_conf_set_dr_msg_cb(conf, onDelivery); });
    keepPartition_ = arguments.has("keep-partition");
    oneTo_ = arguments.has("chunk") && wanted_.partition < 0 ? 0 : wanted_.partition;
  }

  void send(const std::string& topic, const InputRecord& record) {
    rd_kafka_headers_t* headers = nullptr;
    const JsonRecord* json = record.json;
    if (!wanted_.headers.empty() || (json && !json->headers.empty())) {
      headers = rd_kafka_headers_new(wanted_.headers.size() + (json ? json->headers.size() : 0));
      if (json) {
        for (const auto& [name, value] : json->headers) {
          rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()),
                              value ? notNull(*value) : nullptr, value ? static_cast<ssize_t>(value->size()) : 0);
        }
      }
      for (const auto& [name, value] : wanted_.headers) {
        rd_kafka_header_add(headers, name.data(), static_cast<ssize_t>(name.size()), value.data(),
                            static_cast<ssize_t>(value.size()));
      }
    }
    std::optional<Bytes> key = record.key, value = record.value;
    if (json) {
      if (json->key) key = Bytes(*json->key);
      if (json->value) value = Bytes(*json->value);
    }
    if (!key && wanted_.key) key = asBytes(*wanted_.key);
    int32_t partition = json && keepPartition_ && json->partition ? *json->partition : oneTo_;
    int64_t timestamp = json ? json->timestamp.value_or(0) : 0;
    if (json && json->timestamp == 0 && !std::exchange(warnedOfZero_, true)) {
      fmt::print(stderr, "mq: {} {}: \"ts\":0 cannot be sent (to librdkafka it means no time): it becomes now\n",
                 run_.unit, record.number);
    }
    for (;;) {
      rd_kafka_resp_err_t error = enqueue(topic, partition, record.number, key, value, timestamp, headers);
      if (error == RD_KAFKA_RESP_ERR_NO_ERROR) {
        run_.delivery.bytes += value ? value->size() : 0;
        break;
      }
      if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        rd_kafka_poll(handle_.get(), 100);
        continue;
      }
      if (headers) rd_kafka_headers_destroy(headers);
      run_.delivery.fail(record.number, run_.unit, describeError(error, nullptr),
                         exitCodeOf(error) == exitNotFound ? exitNotFound : exitFailed);
      break;
    }
    if ((record.number & 0xFF) == 0) rd_kafka_poll(handle_.get(), 0);
  }

  // Something that will not get better: fenced, or sequences forgotten by the cluster.
  bool dead(std::string* why) const {
    char text[512];
    rd_kafka_resp_err_t error = rd_kafka_fatal_error(handle_.get(), text, sizeof text);
    if (error) *why = describeError(error, text);
    return error != RD_KAFKA_RESP_ERR_NO_ERROR;
  }

  bool isTransactional() const { return wanted_.txn.has_value(); }

  // Waits for the coordinator, ends what a run before has left open under this id, and fences it.
  void beginFirst() {
    auto timeout = static_cast<int>(wanted_.timeoutMs);
    std::string why;
    if (succeeds(rd_kafka_init_transactions(handle_.get(), timeout), &why)) begin(&why);
    if (!why.empty()) fail(exitFailed, "--txn {}: {}", *wanted_.txn, why);
  }
  // After a record; commits when it is the last one of its transaction. False: it was aborted, `why` says why.
  bool sentOne(std::string* why) {
    ++inTransaction_;
    const bool isFull = wanted_.txnEvery > 0 && inTransaction_ >= wanted_.txnEvery;
    return isFull || isDue() ? commit(why) && begin(why) : true;
  }
  // While no record comes.
  bool idle(std::string* why) { return inTransaction_ > 0 && isDue() ? commit(why) && begin(why) : true; }
  // All or nothing; what had failed in it makes it nothing.
  bool commit(std::string* why) {
    const Delivery& delivery = run_.delivery;
    // Behind its time-out the coordinator has ended the transaction itself.
    const Clock::time_point deadline = Clock::now() + transactionTimeout();
    if (delivery.failed == 0) {
      for (;;) {
        rd_kafka_error_t* error = rd_kafka_commit_transaction(handle_.get(), kCommitTryMs);
        const bool again = error != nullptr && rd_kafka_error_is_retriable(error);
        if (succeeds(error, why)) {
          run_.delivery.committed = delivery.acknowledged;
          isOpen_ = false;
          return true;
        }
        if (!again || Interrupts::any() || Clock::now() >= deadline) break;
        why->clear();
      }
    }
    abort();
    return false;
  }
  void abort() {
    if (!std::exchange(isOpen_, false)) return;
    std::string why;
    rd_kafka_error_t* error = rd_kafka_abort_transaction(handle_.get(), static_cast<int>(wanted_.timeoutMs));
    const bool isFenced = error != nullptr && rd_kafka_error_is_fatal(error) != 0;  // who fenced it has ended it
    if (!succeeds(error, &why) && !isFenced)
      fmt::print(stderr, "mq: the transaction could not be aborted, its time-out will do that: {}\n", why);
  }

  // Ends when every record is acknowledged or has failed; message.timeout.ms bounds it.
  template <class Fn>
  void flush(Fn&& meanwhile) {
    while (rd_kafka_outq_len(handle_.get()) > 0) {
      rd_kafka_flush(handle_.get(), 200);
      meanwhile();
    }
  }

 private:
  std::chrono::milliseconds transactionTimeout() const {
    return std::chrono::milliseconds(std::max<int64_t>(wanted_.timeoutMs, 60'000));
  }
  bool isDue() const { return wanted_.txnWithin.count() > 0 && Clock::now() - began_ >= wanted_.txnWithin; }
  bool begin(std::string* why) {
    inTransaction_ = 0;
    began_ = Clock::now();
    isOpen_ = succeeds(rd_kafka_begin_transaction(handle_.get()), why);
    return isOpen_;
  }
  static bool succeeds(rd_kafka_error_t* error, std::string* why) {
    if (error == nullptr) return true;
    *why = describeError(rd_kafka_error_code(error), rd_kafka_error_string(error));
    rd_kafka_error_destroy(error);
    return false;
  }

  rd_kafka_resp_err_t enqueue(const std::string& topic, int32_t partition, uint64_t number,
                              const std::optional<Bytes>& key, const std::optional<Bytes>& value, int64_t timestamp,
                              rd_kafka_headers_t* headers) {
    rd_kafka_vu_t fields[8];
    size_t count = 0;
    auto add = [&](rd_kafka_vtype_t type) -> rd_kafka_vu_t& {
      fields[count] = {};
      fields[count].vtype = type;
      return fields[count++];
    };
    add(RD_KAFKA_VTYPE_TOPIC).u.cstr = topic.c_str();
    add(RD_KAFKA_VTYPE_PARTITION).u.i32 = partition < 0 ? RD_KAFKA_PARTITION_UA : partition;
    add(RD_KAFKA_VTYPE_MSGFLAGS).u.i = RD_KAFKA_MSG_F_COPY;
    if (key) add(RD_KAFKA_VTYPE_KEY).u.mem = {const_cast<void*>(notNull(*key)), key->size()};
    if (value) add(RD_KAFKA_VTYPE_VALUE).u.mem = {const_cast<void*>(notNull(*value)), value->size()};
    add(RD_KAFKA_VTYPE_TIMESTAMP).u.i64 = timestamp;
    if (headers) add(RD_KAFKA_VTYPE_HEADERS).u.headers = headers;
    add(RD_KAFKA_VTYPE_OPAQUE).u.ptr = reinterpret_cast<void*>(static_cast<uintptr_t>(number));
    rd_kafka_error_t* error = rd_kafka_produceva(handle_.get(), fields, count);
    if (!error) return RD_KAFKA_RESP_ERR_NO_ERROR;
    rd_kafka_resp_err_t code = rd_kafka_error_code(error);
    rd_kafka_error_destroy(error);
    return code;
  }

  static const void* notNull(Bytes bytes) { return bytes.data() ? static_cast<const void*>(bytes.data()) : ""; }

  Run& run_;
  Handle handle_;
  Wanted wanted_;
  int32_t oneTo_ = -1;
  bool keepPartition_ = false;
  bool warnedOfZero_ = false;
  bool isOpen_ = false;  // a transaction
  uint64_t inTransaction_ = 0;
  Clock::time_point began_;
};

class Progress {
 public:
  explicit Progress(bool on) : on_(on), begin_(Clock::now()), shown_(begin_) {}
  void show(const Delivery& delivery, bool now = false) {
    if (!on_ || (!now && ++calls_ % 1024 != 0)) return;
    Clock::time_point time = Clock::now();
    if (time - shown_ < std::chrono::milliseconds(500)) return;
    shown_ = time;
    double seconds = std::chrono::duration<double>(time - begin_).count();
    fmt::print(stderr, "\r\033[Kread {}, acknowledged {}, {}/s", delivery.read, delivery.acknowledged,
               humanBytes(static_cast<uint64_t>(static_cast<double>(delivery.bytes) / seconds)));
    dirty_ = true;
  }
  void clear() {
    if (dirty_) fmt::print(stderr, "\r\033[K");
    dirty_ = false;
  }

 private:
  bool on_;
  bool dirty_ = false;
  uint64_t calls_ = 0;
  Clock::time_point begin_, shown_;
};

std::string summary(const Delivery& delivery, bool isTransactional) {
  if (isTransactional)
    return fmt::format("read {}, committed {}, aborted {}", delivery.read, delivery.committed,
                       delivery.read - delivery.committed);
  return fmt::format("read {}, acknowledged {}, failed {}", delivery.read, delivery.acknowledged,
                     delivery.read - delivery.acknowledged);
}

int runProduce(const Arguments& arguments) {
  InputOptions options = inputOptions(arguments);
  std::optional<std::string> topic = arguments.positional(0);
  if (!topic && options.framing != Framing::json)
    fail(exitUsage, "TOPIC is missing (only -J brings its own)\nusage: mq produce TOPIC [FILE...]");
  std::vector<std::string> files(arguments.positionals().begin() + (topic ? 1 : 0), arguments.positionals().end());
  if (files.empty()) files.push_back("-");

  Run run;
  run.unit = options.framing == Framing::delimited || options.framing == Framing::json ? "line"
             : options.framing == Framing::chunks                                      ? "chunk"
                                                                                       : "record";
  Wanted wanted(arguments);
  Topics topics(arguments, !setsSecurity(arguments));
  size_t batchBytesMax = topic ? topics.ensure(*topic) : kRecordBytesMaxDefault;
  Producer producer(arguments, std::move(wanted), run, batchBytesMax);
  options.recordBytesMax =
      options.framing == Framing::json ? std::max<size_t>(batchBytesMax, 1 << 20) * 8 : batchBytesMax;
  if (options.chunkBytes > batchBytesMax) {
    fail(exitUsage,
         "--chunk: the topic takes at most {} bytes in a batch (max.message.bytes); a chunk of {} does not fit",
         batchBytesMax, options.chunkBytes);
  }

  if (producer.isTransactional()) producer.beginFirst();
  Interrupts interrupts;
  Delivery& delivery = run.delivery;
  Progress progress(stderrIsTerminal() && !arguments.has("quiet"));
  std::set<std::string> known;
  bool warned = false;
  std::string dead;
  if (topic) known.insert(*topic);
  if (producer.isTransactional()) {
    options.whileIdle = [&] {
      if (!producer.idle(&dead) && dead.empty()) dead = "a record of it failed";
      return dead.empty();
    };
  }
  try {
    for (const std::string& file : files) {
      int descriptor = file == "-" ? STDIN_FILENO : ::open(file.c_str(), O_RDONLY | O_CLOEXEC);
      if (descriptor < 0) fail(exitFailed, "cannot read {}: {}", file, strerror(errno));
      Input input(descriptor, file == "-" ? "stdin" : file, options);
      InputRecord record;
      while (dead.empty() && input.next(record)) {
        ++delivery.read;
        progress.show(delivery);
        if (record.oversize > 0) {
          delivery.fail(record.number, run.unit,
                        fmt::format("{} bytes are more than the topic takes in a batch ({}, max.message.bytes)",
                                    record.oversize, batchBytesMax),
                        exitFailed);
          continue;
        }
        if (!record.problem.empty()) {
          delivery.fail(record.number, run.unit, record.problem, exitFailed);
          continue;
        }
        std::string name = topic ? *topic : record.json->topic.value_or("");
        if (name.empty()) {
          delivery.fail(record.number, run.unit, "no \"topic\", and none on the command line", exitFailed);
          continue;
        }
        if (known.insert(name).second) topics.ensure(name);
        if (record.json && record.json->logAppendTime && !warned) {
          warned = true;
          fmt::print(stderr,
                     "mq: records with \"tstype\":\"append\" keep their time only if the topic uses CreateTime\n");
        }
        producer.send(name, record);
        if (producer.isTransactional() && !producer.sentOne(&dead)) {
          if (dead.empty()) dead = "a record of it failed";
          break;
        }
        if ((delivery.read & 0xFFF) == 0) producer.dead(&dead);
      }
      if (descriptor != STDIN_FILENO) ::close(descriptor);
      if (Interrupts::any() || !dead.empty()) break;
    }
  } catch (CommandError& error) {
    // What was read before the input broke is still delivered, but for a transaction, which is not whole.
    if (producer.isTransactional()) producer.abort();
    producer.flush([&] { progress.show(delivery, true); });
    progress.clear();
    fmt::print(stderr, "{}\n", summary(delivery, producer.isTransactional()));
    throw;
  }
  if (producer.isTransactional() && dead.empty() && !Interrupts::any()) {
    producer.commit(&dead);
  } else if (producer.isTransactional()) {
    producer.abort();
  }
  producer.flush([&] { progress.show(delivery, true); });
  progress.clear();
  if (dead.empty()) producer.dead(&dead);

  const uint64_t done = producer.isTransactional() ? delivery.committed : delivery.acknowledged;
  bool failed = delivery.failed > 0 || done < delivery.read || !dead.empty();
  if (failed || !arguments.has("quiet")) {
    fmt::print(stderr, "{}{}{}\n", summary(delivery, producer.isTransactional()),
               delivery.firstError.empty() ? "" : "; first error: ", delivery.firstError);
    if (!dead.empty() && delivery.firstError.empty()) fmt::print(stderr, "mq: {}\n", dead);
  }
  if (Interrupts::any()) return Interrupts::exitCode();
  if (!failed) return exitDone;
  return delivery.exitCode == exitDone ? exitFailed : delivery.exitCode;
}

}  // namespace

Command produceCommand() {
  return {
      .path = "produce",
      .summary = "Write records from stdin or files to a topic",
      .details =
          "Each line is a record; the last one counts also without a newline, and an empty line is an empty record. "
          "Records are "
          "acknowledged by all in-sync replicas, in order and without duplicates, before the command ends; a summary "
          "on stderr says how many "
          "were read, acknowledged and failed. A key reaches the same partition as from Java's producer.\n\nThe first "
          "Ctrl-C stops reading, delivers "
          "what was read and ends with 130; a second one leaves at once.\n\nWith --txn all records become visible "
          "together when the input has ended, or none: a record that fails, input that breaks and Ctrl-C abort. "
          "Another run with the same id ends what the one before has left open. Only readers of committed records, "
          "such as mq consume, see it so.",
      .positionals =
          {{.name = "TOPIC",
            .help = "where to; with -J it may be left out, and then each line's \"topic\" counts",
            .required = false},
           {.name = "FILE", .help = "read instead of stdin; - is stdin", .required = false, .repeats = true}},
      .flags = withKafkaFlags({
          {.name = "delimiter",
           .shortNames = "D",
           .value = "TEXT",
           .help = "what ends a record, with \\n \\t \\0 \\xHH (default \\n)"},
          {.name = "null-delimiter", .shortNames = "0", .help = "records end with a NUL byte"},
          {.name = "len", .help = "each record is 4 bytes of big-endian length and the value; FFFFFFFF is null"},
          {.name = "chunk",
           .value = "SIZE",
           .help = "cut the input into records of SIZE (64K, 1M), all to one partition"},
          {.name = "json",
           .shortNames = "J",
           .help = "JSON lines, as mq consume -J writes them: key, value, headers, time"},
          {.name = "keep-partition", .help = "-J: to the partition that the line names"},
          {.name = "key", .shortNames = "k", .value = "TEXT", .help = "key of every record that has none of its own"},
          {.name = "key-delimiter",
           .shortNames = "K",
           .value = "TEXT",
           .help = "what stands before its first occurrence in a line is the key"},
          {.name = "header",
           .shortNames = "H",
           .value = "NAME=VALUE",
           .help = "added to every record",
           .repeats = true},
          {.name = "empty-is-null", .shortNames = "Z", .help = "an empty record is a null value (a tombstone)"},
          {.name = "partition", .shortNames = "p", .value = "N", .help = "to this partition (default: by key)"},
          {.name = "compression",
           .shortNames = "z",
           .value = "CODEC",
           .help = "none, gzip, snappy, lz4 or zstd (default none: the broker compresses)"},
          {.name = "acks", .value = "N", .help = "0, 1 or all (default all)"},
          {.name = "timeout", .value = "MS", .help = "until an unacknowledged record has failed (default 30000)"},
          {.name = "txn", .value = "ID", .help = "in one transaction of this transactional id"},
          {.name = "txn-every",
           .value = "N|TIME",
           .help = "--txn: in transactions of N records each, or of a time: 100ms, 5s"},
          {.name = "create", .help = "create the topic if it is not there"},
          {.name = "quiet", .shortNames = "q", .help = "no summary when all went well"},
      }),
      .examples = {{"seq 1000 | mq produce numbers --create", "a record per line"},
                   {"tar c dir | mq produce blobs -p 0 --chunk 512K", "any bytes, in order, in one partition"},
                   {"mq produce orders --txn nightly < batch.txt", "all of the file, or nothing of it"},
                   {"mq consume orders -J -o :end | mq produce orders-copy -J", "a copy with keys, headers and times"}},
      .run = runProduce};
}

}  // namespace mq::cli
