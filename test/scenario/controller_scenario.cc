// Scenarios of the controller's decisions: each command is planned on the image so far, printed, and its records
// applied.
//
//   settings KEY=VALUE ...            what the node is started with
//   disk plenty|low|none
//   broker ID [rack=R] [fenced] [may-lack] [wiped] [starting]  registers, or changes, a broker
//   create NAME [partitions=N] [rf=N] [assign=1,2/2,3] [KEY=VALUE ...] [; NAME ...] [validate]
//   ensure NAME ...
//   grow NAME COUNT [assign=1/2] [; NAME COUNT ...] [validate]
//   delete NAME|id:NAME|id:unknown|both:NAME [; ...]
//   alter [all] topic:NAME|broker:ID|type:N:NAME [set K=V] [remove K] [append K=V] [subtract K=V] [; ...] [validate]
//   ids                               allocates a block of producer ids
//   fence ID ...                      those are dead
//   beat ID [stop] [behind]           a heartbeat of its present registration; behind: its image does not show that yet
//   isr TOPIC-P=1,2,3 [by=ID] [old|future|stale]  proposed by the leader, of the present epochs unless said otherwise
//   elect [unclean] all|TOPIC-P ...
//   reassign [same] TOPIC-P=1,2|cancel ...  same: the replication factor may not change
//   drain ID, resume ID, unregister ID, balance
//   show TOPIC                        its partitions, in short
//   image                             prints the whole image
//
// Topic ids are printed as #1, #2, ... in the order of their creation.
#include <fmt/ranges.h>

#include <charconv>
#include <iostream>
#include <map>
#include <sstream>

#include "base/check.h"
#include "controller/planner.h"
#include "metadata/print.h"
#include "scenario.h"

namespace mq::controller {
namespace {

using Words = std::vector<std::string>;

Words wordsOf(const std::string& text) {
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

std::vector<Words> itemsOf(const Words& words) {
  std::vector<Words> items(1);
  for (auto& word : words) {
    if (word == ";")
      items.emplace_back();
    else
      items.back().push_back(word);
  }
  return items;
}

int32_t numberOf(std::string_view text) {
  int32_t number = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  MQ_CHECK(error == std::errc() && end == text.data() + text.size(), text);
  return number;
}

// "a=b" as a pair; the value may be empty.
std::pair<std::string, std::string> pairOf(const std::string& word) {
  size_t at = word.find('=');
  MQ_CHECK(at != word.npos, word);
  return {word.substr(0, at), word.substr(at + 1)};
}

std::vector<std::vector<NodeId>> replicasOf(std::string_view text) {
  std::vector<std::vector<NodeId>> lists(1);
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find_first_of(",/", at), text.size());
    if (end > at) lists.back().push_back(NodeId(numberOf(text.substr(at, end - at))));
    if (end < text.size() && text[end] == '/') lists.emplace_back();
    at = end + 1;
  }
  return lists;
}

// A word that stands behind all items, such as "validate".
bool takeLast(Words& words, std::string_view last) {
  if (words.empty() || words.back() != last) return false;
  words.pop_back();
  return true;
}

class ControllerWorld {
 public:
  std::string step(const std::string& commands) {
    std::string text;
    std::istringstream in(commands);
    for (std::string line; std::getline(in, line);) text += command(wordsOf(line));
    for (auto& [id, name] : names_)
      for (size_t at; (at = text.find(id)) != text.npos;) text.replace(at, id.size(), name);
    return text;
  }

