// Scenarios of consumer groups: each command is one step of the Groups machine; its records are printed and applied,
// its answers printed as they leave. Nothing waits for a disk here: the runtime's part is tested with real nodes.
//
// clang-format off
//   settings KEY=MS|N ...              initial-delay, session-min, session-max, retention, check, max-size, metadata-max,
//                                      consumer-session, consumer-max-size, migration=both|none
//   topic NAME [PARTITIONS] | drop NAME | grow NAME PARTITIONS      in the image; made anew a topic has another id
//   join GROUP WHO [id=M] [instance=I] [session=MS] [rebalance=MS] [type=T] [v=N] [reason=R] PROTOCOL=DATA ...
//                                      DATA @t,u or @t|t:0,1: a subscription of consumers, and what is owned
//   sync GROUP WHO [id=M] [instance=I] [gen=N] [type=T] [protocol=P] [M=ASSIGNMENT ...]        ASSIGNMENT @t:0,1;u:2: one of consumers
//   beat GROUP WHO [id=M] [instance=I] [gen=N]
//   leave GROUP [id=M] [instance=I] [; ...]
//   hb GROUP WHO [epoch=N] [instance=I] [rebalance=MS] [topics=T,...] [regex=R] [assignor=A] [owned=T:0,1;U:2] [v=N]
//      [tell=interval]                 ConsumerGroupHeartbeat of member WHO; without epoch= the one it was last told
//   commit GROUP [v=N] [id=M] [instance=I] [gen=N] [retention=MS] TOPIC-PARTITION=OFFSET[@EPOCH][:METADATA] ...
//   fetch GROUP [TOPIC-PARTITION ...]  without any: all
//   forget GROUP TOPIC-PARTITION ...   OffsetDelete
//   list [state=S] [type=T] | describe GROUP | consumer GROUP | delete GROUP | history GROUP
//   pass MS                            time passes, in the steps that the machine asks for
//   restart                            the machine is thrown away and made anew from what was written
//   log                                the records as a compacted log holds them
//
//   transact PRODUCER GROUP [id=M] [instance=I] [gen=N] TOPIC-PARTITION=OFFSET ...     TxnOffsetCommit
//   marker PRODUCER commit|abort
//   stable GROUP [TOPIC-PARTITION ...]    as fetch, with requireStable
//
// WHO names the client; its member id is printed as @WHO (@WHO2 the second one it gets) and is what id= takes.
// Without id= a client sends the id it was last given; id=- sends none. In the consumer protocol WHO is the member id.
// clang-format on
#include <fmt/ranges.h>

#include <iostream>
#include <map>
#include <regex>
#include <sstream>

#include "base/check.h"
#include "command.h"
#include "coordinator/consumer_protocol.h"
#include "coordinator/group_coordinator.h"
#include "coordinator/records.h"
#include "metadata/record.h"
#include "scenario.h"
#include "wire/codec.h"
#include "wire/consumer_protocol_assignment.h"

