// A worker of the exactly-once loop on librdkafka; README.md says what it does.
//
// A transaction that has to be aborted, because of its broker or because a rebalance takes the partitions it has read,
// is aborted, and what it has read is read again from where the group has committed. Every wait has a deadline;
// whatever is beyond mending ends the process, and the next one with the same id goes on.
#include <librdkafka/rdkafkacpp.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {
using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kExitAgain = 3;  // start me again
constexpr int kTransactionRecordsMax = 500;
constexpr int kCarelessTransactions = 10;  // that a careless worker lives
constexpr auto kTransactionTime = 100ms;
constexpr auto kPatience = 60s;  // for one call, with all its retries
constexpr int kCallMs = 5000;    // of it, for one try

std::atomic<bool> stopAsked{false};  // signal handlers cannot reach anything else

// Also out of the library's callbacks, so no exception; its destructors would wait for brokers that may be away.
[[noreturn]] void giveUp(const std::string& why) {
  std::fprintf(stderr, "given up: %s\n", why.c_str());
  std::fflush(stderr);
  std::_Exit(kExitAgain);
}

struct Options {
  std::string brokers, group, input, output;
  int32_t outputPartitions;
  std::string id, assignor;
  bool careless;  // commits offsets beside the transaction, and dies between the two: what a checker has to find
};

std::unique_ptr<RdKafka::Conf> configuration(const std::map<std::string, std::string>& properties) {
  std::unique_ptr<RdKafka::Conf> conf(RdKafka::Conf::create(RdKafka::Conf::CONF_GLOBAL));
  std::string why;
  for (const auto& [name, value] : properties)
    if (conf->set(name, value, why) != RdKafka::Conf::CONF_OK) giveUp(why);
  return conf;
}

class Partitions {  // owns what the library's vectors point to
 public:
  Partitions() = default;
  Partitions(const Partitions&) = delete;
  ~Partitions() { RdKafka::TopicPartition::destroy(list); }

  std::vector<RdKafka::TopicPartition*> list;
};

class Worker : public RdKafka::RebalanceCb {
 public:
  explicit Worker(const Options& options) : options_(options) {
    std::string why;
    auto conf = configuration({{"bootstrap.servers", options.brokers},
                               {"group.id", options.group},
                               {"partition.assignment.strategy", options.assignor},
                               {"enable.auto.commit", "false"},
                               {"isolation.level", "read_committed"},
                               {"auto.offset.reset", "earliest"},
                               {"session.timeout.ms", "3000"},
                               {"heartbeat.interval.ms", "500"},
                               {"reconnect.backoff.max.ms", "1000"},
                               {"log_level", "0"}});
    if (conf->set("rebalance_cb", this, why) != RdKafka::Conf::CONF_OK) giveUp(why);
    consumer_.reset(RdKafka::KafkaConsumer::create(conf.get(), why));
    if (!consumer_) giveUp(why);
    conf = configuration({{"bootstrap.servers", options.brokers},
                          {"transactional.id", options.id},
                          {"transaction.timeout.ms", "10000"},
                          {"linger.ms", "5"},
                          {"reconnect.backoff.max.ms", "1000"},
                          {"log_level", "0"}});
    producer_.reset(RdKafka::Producer::create(conf.get(), why));
    if (!producer_) giveUp(why);
    output_.reset(RdKafka::Topic::create(producer_.get(), options.output, nullptr, why));
    if (!output_) giveUp(why);
  }

  void run() {
    must("init_transactions", [&] { return producer_->init_transactions(kCallMs); });
    if (auto error = consumer_->subscribe({options_.input})) giveUp(RdKafka::err2str(error));
    while (!stopAsked) transact();
    consumer_->close();
  }

  void rebalance_cb(RdKafka::KafkaConsumer*, RdKafka::ErrorCode what,
                    std::vector<RdKafka::TopicPartition*>& partitions) override {
    if (what != RdKafka::ERR__ASSIGN_PARTITIONS && open_) abort("partitions were taken");
    bool incremental = consumer_->rebalance_protocol() == "COOPERATIVE";
    if (what == RdKafka::ERR__ASSIGN_PARTITIONS) {
      if (incremental)
        check("incremental_assign", consumer_->incremental_assign(partitions));
      else
        check("assign", consumer_->assign(partitions));
    } else if (incremental) {
      check("incremental_unassign", consumer_->incremental_unassign(partitions));
    } else {
      check("unassign", consumer_->unassign());
    }
  }

 private:
  // One transaction with what is there within its time; nothing when nothing is.
  void transact() {
    std::unique_ptr<RdKafka::Message> message(consumer_->consume(200));
    if (!isRecord(*message)) return;
    must("begin_transaction", [&] { return producer_->begin_transaction(); });
    open_ = true;
    int records = 0;
    auto end = Clock::now() + kTransactionTime;
    do {
      next_[message->partition()] = message->offset() + 1;
      if (open_) forward(*message);
      ++records;
    } while (open_ && records < kTransactionRecordsMax && receive(message, end));
    if (!open_ || !commit()) rewind();
    next_.clear();
  }

  // Whether there is another record. Meanwhile a rebalance may abort the transaction.
  bool receive(std::unique_ptr<RdKafka::Message>& message, Clock::time_point end) {
    while (open_ && Clock::now() < end) {
      message.reset(consumer_->consume(10));
      if (isRecord(*message)) return true;
    }
    return false;
  }

  // False: there was none in time, or an error that the library mends itself.
  static bool isRecord(const RdKafka::Message& message) {
    if (message.err() == RdKafka::ERR__FATAL || message.err() == RdKafka::ERR__MAX_POLL_EXCEEDED)
      giveUp(message.errstr());
    return message.err() == RdKafka::ERR_NO_ERROR;
  }