 private:
  std::string command(Words words) {
    std::string verb = words[0];
    words.erase(words.begin());
    if (verb == "settings") return settings(words);
    if (verb == "disk") return disk(words[0]);
    if (verb == "broker") return broker(words);
    if (verb == "create") return create(words);
    if (verb == "ensure") return ensure(words);
    if (verb == "grow") return grow(words);
    if (verb == "delete") return remove(words);
    if (verb == "alter") return alter(words);
    if (verb == "ids") return ids();
    if (verb == "image") return metadata::print(*image_);
    if (verb == "fence") return fence(words);
    if (verb == "beat") return beat(words);
    if (verb == "isr") return inSync(words);
    if (verb == "elect") return elect(words);
    if (verb == "reassign") return reassign(words);
    if (verb == "drain" || verb == "resume") {
      return done(planner_.drainBroker(now(), {NodeId(numberOf(words[0])), verb == "drain"}));
    }
    if (verb == "unregister") return done(planner_.unregisterBroker(now(), {NodeId(numberOf(words[0]))}));
    if (verb == "balance") return quietly(planner_.balance(now()).records);
    if (verb == "show") return showTopic(words[0]);
    return "no such command: " + verb + "\n";
  }

  std::string settings(const Words& words) {
    config::StartInput input;
    for (auto& word : words) {
      auto [name, value] = pairOf(word);
      input.flags.push_back({name, value, "--set"});
    }
    auto config = config::BrokerConfig::load(input);
    if (!config) return config.error().front().toString() + "\n";
    planner_ = Planner({NodeId(1), *config, 1000});
    return "";
  }

  std::string disk(const std::string& word) {
    space_ = word == "plenty" ? Space::plenty : word == "low" ? Space::low : Space::none;
    return "";
  }