namespace mq::coordinator {
namespace {

using scenario::Command;
using scenario::durationOf;
using scenario::numberOf;
using scenario::topicOf;
using scenario::TopicWord;

std::string plainText(Bytes bytes) { return std::string(asText(bytes)); }

// "t:0,1;u:2"
std::vector<std::pair<std::string, std::vector<int32_t>>> partitionsOf(const std::string& text) {
  std::vector<std::pair<std::string, std::vector<int32_t>>> topics;
  std::istringstream in(text);
  for (std::string item; std::getline(in, item, ';');) {
    size_t colon = item.find(':');
    auto& partitions = topics.emplace_back(item.substr(0, colon), std::vector<int32_t>()).second;
    std::istringstream numbers(item.substr(colon + 1));
    for (std::string number; std::getline(numbers, number, ',');)
      partitions.push_back(static_cast<int32_t>(numberOf(number)));
  }
  return topics;
}

template <class Message>
wire::Blob encoded(const Message& message) {
  Buffer bytes;
  ByteWriter(bytes).int16(1);
  MQ_CHECK(wire::encode(message, 1, bytes).has_value(), "encode");
  return wire::Blob::copyOf(bytes);
}

wire::Blob subscriptionOf(const std::string& data) {
  if (!data.starts_with('@')) return wire::Blob::copyOf(data);
  wire::ConsumerProtocolSubscription message;
  size_t bar = data.find('|');
  std::istringstream names(data.substr(1, bar == data.npos ? bar : bar - 1));
  for (std::string name; std::getline(names, name, ',');) message.topics.push_back(name);
  if (bar != data.npos) {
    for (auto& [topic, partitions] : partitionsOf(data.substr(bar + 1)))
      message.ownedPartitions.push_back({topic, std::move(partitions)});
  }
  return encoded(message);
}

wire::Blob consumerAssignmentOf(const std::string& data) {
  if (!data.starts_with('@')) return wire::Blob::copyOf(data);
  wire::ConsumerProtocolAssignment message;
  for (auto& [topic, partitions] : partitionsOf(data.substr(1)))
    message.assignedPartitions.push_back({topic, std::move(partitions)});
  return encoded(message);
}

// As it was written in the command.
std::string shownSubscription(Bytes bytes) {
  auto read = bytes.empty() || bytes[0] != 0 ? std::nullopt : readSubscription(bytes);
  if (!read) return plainText(bytes);
  std::string text = fmt::format("@{}", fmt::join(read->topics, ","));
  for (size_t i = 0; i < read->ownedPartitions.size(); ++i)
    text += fmt::format("{}{}:{}", i == 0 ? "|" : ";", read->ownedPartitions[i].topic,
                        fmt::join(read->ownedPartitions[i].partitions, ","));
  return text;
}

std::string shownAssignment(Bytes bytes) {
  if (bytes.empty() || bytes[0] != 0) return plainText(bytes);
  ByteReader reader(bytes.subspan(2));
  auto read = wire::decode<wire::ConsumerProtocolAssignment>(reader, 1);
  if (!read) return plainText(bytes);
  std::string text = "@";
  for (size_t i = 0; i < read->assignedPartitions.size(); ++i)
    text += fmt::format("{}{}:{}", i == 0 ? "" : ";", read->assignedPartitions[i].topic,
                        fmt::join(read->assignedPartitions[i].partitions, ","));
  return text;
}

class GroupsWorld {
 public:
  GroupsWorld() {
    make();
    groups_->loaded(now());
  }

  std::string step(const std::string& commands) {
    out_.clear();
    std::istringstream in(commands);
    for (std::string line; std::getline(in, line);) run(line);
    return out_;
  }

 private:
  template <class... Args>
  void print(fmt::format_string<Args...> format, Args&&... args) {
    fmt::format_to(std::back_inserter(out_), format, std::forward<Args>(args)...);
    out_ += '\n';
  }

  void make() { groups_ = std::make_unique<Groups>(settings_, counters_); }

  Now now() { return {instant_, WallMs(1'000'000 + (instant_.time_since_epoch() / 1ms)), random_, *image_}; }

  // Ids are random; scenarios name them by who got them.
  std::string named(std::string in) {
    static const std::regex made("([a-z0-9]+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");
    for (auto at = std::sregex_iterator(in.begin(), in.end(), made); at != std::sregex_iterator(); ++at)
      name((*at)[1], (*at)[0]);
    for (const auto& [id, name] : names_)
      for (size_t at; (at = in.find(id)) != in.npos;) in.replace(at, id.size(), name);
    return in;
  }
  std::string idOf(const std::string& name) const {
    for (const auto& [id, called] : names_)
      if (called == name) return id;
    return name;  // one that nobody was given
  }
  void learn(const std::string& who, const std::string& id) {
    if (id.empty()) return;
    last_[who] = id;
    name(who, id);
  }
  void name(const std::string& who, const std::string& id) {
    if (names_.contains(id)) return;
    int count = ++given_[who];
    names_[id] = count == 1 ? "@" + who : fmt::format("@{}{}", who, count);
  }
  std::string memberOf(Command& command, const std::string& who) {
    if (auto id = command.take("id")) return *id == "-" ? "" : idOf(*id);
    auto known = last_.find(who);
    return known == last_.end() ? "" : known->second;
  }