  void forward(const RdKafka::Message& message) {
    if (!message.key()) giveUp("a record without a key");
    const std::string& key = *message.key();
    int32_t number = 0;
    if (std::from_chars(key.data(), key.data() + key.size(), number).ec != std::errc())
      giveUp("the key is no number: " + key);
    std::string value(static_cast<const char*>(message.payload()), message.len());
    value += "@" + options_.id;
    auto deadline = Clock::now() + kPatience;
    for (;;) {
      RdKafka::ErrorCode error =
          producer_->produce(output_.get(), number % options_.outputPartitions, RdKafka::Producer::RK_MSG_COPY,
                             value.data(), value.size(), &key, nullptr);
      if (error == RdKafka::ERR_NO_ERROR) return;
      // What the transaction has run into is told when it is committed.
      if (error == RdKafka::ERR__STATE) return;
      if (error != RdKafka::ERR__QUEUE_FULL || Clock::now() > deadline) giveUp("produce: " + RdKafka::err2str(error));
      producer_->poll(10);
    }
  }

  // False: it was aborted.
  bool commit() {
    Partitions offsets;
    for (const auto& [partition, next] : next_)
      offsets.list.push_back(RdKafka::TopicPartition::create(options_.input, partition, next));
    bool good = true;
    if (!options_.careless) {
      std::unique_ptr<RdKafka::ConsumerGroupMetadata> metadata(consumer_->groupMetadata());
      good = settle("send_offsets_to_transaction",
                    [&] { return producer_->send_offsets_to_transaction(offsets.list, metadata.get(), kCallMs); });
    }
    good = good && settle("commit_transaction", [&] { return producer_->commit_transaction(kCallMs); });
    if (!good) {
      abort("it could not be committed");
      return false;
    }
    open_ = false;
    if (options_.careless) {
      if (++committed_ % kCarelessTransactions == 0) giveUp("between the two commits");
      check("commitSync", consumer_->commitSync(offsets.list));
    }
    return true;
  }

  void abort(const char* why) {
    std::fprintf(stderr, "aborted: %s\n", why);
    must("abort_transaction", [&] { return producer_->abort_transaction(kCallMs); });
    open_ = false;
  }

  // Reads what the aborted transaction has read once more, as far as it is still ours.
  void rewind() {
    Partitions held, again;
    if (auto error = consumer_->assignment(held.list)) giveUp("assignment: " + RdKafka::err2str(error));
    for (const RdKafka::TopicPartition* partition : held.list)
      if (next_.contains(partition->partition()))
        again.list.push_back(RdKafka::TopicPartition::create(partition->topic(), partition->partition()));
    if (again.list.empty()) return;
    auto deadline = Clock::now() + kPatience;
    while (auto error = consumer_->committed(again.list, kCallMs))
      if (Clock::now() > deadline) giveUp("committed: " + RdKafka::err2str(error));
    for (RdKafka::TopicPartition* partition : again.list) {
      if (partition->offset() < 0) partition->set_offset(RdKafka::Topic::OFFSET_BEGINNING);
      while (auto error = consumer_->seek(*partition, kCallMs)) {
        // A partition that has just been given to us cannot be told yet.
        if (error != RdKafka::ERR__STATE || Clock::now() > deadline) giveUp("seek: " + RdKafka::err2str(error));
        std::this_thread::sleep_for(10ms);
      }
    }
  }

  // Whether it was done; false: the transaction has to be aborted.
  template <class Call>
  bool settle(const char* name, Call call) {
    auto deadline = Clock::now() + kPatience;
    for (;;) {
      std::unique_ptr<RdKafka::Error> error(call());
      if (!error) return true;
      if (error->txn_requires_abort()) {
        std::fprintf(stderr, "%s: %s\n", name, error->str().c_str());
        return false;
      }
      if (!error->is_retriable() || error->is_fatal() || Clock::now() > deadline)
        giveUp(std::string(name) + ": " + error->str());
    }
  }

  template <class Call>
  void must(const char* name, Call call) {
    if (!settle(name, call)) giveUp(std::string(name) + " asks for an abort");
  }

  static void check(const char* name, RdKafka::ErrorCode error) {
    if (error) giveUp(std::string(name) + ": " + RdKafka::err2str(error));
  }
  static void check(const char* name, RdKafka::Error* raw) {
    if (std::unique_ptr<RdKafka::Error> error(raw); error) giveUp(std::string(name) + ": " + error->str());
  }

  const Options options_;
  std::unique_ptr<RdKafka::KafkaConsumer> consumer_;
  std::unique_ptr<RdKafka::Producer> producer_;
  std::unique_ptr<RdKafka::Topic> output_;
  bool open_ = false;                // a transaction is
  int committed_ = 0;                // transactions
  std::map<int32_t, int64_t> next_;  // of the transaction under way, by partition: behind what it has read
};

void onSignal(int) { stopAsked = true; }
}  // namespace

int main(int count, char** words) {
  if (count != 9) {
    std::fprintf(stderr, "usage: %s BROKERS GROUP INPUT OUTPUT OUTPUT-PARTITIONS ID ASSIGNOR careful|careless\n",
                 words[0]);
    return 2;
  }
  std::signal(SIGTERM, onSignal);
  Worker(Options{.brokers = words[1],
                 .group = words[2],
                 .input = words[3],
                 .output = words[4],
                 .outputPartitions = std::atoi(words[5]),
                 .id = words[6],
                 .assignor = words[7],
                 .careless = std::string(words[8]) == "careless"})
      .run();
  return 0;
}