  std::string broker(const Words& words) {
    BrokerRegistration registration;
    registration.id = NodeId(numberOf(words[0]));
    registration.incarnation = Uuid::fromHalves(1, static_cast<uint64_t>(image_->offset()) + 100);
    registration.listeners = {{"PLAINTEXT", "", 9092, 0}};
    registration.isAlone = true;
    bool fenced = false;
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i] == "fenced") fenced = true;
      if (words[i] == "starting") registration.isAlone = false;
      if (words[i] == "may-lack") registration.mayLack = true;
      if (words[i] == "wiped") registration.directories = {random_.uuid()};
      if (words[i].starts_with("rack=")) registration.rack = words[i].substr(5);
    }
    auto plan = planner_.registerBroker(now(), registration);
    std::string text = plan.response ? fmt::format("{}: ok epoch={}\n", registration.id, plan.response->epoch)
                                     : fmt::format("{}: {}\n", registration.id, show(plan.response.failure()));
    text += apply(plan.records);
    if (fenced) {
      auto next = *image_->broker(registration.id);
      next.fenced = true;
      text += apply({metadata::recordOf(next)});
    }
    return text;
  }

  std::string create(Words words) {
    CreateTopicsRequest request;
    request.validateOnly = takeLast(words, "validate");
    for (auto& item : itemsOf(words)) {
      NewTopic topic;
      topic.name = item[0] == "\"\"" ? "" : item[0];
      if (topic.name.starts_with("x*"))
        topic.name = std::string(static_cast<size_t>(numberOf(topic.name.substr(2))), 'x');
      for (size_t i = 1; i < item.size(); ++i) {
        auto [key, value] = pairOf(item[i]);
        if (key == "partitions") {
          topic.partitions = numberOf(value);
        } else if (key == "rf") {
          topic.replicationFactor = static_cast<int16_t>(numberOf(value));
        } else if (key == "assign") {
          auto lists = replicasOf(value);
          for (size_t p = 0; p < lists.size(); ++p) topic.assignments.push_back({static_cast<int32_t>(p), lists[p]});
        } else if (key == "partition") {  // of the last assignment, where it is not in order
          topic.assignments.back().partition = numberOf(value);
        } else {
          topic.configs.push_back({key, value == "null" ? std::nullopt : std::optional(value)});
        }
      }
      request.topics.push_back(std::move(topic));
    }
    auto plan = planner_.createTopics(now(), request);
    std::string text;
    for (auto& topic : plan.response.topics) {
      std::string name = topic.name.size() > 40 ? fmt::format("({} characters)", topic.name.size()) : topic.name;
      if (topic.result)
        text += fmt::format("{}: ok {}x{}\n", name, topic.result->partitions, topic.result->replicationFactor);
      else
        text += fmt::format("{}: {}\n", name, show(topic.result.failure()));
    }
    return text + apply(plan.records);
  }

  std::string ensure(const Words& words) {
    auto plan = planner_.ensureTopics(now(), {words});
    std::string applied = apply(plan.records), text;
    for (auto& topic : plan.response.topics)
      text +=
          fmt::format("{}: {}\n", topic.name, topic.result ? topic.result->toString() : show(topic.result.failure()));
    return text + applied;
  }

  std::string grow(Words words) {
    CreatePartitionsRequest request;
    request.validateOnly = takeLast(words, "validate");
    for (auto& item : itemsOf(words)) {
      NewPartitions asked;
      asked.topic = item[0];
      asked.count = numberOf(item[1]);
      if (item.size() > 2) asked.assignments = replicasOf(pairOf(item[2]).second);
      request.topics.push_back(std::move(asked));
    }
    auto plan = planner_.createPartitions(now(), request);
    std::string text;
    for (auto& topic : plan.response.topics) text += fmt::format("{}: {}\n", topic.name, show(topic.result));
    return text + apply(plan.records);
  }

  std::string remove(const Words& words) {
    DeleteTopicsRequest request;
    for (auto& item : itemsOf(words)) {
      TopicSelector selector;
      std::string name = item[0].substr(item[0].find(':') + 1);
      auto topic = image_->topic(name);
      if (item[0].starts_with("id:")) {
        selector.id = topic ? topic->id : Uuid::fromHalves(9, 9);
      } else if (item[0].starts_with("both:")) {
        selector = {name, topic->id};
      } else {
        selector.name = item[0];
      }
      request.topics.push_back(selector);
    }
    auto plan = planner_.deleteTopics(now(), request);
    std::string text;
    for (auto& topic : plan.response.topics)
      text += fmt::format("{} {}: {}\n", topic.name.value_or("(no name)"),
                          topic.id.isZero()                      ? "(no id)"
                          : names_.contains(topic.id.toString()) ? topic.id.toString()
                                                                 : "(that id)",
                          show(topic.result));
    return text + apply(plan.records);
  }

  std::string alter(Words words) {
    AlterConfigsRequest request;
    request.validateOnly = takeLast(words, "validate");
    if (words[0] == "all") {
      request.replaceAll = true;
      words.erase(words.begin());
    }
    for (auto& item : itemsOf(words)) {
      AlterConfigsRequest::Resource asked;
      std::string target = item[0];
      if (target.starts_with("topic:")) {
        asked.resource = {metadata::ResourceType::topic, target.substr(6)};
      } else if (target.starts_with("broker:")) {
        asked.resource = {metadata::ResourceType::broker, target.substr(7)};
      } else {
        size_t colon = target.rfind(':');
        asked.resource = {static_cast<metadata::ResourceType>(numberOf(target.substr(5, colon - 5))),
                          target.substr(colon + 1)};
      }
      const std::map<std::string, config::AlterOp> ops = {{"set", config::AlterOp::set},
                                                          {"remove", config::AlterOp::remove},
                                                          {"append", config::AlterOp::append},
                                                          {"subtract", config::AlterOp::subtract}};
      for (size_t i = 1; i + 1 < item.size(); i += 2) {
        config::Alteration change;
        change.op = ops.at(item[i]);
        if (change.op == config::AlterOp::remove)
          change.name = item[i + 1];
        else
          std::tie(change.name, change.value) = pairOf(item[i + 1]);
        asked.changes.push_back(std::move(change));
      }
      request.resources.push_back(std::move(asked));
    }
    auto plan = planner_.alterConfigs(now(), request);
    std::string text;
    for (auto& resource : plan.response.resources)
      text += fmt::format("\"{}\": {}\n", resource.resource.name, show(resource.result));
    return text + apply(plan.records);
  }

  std::string ids() {
    auto plan = planner_.allocateProducerIds(now());
    std::string text =
        plan.response ? fmt::format("[{}, {})\n", plan.response->first, plan.response->first + plan.response->count)
                      : show(plan.response.failure()) + "\n";
    return text + apply(plan.records);
  }

  // --- brokers and leaders: what comes of it is seen in the partitions, so the records are not printed

  std::string quietly(const std::vector<metadata::Record>& records) {
    apply(records);
    return "";
  }
  std::string done(Plan<Result<void>> plan) {
    std::string text = show(plan.response) + "\n";
    return text + quietly(plan.records);
  }

  std::string fence(const Words& words) {
    std::vector<NodeId> gone;
    for (auto& word : words) gone.push_back(NodeId(numberOf(word)));
    return quietly(planner_.fence(now(), gone).records);
  }

  std::string beat(const Words& words) {
    BrokerHeartbeat beat;
    beat.id = NodeId(numberOf(words[0]));
    auto has = [&](std::string_view word) { return std::ranges::find(words, word) != words.end(); };
    const metadata::Broker* broker = image_->broker(beat.id);
    beat.epoch = broker ? broker->epoch : 1;
    beat.offset = has("behind") ? beat.epoch - 1 : image_->offset();
    beat.wantsStop = has("stop");
    auto plan = planner_.heartbeat(now(), beat);
    std::string text = plan.response ? fmt::format("{}{}\n", plan.response->isFenced ? "fenced" : "alive",
                                                   plan.response->mayStop ? ", may stop" : "")
                                     : show(plan.response.failure()) + "\n";
    return text + quietly(plan.records);
  }

  // "words-3": the topic may have dashes itself.
  static TopicPartition partitionOf(std::string_view word) {
    size_t dash = word.rfind('-');
    return {std::string(word.substr(0, dash)), numberOf(word.substr(dash + 1))};
  }

  std::string inSync(const Words& words) {
    auto [name, list] = pairOf(words[0]);
    TopicPartition target = partitionOf(name);
    metadata::TopicRef topic = image_->topic(target.topic);
    const metadata::Partition& present = *topic->partition(target.partition);
    AlterPartitionsRequest request;
    request.broker = present.leader;
    AlterPartitionsRequest::Partition asked{.id = {topic->id, target.partition},
                                            .leaderEpoch = present.leaderEpoch,
                                            .partitionEpoch = present.partitionEpoch,
                                            .isr = {}};
    bool isStale = false;
    for (size_t i = 1; i < words.size(); ++i) {
      if (words[i].starts_with("by=")) request.broker = NodeId(numberOf(words[i].substr(3)));
      if (words[i] == "old") --asked.partitionEpoch;
      if (words[i] == "future") ++asked.partitionEpoch;
      if (words[i] == "stale") isStale = true;
    }
    const metadata::Broker* broker = image_->broker(request.broker);
    request.brokerEpoch = broker ? broker->epoch : -1;
    const std::vector<NodeId> members = replicasOf(list)[0];
    for (NodeId node : members) {
      const metadata::Broker* member = image_->broker(node);
      asked.isr.push_back({node, (member ? member->epoch : -1) - (isStale ? 1 : 0)});
    }
    request.partitions.push_back(std::move(asked));
    auto plan = planner_.alterPartitions(now(), request);
    std::string text = show(plan.response.partitions[0].result) + "\n";
    return text + quietly(plan.records);
  }

  std::string elect(Words words) {
    ElectLeadersRequest request;
    if (words[0] == "unclean") {
      request.unclean = true;
      words.erase(words.begin());
    }
    request.all = words[0] == "all";
    if (!request.all)
      for (auto& word : words) request.partitions.push_back(partitionOf(word));
    auto plan = planner_.electLeaders(now(), request);
    std::string text;
    for (auto& row : plan.response.partitions) text += fmt::format("{}: {}\n", row.partition, show(row.result));
    return text + quietly(plan.records);
  }

  std::string reassign(Words words) {
    AlterReassignmentsRequest request;
    if (words[0] == "same") {
      request.mayChangeFactor = false;
      words.erase(words.begin());
    }
    for (auto& word : words) {
      auto [name, list] = pairOf(word);
      AlterReassignmentsRequest::Partition asked{partitionOf(name), std::nullopt};
      if (list != "cancel") asked.replicas = replicasOf(list)[0];
      request.partitions.push_back(std::move(asked));
    }
    auto plan = planner_.alterReassignments(now(), request);
    std::string text;
    for (auto& row : plan.response.partitions) text += fmt::format("{}: {}\n", row.partition, show(row.result));
    return text + quietly(plan.records);
  }

  std::string showTopic(const std::string& name) {
    std::string text;
    metadata::TopicRef topic = image_->topic(name);
    for (int32_t i = 0; i < topic->partitionCount(); ++i) {
      const metadata::Partition& p = *topic->partition(i);
      text +=
          fmt::format("{} leader {} epoch {} isr {} of {}", i, p.leader, p.leaderEpoch, list(p.isr), list(p.replicas));
      if (!p.eligibleLeaders.empty()) text += " eligible " + list(p.eligibleLeaders);
      if (!p.lastKnownEligible.empty()) text += " last " + list(p.lastKnownEligible);
      if (!p.adding.empty()) text += " adding " + list(p.adding);
      if (!p.removing.empty()) text += " removing " + list(p.removing);
      text += "\n";
    }
    return text;
  }
  static std::string list(const std::vector<NodeId>& nodes) { return fmt::format("{}", fmt::join(nodes, ",")); }

  Now now() { return {*image_, random_, space_}; }
  static std::string show(const Failure& failure) { return fmt::format("{} {}", failure.error, failure.message); }
  static std::string show(const Result<void>& result) { return result ? "ok" : show(result.failure()); }

  // Applies what survives a trip through the log, and says what was written.
  std::string apply(const std::vector<metadata::Record>& records) {
    if (records.empty()) return "";
    auto decoded = metadata::decodeRecords(metadata::encodeRecords(records));
    MQ_CHECK(decoded.has_value());
    image_ = metadata::apply(image_, *decoded, image_->offset() + 1, 1).image;
    for (auto& [name, topic] : image_->topics())
      if (!names_.contains(topic->id.toString()))
        names_.emplace(topic->id.toString(), fmt::format("#{}", names_.size() + 1));
    std::string text;
    for (auto& record : *decoded) text += "wrote " + showRecord(record) + "\n";
    return text;
  }

  // New partitions are many: their replicas alone, when the rest follows from them.
  static std::string showRecord(const metadata::Record& record) {
    auto* partitions = std::get_if<metadata::PartitionsRecord>(&record);
    if (!partitions) return metadata::print(record);
    std::string text = fmt::format("PartitionsRecord {} from {}:", partitions->topicId, partitions->first);
    for (auto& partition : partitions->partitions) {
      metadata::PartitionsRecord::Partition expected;
      expected.replicas = expected.isr = partition.replicas;
      expected.leader = partition.replicas.empty() ? -1 : partition.replicas[0];
      if (partition != expected) return metadata::print(record);
      text += fmt::format(" {}", fmt::join(partition.replicas, ","));
    }
    return text;
  }

  Planner planner_{{NodeId(1), {}, 1000}};
  metadata::ImageRef image_ = metadata::emptyImage();
  Prng random_{1};
  Space space_ = Space::plenty;
  std::map<std::string, std::string> names_;  // topic id to its short name
};

}  // namespace
}  // namespace mq::controller

int main(int argc, char** argv) {
  return mq::scenario::run(argc, argv, [] {
    auto world = std::make_shared<mq::controller::ControllerWorld>();
    return [world](const std::string& commands) { return world->step(commands); };
  });
}