  void perform(Effects&& effects) {
    for (const auto& note : effects.notes) print("note {}: {}", note.event, named(note.text));
    if (!effects.records.empty() || effects.marker) ++revision_;
    for (size_t i = 0; i < effects.records.size(); ++i) {
      const LogRecord& record = effects.records[i];
      ProducerId producer = effects.transaction ? effects.transaction->id : kNoProducer;
      print("wrote {}{}", named(describe(record)),
            effects.transaction ? fmt::format(" pending of producer {}", producer) : "");
      if (!effects.transaction) log_[plainText(record.key)] = record;
      hasTransactions_ = hasTransactions_ || effects.transaction;
      written_.push_back({producer, record, std::nullopt});
      if (i >= effects.applied) replay(written_.back(), revision_);
    }
    if (effects.marker) {
      print("wrote {} of producer {}", effects.marker->commits ? "commit" : "abort", effects.marker->producer.id);
      written_.push_back({effects.marker->producer.id, {}, effects.marker->commits});
      replay(written_.back(), revision_);
    }
    for (auto& answer : effects.answers) answer();
  }

  struct Written {
    ProducerId producer = kNoProducer;
    LogRecord record;
    std::optional<bool> commits;  // a marker
  };
  void replay(const Written& written, Revision revision) {
    std::optional<Bytes> value;
    if (written.record.value) value = Bytes(*written.record.value);
    if (written.commits)
      groups_->applyEnd(written.producer, *written.commits, revision);
    else if (written.producer != kNoProducer)
      groups_->applyPending(written.producer, written.record.key, value, revision);
    else
      groups_->apply(written.record.key, value, revision);
  }

  template <class Ask>
  void ask(Ask ask) {
    Effects effects{.revision = revision_ + 1};
    ask(effects);
    perform(std::move(effects));
  }

  static std::string describe(const LogRecord& record) {
    auto key = readGroupKey(record.key);
    MQ_CHECK(key.has_value(), "key");
    if (auto* offset = std::get_if<OffsetKey>(&*key)) {
      std::string name = fmt::format("offset {} {}-{}", offset->group, offset->topic, offset->partition);
      if (!record.value) return name + " deleted";
      auto value = readOffset(*record.value);
      return fmt::format("{}: {} epoch {} \"{}\"{}", name, value->offset, value->leaderEpoch, value->metadata,
                         value->expireTimestamp >= 0 ? " expires" : "");
    }
    if (auto* consumer = std::get_if<ConsumerKey>(&*key)) return describe(*consumer, record);
    const auto& group = std::get<GroupKey>(*key);
    if (!record.value) return fmt::format("group {} deleted", group.group);
    auto value = readGroup(*record.value);
    std::string line =
        fmt::format("group {}: generation {} type \"{}\" protocol {} leader {}", group.group, value->generation,
                    value->protocolType, value->protocol.value_or("none"), value->leader.value_or("none"));
    for (const auto& member : value->members) {
      line += fmt::format(", {}{} reads \"{}\" gets \"{}\"", member.memberId,
                          member.groupInstanceId ? "/" + *member.groupInstanceId : "",
                          shownSubscription(member.subscription), shownAssignment(member.assignment));
    }
    return line;
  }

  static std::string describe(const ConsumerKey& key, const LogRecord& record) {
    using Kind = ConsumerKey::Kind;
    static constexpr const char* kNames[] = {"group", "member", "target epoch", "target", "current", "expression"};
    std::string name = fmt::format("consumer {} {}{}{}", kNames[static_cast<int>(key.kind)], key.group,
                                   key.member.empty() ? "" : " ", key.member);
    if (!record.value) return name + " deleted";
    Bytes value = *record.value;
    auto list = [](const auto& topics) {  // topics by the number of their id
      std::string text;
      for (const auto& topic : topics)
        text += fmt::format(" {}:{}", topic.topicId.bytes[15], fmt::join(topic.partitions, ","));
      return text.empty() ? std::string(" nothing") : text;
    };
    switch (key.kind) {
      case Kind::group:
        return fmt::format("{}: epoch {}", name, readConsumer<wire::ConsumerGroupMetadataValue>(value)->epoch);
      case Kind::member: {
        auto read = readConsumer<wire::ConsumerGroupMemberMetadataValue>(value);
        return fmt::format("{}{}: {}reads {} /{}/", name, read->instanceId ? "/" + *read->instanceId : "",
                           read->classicMemberMetadata ? "classic, " : "", fmt::join(read->subscribedTopicNames, ","),
                           read->subscribedTopicRegex.value_or("null"));
      }
      case Kind::targetEpoch:
        return fmt::format("{}: {}", name,
                           readConsumer<wire::ConsumerGroupTargetAssignmentMetadataValue>(value)->assignmentEpoch);
      case Kind::target:
        return fmt::format("{}:{}", name,
                           list(readConsumer<wire::ConsumerGroupTargetAssignmentMemberValue>(value)->topicPartitions));
      case Kind::current: {
        auto read = readConsumer<wire::ConsumerGroupCurrentMemberAssignmentValue>(value);
        static constexpr const char* kStates[] = {"stable", "unrevoked", "unreleased"};
        return fmt::format("{}: epoch {} after {} {} has{} gives back{}", name, read->memberEpoch,
                           read->previousMemberEpoch, kStates[read->state], list(read->assignedPartitions),
                           list(read->partitionsPendingRevocation));
      }
      case Kind::expression: return name;
    }
    return name;
  }

