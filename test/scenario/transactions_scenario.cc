// Scenarios of transactions: each command is one step of the Transactions machine; its records are printed and applied,
// its answers printed as they leave, and what goes to the outbox is printed as "markers".
//
//   settings KEY=MS ...         timeout-max, abort-every, id-expiration, forget-every
//   level N                     finalized transaction.version
//   ids none|FIRST              fresh producer ids are refused, or begin there
//   init ID [timeout=MS] [id=P epoch=E]
//   add ID id=P epoch=E [v=N] TOPIC-PARTITION ...        AddPartitionsToTxn, or with v=2 a batch
//   verify ID id=P epoch=E TOPIC-PARTITION ...
//   end ID id=P epoch=E commit|abort [v=N]
//   written ID id=P epoch=E     all its markers are committed
//   describe ID | list [state=S] [producer=P] [longer=MS]
//   put ID id=P epoch=E         as the log may say: an id without transaction
//   pass MS                     time passes, in the steps that the machine asks for
//   clock back MS               the wall clock is set back
//   restart                     the machine is thrown away and made anew from what was written
//   log                         the records as a compacted log holds them
//   figures
#include <map>

#include "base/check.h"
#include "command.h"
#include "coordinator/transactions.h"
#include "metadata/record.h"
#include "scenario.h"

namespace mq::coordinator {
namespace {

using scenario::Command;
using scenario::durationOf;
using scenario::numberOf;

class TransactionsWorld {
 public:
  TransactionsWorld() {
    make();
    transactions_->loaded(now());
  }

  std::string step(const std::string& commands) {
    out_.clear();
    std::istringstream in(commands);
    for (std::string line; std::getline(in, line);) run(Command(line));
    return out_;
  }

 private:
  class Outbox final : public MarkerOutbox {
   public:
    explicit Outbox(TransactionsWorld& world) : world_(world) {}
    void write(EndedTransaction ended) override {
      world_.print("markers {}: {} of producer {} epoch {} v{} on{}", ended.transactionalId,
                   ended.commits ? "commit" : "abort", ended.producer.id, ended.producer.epoch, ended.clientVersion,
                   listed(ended.partitions));
    }

   private:
    TransactionsWorld& world_;
  };

  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  template <class Partitions>
  static std::string listed(const Partitions& partitions) {
    std::string text;
    for (const auto& [topic, partition] : partitions) text += fmt::format(" {}-{}", topic, partition);
    return text.empty() ? " nothing" : text;
  }

  void make() { transactions_ = std::make_unique<Transactions>(settings_, counters_, std::make_unique<Outbox>(*this)); }
  Now now() { return {instant_, WallMs(1'000'000 + (instant_.time_since_epoch() / 1ms) - back_), random_, *image_}; }

  void apply(const LogRecord& record, Revision revision) {
    std::optional<Bytes> value;
    if (record.value) value = Bytes(*record.value);
    transactions_->apply(record.key, value, revision);
  }

  template <class Ask>
  void ask(Ask ask) {
    Effects effects;
    ask(effects);
    for (const auto& note : effects.notes) print("note {}: {}", note.event, note.text);
    for (const LogRecord& record : effects.records) {
      print("wrote {}", describe(record));
      log_[std::string(asText(record.key))] = record;
      apply(record, ++revision_);
    }
    for (auto& answer : effects.answers) answer();
    for (auto& deed : effects.deeds) deed();
  }

  static std::string describe(const LogRecord& record) {
    auto id = readTransactionKey(record.key);
    MQ_CHECK(id.has_value(), "key");
    if (!record.value) return *id + " forgotten";
    auto transaction = readTransaction(*record.value);
    MQ_CHECK(transaction.has_value(), "value");
    std::string line = fmt::format("{}: {} producer {} epoch {}", *id, nameOf(transaction->state),
                                   transaction->producer, transaction->epoch);
    if (transaction->previous != transaction->producer) line += fmt::format(" before {}", transaction->previous);
    if (transaction->next != kNoProducer) line += fmt::format(" next {}", transaction->next);
    line += fmt::format(" v{} timeout {}", transaction->clientVersion, transaction->timeoutMs);
    if (transaction->started != kNoTimestamp)
      line += fmt::format(" since {}", transaction->started - WallMs(1'000'000));
    if (!transaction->partitions.empty()) line += " on" + listed(transaction->partitions);
    return line;
  }