  void run(const std::string& line) {
    Command command(line);
    const std::string& verb = command.verb;
    if (verb == "settings") return set(command);
    if (verb == "topic") return addTopic(command);
    if (verb == "grow") return grow(command.word(0), static_cast<int32_t>(numberOf(command.word(1))));
    if (verb == "hb") return heartbeat(command);
    if (verb == "consumer") return describeConsumer(command.word(0));
    if (verb == "drop") return dropTopic(command.word(0));
    if (verb == "join") return join(command);
    if (verb == "sync") return sync(command);
    if (verb == "beat") return beat(command);
    if (verb == "leave") return leave(line.substr(6));
    if (verb == "commit") return commit(command);
    if (verb == "fetch") return fetch(command, false);
    if (verb == "stable") return fetch(command, true);
    if (verb == "transact") return transact(command);
    if (verb == "marker") return marker(command);
    if (verb == "forget") return forget(command);
    if (verb == "list") return list(command);
    if (verb == "describe") return describeGroup(command.word(0));
    if (verb == "delete") return deleteGroup(command.word(0));
    if (verb == "history") return history(command.word(0));
    if (verb == "pass") return pass(durationOf(command.word(0)));
    if (verb == "restart") return restart();
    if (verb == "log") {
      for (const auto& [key, record] : log_)
        if (record.value) print("{}", named(describe(record)));
      return;
    }
    MQ_CHECK(false, verb);
  }

  void set(Command& command) {
    for (const auto& [name, value] : command.options) {
      if (name == "initial-delay")
        settings_.initialDelay = durationOf(value);
      else if (name == "session-min")
        settings_.sessionMin = durationOf(value);
      else if (name == "session-max")
        settings_.sessionMax = durationOf(value);
      else if (name == "retention")
        settings_.offsetsRetention = durationOf(value);
      else if (name == "check")
        settings_.offsetsCheckEvery = durationOf(value);
      else if (name == "max-size")
        settings_.sizeMax = static_cast<int32_t>(numberOf(value));
      else if (name == "consumer-session")
        settings_.consumer = {.defaults = {static_cast<int32_t>(durationOf(value) / 1ms), 1000},
                              .least = {1, 1},
                              .most = {INT32_MAX, INT32_MAX}};
      else if (name == "consumer-max-size")
        settings_.consumerSizeMax = static_cast<int32_t>(numberOf(value));
      else if (name == "migration")
        settings_.upgrades = settings_.downgrades = value == "both";
      else if (name == "metadata-max")
        settings_.metadataBytesMax = static_cast<int32_t>(numberOf(value));
      else
        MQ_CHECK(false, name);
    }
  }

  void change(metadata::Record record) {
    std::vector<metadata::Record> records;
    records.push_back(std::move(record));
    ++entry_;
    image_ = metadata::apply(image_, records, entry_, 1).image;
  }

  void addTopic(const Command& command);
  void grow(const std::string& name, int32_t partitions);
  void dropTopic(const std::string& name);

  void join(Command& command) {
    wire::JoinGroupRequest asked;
    asked.groupId = command.word(0);
    std::string who = command.word(1);
    Caller caller{who, "/host", 9};
    if (auto version = command.take("v")) caller.version = static_cast<int16_t>(numberOf(*version));
    asked.memberId = memberOf(command, who);
    asked.groupInstanceId = command.take("instance");
    asked.sessionTimeoutMs = static_cast<int32_t>(numberOf(command.take("session").value_or("10000")));
    asked.rebalanceTimeoutMs = static_cast<int32_t>(numberOf(command.take("rebalance").value_or("60000")));
    asked.protocolType = command.take("type").value_or("consumer");
    asked.reason = command.take("reason");
    for (const auto& [name, data] : command.options) asked.protocols.push_back({name, subscriptionOf(data), {}});
    ask([&](Effects& effects) {
      groups_->join(
          caller, std::move(asked), now(),
          [this, who](Result<wire::JoinGroupResponse> result) {
            if (!result) return print("join {}: {}", who, result.failure().error);
            learn(who, result->memberId);
            if (result->errorCode != Error::none)
              return print("join {}: {} id={}", who, result->errorCode, named(result->memberId));
            std::string line = fmt::format("join {}: generation {} {} leader {} as {}", who, result->generationId,
                                           result->protocolName.value_or("none"), result->leader, result->memberId);
            if (result->skipAssignment) line += " skip-assignment";
            for (const auto& member : result->members)
              line += fmt::format(", {} \"{}\"", member.memberId, shownSubscription(member.metadata));
            print("{}", named(line));
          },
          effects);
    });
  }

  // " t:0,1"
  std::string text(const TopicId& id, const std::vector<int32_t>& partitions) const {
    auto topic = image_->topic(id);
    return fmt::format(" {}:{}", topic ? topic->name : "gone", fmt::join(partitions, ","));
  }

  void heartbeat(Command& command) {
    wire::ConsumerGroupHeartbeatRequest asked;
    asked.groupId = command.word(0);
    std::string who = command.word(1);
    Caller caller{who, "/host", 1};
    if (auto version = command.take("v")) caller.version = static_cast<int16_t>(numberOf(*version));
    asked.memberId = who == "-" ? "" : who;
    auto epoch = command.take("epoch");
    asked.memberEpoch = epoch ? static_cast<int32_t>(numberOf(*epoch)) : epochs_[who];
    asked.instanceId = command.take("instance");
    if (auto rebalance = command.take("rebalance"))
      asked.rebalanceTimeoutMs = static_cast<int32_t>(numberOf(*rebalance));
    if (auto topics = command.take("topics")) {
      asked.subscribedTopicNames.emplace();
      std::istringstream in(*topics);
      for (std::string name; std::getline(in, name, ',');) asked.subscribedTopicNames->push_back(name);
    }
    asked.subscribedTopicRegex = command.take("regex");
    asked.serverAssignor = command.take("assignor");
    if (auto owned = command.take("owned")) {
      asked.topicPartitions.emplace();
      std::istringstream in(*owned);
      for (std::string item; std::getline(in, item, ';');) {
        size_t colon = item.find(':');
        auto& topic = asked.topicPartitions->emplace_back();
        topic.topicId = image_->topic(item.substr(0, colon))->id;
        std::istringstream numbers(item.substr(colon + 1));
        for (std::string number; std::getline(numbers, number, ',');)
          topic.partitions.push_back(static_cast<int32_t>(numberOf(number)));
      }
    }
    bool tellsInterval = command.take("tell") == "interval";
    ask([&](Effects& effects) {
      groups_->consumerHeartbeat(
          caller, std::move(asked), now(),
          [this, who, tellsInterval](Result<wire::ConsumerGroupHeartbeatResponse> result) {
            if (!result) return print("hb {}: {} {}", who, result.failure().error, result.failure().message);
            epochs_[who] = result->memberEpoch;
            std::string line = fmt::format("hb {}: epoch {}", who, result->memberEpoch);
            if (result->assignment) {
              line += " has";
              for (const auto& topic : result->assignment->topicPartitions)
                line += text(topic.topicId, topic.partitions);
              if (result->assignment->topicPartitions.empty()) line += " nothing";
            }
            if (tellsInterval) line += fmt::format(", the next in {} ms", result->heartbeatIntervalMs);
            print("{}", line);
          },
          effects);
    });
  }