  static ProducerEpoch producerOf(Command& command) {
    return {ProducerId(numberOf(command.take("id").value_or("-1"))),
            static_cast<int16_t>(numberOf(command.take("epoch").value_or("-1")))};
  }
  static std::vector<TopicPartition> partitionsOf(const Command& command) {
    std::vector<TopicPartition> partitions;
    for (size_t i = 1; i < command.plain.size(); ++i) {
      auto word = scenario::topicOf(command.plain[i]);
      partitions.push_back({word.topic, word.partition});
    }
    return partitions;
  }

  Answer<GivenProducer> given(std::string_view verb, const std::string& id, bool& needsId) {
    return [this, verb, id, &needsId](Result<GivenProducer> result) {
      if (!result) return print("{} {}: {}", verb, id, result.failure().error);
      needsId = result->needsId;
      if (!needsId) print("{} {}: producer {} epoch {}", verb, id, result->producer.id, result->producer.epoch);
    };
  }

  void run(Command command) {
    const std::string& verb = command.verb;
    if (verb == "settings") return set(command);
    if (verb == "level") return setLevel(static_cast<int16_t>(numberOf(command.word(0))));
    if (verb == "ids") return setIds(command.word(0));
    if (verb == "pass") return pass(durationOf(command.word(0)));
    if (verb == "list") return list(command);
    if (verb == "clock") {
      back_ += durationOf(command.word(1)) / 1ms;
      return;
    }
    if (verb == "restart") return restart();
    if (verb == "log") {
      for (const auto& [key, record] : log_)
        if (record.value) print("{}", describe(record));
      return;
    }
    if (verb == "figures") {
      Transactions::Figures figures = transactions_->figures();
      return print("{} ids, {} ongoing, {} ending", figures.ids, figures.ongoing, figures.ending);
    }
    const std::string id = command.word(0);
    if (verb == "init") return init(id, command);
    if (verb == "add" || verb == "verify") return add(id, command);
    if (verb == "end") return end(id, command);
    if (verb == "written") {
      ProducerEpoch producer = producerOf(command);
      return ask([&](Effects& effects) { transactions_->complete(id, producer, now(), effects); });
    }
    if (verb == "put") {
      ProducerEpoch producer = producerOf(command);
      LogRecord record = transactionRecord(
          id, {.producer = producer.id, .previous = producer.id, .epoch = producer.epoch, .timeoutMs = 60000});
      log_[std::string(asText(record.key))] = record;
      return apply(record, 0);
    }
    MQ_CHECK(verb == "describe", verb);
    describeOne(id);
  }

  void set(const Command& command) {
    for (const auto& [name, value] : command.options) {
      Duration duration = durationOf(value);
      if (name == "timeout-max")
        settings_.timeoutMax = duration;
      else if (name == "abort-every")
        settings_.abortEvery = duration;
      else if (name == "id-expiration")
        settings_.idExpiration = duration;
      else if (name == "forget-every")
        settings_.idExpirationEvery = duration;
      else
        MQ_CHECK(false, name);
    }
    transactions_->loaded(now());
  }

  void setLevel(int16_t level) {
    std::vector<metadata::Record> records;
    records.push_back(metadata::FeatureRecord{.name = "transaction.version", .level = level});
    image_ = metadata::apply(image_, records, ++entry_, 1).image;
  }

  void setIds(const std::string& from) {
    hasIds_ = from != "none";
    if (hasIds_) nextId_ = numberOf(from);
  }

  // As the handler does: asks once more with a fresh id if one is needed.
  template <class Asked, class Step>
  void withId(std::string_view verb, Asked asked, Step step) {
    bool needsId = false;
    ask([&](Effects& effects) { step(asked, given(verb, asked.id, needsId), effects); });
    if (!needsId) return;
    if (!hasIds_) return print("{} {}: no producer id", verb, asked.id);
    asked.fresh = ProducerId(nextId_++);
    ask([&](Effects& effects) { step(asked, given(verb, asked.id, needsId), effects); });
  }