  void describeConsumer(const std::string& id) {
    ask([&](Effects& effects) {
      groups_->describeConsumer(
          id, false, now(),
          [this](Result<wire::ConsumerGroupDescribeResponse::DescribedGroup> result) {
            if (!result) return print("{} {}", result.failure().error, result.failure().message);
            print("{}: {} epoch {} target {} {}", result->groupId, result->groupState, result->groupEpoch,
                  result->assignmentEpoch, result->assignorName);
            for (const auto& member : result->members) {
              std::string line = fmt::format("  {}{}{} epoch {} reads {}", member.memberId,
                                             member.instanceId ? "/" + *member.instanceId : "",
                                             member.memberType == 0 ? " (classic)" : "", member.memberEpoch,
                                             fmt::join(member.subscribedTopicNames, ","));
              if (member.subscribedTopicRegex) line += " /" + *member.subscribedTopicRegex + "/";
              line += " has";
              for (const auto& topic : member.assignment.topicPartitions) line += text(topic.topicId, topic.partitions);
              line += ", target";
              for (const auto& topic : member.targetAssignment.topicPartitions)
                line += text(topic.topicId, topic.partitions);
              print("{}", line);
            }
          },
          effects);
    });
  }

  void sync(Command& command) {
    wire::SyncGroupRequest asked;
    asked.groupId = command.word(0);
    std::string who = command.word(1);
    asked.memberId = memberOf(command, who);
    asked.groupInstanceId = command.take("instance");
    asked.generationId = static_cast<int32_t>(numberOf(command.take("gen").value_or("1")));
    asked.protocolType = command.take("type");
    asked.protocolName = command.take("protocol");
    for (const auto& [member, data] : command.options)
      asked.assignments.push_back({.memberId = idOf(member), .assignment = consumerAssignmentOf(data)});
    ask([&](Effects& effects) {
      groups_->sync(
          std::move(asked), now(),
          [this, who](Result<wire::SyncGroupResponse> result) {
            if (!result) return print("sync {}: {}", who, result.failure().error);
            print("sync {}: \"{}\"", who, shownAssignment(result->assignment));
          },
          effects);
    });
  }

  void beat(Command& command) {
    std::string who = command.word(1);
    std::string member = memberOf(command, who);
    auto instance = command.take("instance");
    auto generation = static_cast<int32_t>(numberOf(command.take("gen").value_or("1")));
    ask([&](Effects& effects) {
      groups_->heartbeat(
          command.word(0), member, instance, generation, now(),
          [this, who](Result<Left> result) { print("beat {}: {}", who, result.errorCode()); }, effects);
    });
  }

  void leave(const std::string& line) {
    std::istringstream in(line);
    std::string group;
    in >> group;
    Groups::MemberIdentities members;
    std::string rest;
    std::getline(in, rest);
    std::istringstream items(rest);
    for (std::string item; std::getline(items, item, ';');) {
      Command command("leave " + item);
      wire::LeaveGroupRequest::MemberIdentity member;
      member.memberId = idOf(command.take("id").value_or(""));
      member.groupInstanceId = command.take("instance");
      member.reason = command.take("reason");
      members.push_back(std::move(member));
    }
    ask([&](Effects& effects) {
      groups_->leave(
          group, members, now(),
          [this](Result<wire::LeaveGroupResponse> result) {
            for (const auto& member : result->members)
              print("leave {}{}: {}", named(member.memberId),
                    member.groupInstanceId ? "/" + *member.groupInstanceId : "", member.errorCode);
          },
          effects);
    });
  }

  void commit(Command& command) {
    wire::OffsetCommitRequest asked;
    auto version = static_cast<int16_t>(numberOf(command.take("v").value_or("8")));
    asked.groupId = command.word(0);
    asked.memberId = idOf(command.take("id").value_or(""));
    asked.groupInstanceId = command.take("instance");
    asked.generationIdOrMemberEpoch = static_cast<int32_t>(numberOf(command.take("gen").value_or("-1")));
    asked.retentionTimeMs = numberOf(command.take("retention").value_or("-1"));
    for (const auto& [name, given] : command.options) {
      TopicWord word = topicOf(name);
      auto& topic = asked.topics.emplace_back();
      topic.name = word.topic;
      if (auto known = image_->topic(word.topic)) topic.topicId = known->id;
      auto& partition = topic.partitions.emplace_back();
      partition.partitionIndex = word.partition;
      std::string value = given;
      if (size_t colon = value.find(':'); colon != value.npos) {
        partition.committedMetadata = value.substr(colon + 1);
        value.resize(colon);
      }
      if (size_t at = value.find('@'); at != value.npos) {
        partition.committedLeaderEpoch = static_cast<int32_t>(numberOf(value.substr(at + 1)));
        value.resize(at);
      }
      partition.committedOffset = numberOf(value);
    }
    ask([&](Effects& effects) {
      groups_->commit(
          std::move(asked), version, now(),
          [this](Result<wire::OffsetCommitResponse> result) {
            if (!result) return print("commit: {}", result.failure().error);
            for (const auto& topic : result->topics)
              for (const auto& partition : topic.partitions)
                print("commit {}-{}: {}", topic.name, partition.partitionIndex, partition.errorCode);
          },
          effects);
    });
  }

  void transact(Command& command) {
    wire::TxnOffsetCommitRequest asked;
    asked.producerId = numberOf(command.word(0));
    asked.groupId = command.word(1);
    asked.memberId = idOf(command.take("id").value_or(""));
    asked.groupInstanceId = command.take("instance");
    asked.generationIdOrMemberEpoch = static_cast<int32_t>(numberOf(command.take("gen").value_or("-1")));
    for (const auto& [name, offset] : command.options) {
      TopicWord word = topicOf(name);
      auto& topic = asked.topics.emplace_back();
      topic.name = word.topic;
      if (auto known = image_->topic(word.topic)) topic.topicId = known->id;
      auto& partition = topic.partitions.emplace_back();
      partition.partitionIndex = word.partition;
      partition.committedOffset = numberOf(offset);
    }
    ask([&](Effects& effects) {
      groups_->commitPending(
          std::move(asked), now(),
          [this](Result<wire::TxnOffsetCommitResponse> result) {
            if (!result) return print("transact: {}", result.failure().error);
            for (const auto& topic : result->topics)
              for (const auto& partition : topic.partitions)
                print("transact {}-{}: {}", topic.name, partition.partitionIndex, partition.errorCode);
          },
          effects);
    });
  }

  void marker(Command& command) {
    TransactionMarker marker{{ProducerId(numberOf(command.word(0))), 0}, 0, command.word(1) == "commit"};
    ask([&](Effects& effects) {
      groups_->endTransaction(
          marker, [this](Result<Left> result) { print("marker: {}", result.errorCode()); }, effects);
    });
  }

  void fetch(Command& command, bool stable) {
    Groups::FetchGroup asked;
    asked.groupId = command.word(0);
    asked.topics.reset();
    for (size_t i = 1; i < command.plain.size(); ++i) {
      TopicWord word = topicOf(command.plain[i]);
      if (!asked.topics) asked.topics.emplace();
      asked.topics->push_back({.name = word.topic, .partitionIndexes = {word.partition}});
    }
    ask([&](Effects& effects) {
      groups_->fetch(
          asked, stable, now(),
          [this](Result<Groups::FetchedGroup> result) {
            if (result->topics.empty()) print("fetch: nothing");
            for (const auto& topic : result->topics)
              for (const auto& partition : topic.partitions) {
                if (partition.errorCode != Error::none) {
                  print("fetch {}-{}: {}", topic.name, partition.partitionIndex, partition.errorCode);
                  continue;
                }
                print("fetch {}-{}: {} epoch {} \"{}\"", topic.name, partition.partitionIndex,
                      partition.committedOffset, partition.committedLeaderEpoch, partition.metadata.value_or("null"));
              }
          },
          effects);
    });
  }

  void forget(Command& command) {
    wire::OffsetDeleteRequest asked;
    asked.groupId = command.word(0);
    for (size_t i = 1; i < command.plain.size(); ++i) {
      TopicWord word = topicOf(command.plain[i]);
      auto& topic = asked.topics.emplace_back();
      topic.name = word.topic;
      topic.partitions.push_back({.partitionIndex = word.partition});
    }
    ask([&](Effects& effects) {
      groups_->deleteOffsets(
          asked, now(),
          [this](Result<wire::OffsetDeleteResponse> result) {
            if (!result) return print("forget: {}", result.failure().error);
            for (const auto& topic : result->topics)
              for (const auto& partition : topic.partitions)
                print("forget {}-{}: {}", topic.name, partition.partitionIndex, partition.errorCode);
          },
          effects);
    });
  }

  void list(Command& command) {
    wire::ListGroupsRequest filter;
    if (auto state = command.take("state")) filter.statesFilter.push_back(*state);
    if (auto type = command.take("type")) filter.typesFilter.push_back(*type);
    ask([&](Effects& effects) {
      groups_->list(
          filter,
          [this](Result<std::vector<wire::ListGroupsResponse::ListedGroup>> result) {
            if (result->empty()) print("none");
            for (const auto& group : *result)
              print("{}: {} {} \"{}\"", group.groupId, group.groupState, group.groupType, group.protocolType);
          },
          effects);
    });
  }