  void init(const std::string& id, Command& command) {
    Transactions::Init asked{.id = id};
    asked.timeoutMs = static_cast<int32_t>(numberOf(command.take("timeout").value_or("60000")));
    ProducerEpoch expected = producerOf(command);
    if (expected.id != kNoProducer) asked.expected = expected;
    withId("init", asked, [&](const Transactions::Init& init, Answer<GivenProducer> answer, Effects& effects) {
      transactions_->init(init, now(), std::move(answer), effects);
    });
  }

  void end(const std::string& id, Command& command) {
    Transactions::End asked{.id = id, .producer = producerOf(command), .commits = command.word(1) == "commit"};
    asked.clientVersion = static_cast<int16_t>(numberOf(command.take("v").value_or("0")));
    withId("end", asked, [&](const Transactions::End& end, Answer<GivenProducer> answer, Effects& effects) {
      transactions_->end(end, now(), std::move(answer), effects);
    });
  }

  void add(const std::string& id, Command& command) {
    Transactions::Add asked{.id = id, .producer = producerOf(command), .partitions = partitionsOf(command)};
    asked.clientVersion = static_cast<int16_t>(numberOf(command.take("v").value_or("0")));
    if (command.verb == "add") {
      return ask([&](Effects& effects) {
        transactions_->add(
            asked, now(), [this, id](Result<Left> result) { print("add {}: {}", id, result.errorCode()); }, effects);
      });
    }
    ask([&](Effects& effects) {
      transactions_->verify(
          asked,
          [this, id, asked](Result<std::vector<Error>> result) {
            if (!result) return print("verify {}: {}", id, result.failure().error);
            for (size_t i = 0; i < result->size(); ++i)
              print("verify {} {}-{}: {}", id, asked.partitions[i].topic, asked.partitions[i].partition, (*result)[i]);
          },
          effects);
    });
  }

  void describeOne(const std::string& id) {
    ask([&](Effects& effects) {
      transactions_->describe(
          id,
          [this, id](Result<Transactions::Described> result) {
            if (!result) return print("describe {}: {}", id, result.failure().error);
            print("{}: {} producer {} epoch {} timeout {}", id, result->transactionState, result->producerId,
                  result->producerEpoch, result->transactionTimeoutMs);
            for (const auto& topic : result->topics)
              for (int32_t partition : topic.partitions) print("  {}-{}", topic.topic, partition);
          },
          effects);
    });
  }

  void list(Command& command) {
    wire::ListTransactionsRequest filter;
    if (auto state = command.take("state")) filter.stateFilters.push_back(*state);
    if (auto producer = command.take("producer")) filter.producerIdFilters.push_back(numberOf(*producer));
    if (auto longer = command.take("longer")) filter.durationFilter = numberOf(*longer);
    ask([&](Effects& effects) {
      transactions_->list(
          filter, now(),
          [this](Result<Transactions::Listed> result) {
            if (result->empty()) print("none");
            for (const auto& one : *result)
              print("{}: producer {} {}", one.transactionalId, one.producerId, one.transactionState);
          },
          effects);
    });
  }

  void pass(Duration time) {
    const Instant end = instant_ + time;
    for (int steps = 0; steps < 10'000; ++steps) {
      auto next = transactions_->deadline();
      if (!next || *next > end) {
        instant_ = end;
        return;
      }
      instant_ = std::max(instant_, *next);
      ask([&](Effects& effects) { transactions_->expire(now(), effects); });
    }
    MQ_CHECK(false, "the machine never comes to rest");
  }

  void restart() {
    transactions_ = nullptr;  // tells who waits
    make();
    for (const auto& [key, record] : log_) apply(record, 0);
    transactions_->loaded(now());
  }

  int64_t back_ = 0;  // ms
  TransactionSettings settings_;
  Transactions::Counters counters_;
  Prng random_{7};
  metadata::ImageRef image_ = metadata::emptyImage();
  int64_t entry_ = 0;
  bool hasIds_ = true;
  int64_t nextId_ = 100;
  Instant instant_{1s};
  Revision revision_ = 0;
  std::map<std::string, LogRecord> log_;
  std::string out_;
  std::unique_ptr<Transactions> transactions_;  // last: what waits in it prints
};

}  // namespace
}  // namespace mq::coordinator

int main(int argc, char** argv) {
  return mq::scenario::run(argc, argv, [] {
    auto world = std::make_shared<mq::coordinator::TransactionsWorld>();
    return [world](const std::string& commands) { return world->step(commands); };
  });
}