  void describeGroup(const std::string& id) {
    ask([&](Effects& effects) {
      groups_->describe(
          id, false,
          [this](Result<wire::DescribeGroupsResponse::DescribedGroup> result) {
            if (!result) return print("{}", result.failure().error);
            print("{}: {} \"{}\" \"{}\"", result->groupId, result->groupState, result->protocolType,
                  result->protocolData);
            for (const auto& member : result->members)
              print("  {}{} {} {} reads \"{}\" has \"{}\"", named(member.memberId),
                    member.groupInstanceId ? "/" + *member.groupInstanceId : "", member.clientId, member.clientHost,
                    shownSubscription(member.memberMetadata), shownAssignment(member.memberAssignment));
          },
          effects);
    });
  }

  void deleteGroup(const std::string& id) {
    ask([&](Effects& effects) {
      groups_->deleteGroup(id, [this](Result<Left> result) { print("delete: {}", result.errorCode()); }, effects);
    });
  }

  void history(const std::string& id) {
    const auto* history = groups_->history(id);
    if (history == nullptr) return print("no such group");
    for (const Rebalance& rebalance : *history) {
      print("generation {} members {} {}: {}", rebalance.generation, rebalance.members,
            rebalance.ended.value() < 0 ? "goes on" : fmt::format("took {} ms", rebalance.ended - rebalance.began),
            named(rebalance.reason));
    }
  }

  void pass(Duration time) {
    const Instant end = instant_ + time;
    for (int steps = 0; steps < 10'000; ++steps) {
      auto next = groups_->deadline();
      if (!next || *next > end) {
        instant_ = end;
        return;
      }
      instant_ = std::max(instant_, *next);
      ask([&](Effects& effects) { groups_->expire(now(), effects); });
    }
    MQ_CHECK(false, "the machine never comes to rest");
  }

  void restart() {
    groups_ = nullptr;  // tells who waits
    make();
    if (hasTransactions_) {
      for (const Written& written : written_) replay(written, 0);
    } else {
      for (const auto& [key, record] : log_) replay({kNoProducer, record, std::nullopt}, 0);
    }
    groups_->loaded(now());
  }

  GroupSettings settings_;
  Groups::Counters counters_;
  Prng random_{7};
  metadata::ImageRef image_ = metadata::emptyImage();
  int64_t entry_ = 0;
  uint64_t topics_ = 0;
  Instant instant_{1s};
  Revision revision_ = 0;
  std::map<std::string, LogRecord> log_;
  std::vector<Written> written_;
  bool hasTransactions_ = false;
  std::map<std::string, std::string> names_;  // member id → @WHO
  std::map<std::string, std::string> last_;   // WHO → its latest id
  std::map<std::string, int> given_;
  std::map<std::string, int32_t> epochs_;  // of members in the consumer protocol
  std::string out_;
  std::unique_ptr<Groups> groups_;  // last: what waits in it prints
};

void GroupsWorld::addTopic(const Command& command) {
  const std::string name = command.word(0);
  Uuid id;
  id.bytes[15] = static_cast<uint8_t>(++topics_);
  change(metadata::TopicRecord{.topicId = id, .name = name});
  if (command.plain.size() > 1) grow(name, static_cast<int32_t>(numberOf(command.word(1))));
}

void GroupsWorld::grow(const std::string& name, int32_t partitions) {
  auto topic = image_->topic(name);
  metadata::PartitionsRecord record{.topicId = topic->id, .first = topic->partitionCount()};
  for (int32_t i = topic->partitionCount(); i < partitions; ++i) record.partitions.emplace_back();
  change(std::move(record));
}

void GroupsWorld::dropTopic(const std::string& name) {
  change(metadata::RemoveTopicRecord{.topicId = image_->topic(name)->id});
  groups_->sweepSoon(now());
}

}  // namespace
}  // namespace mq::coordinator

int main(int argc, char** argv) {
  return mq::scenario::run(argc, argv, [] {
    auto world = std::make_shared<mq::coordinator::GroupsWorld>();
    return [world](const std::string& commands) { return world->step(commands); };
  });
}
