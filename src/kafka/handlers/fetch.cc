// Fetch: one look at every partition asked for, at its owner, each shard once; if that is less than min_bytes, a wait
// until the owners say that more can be read, and another look, until it is enough or max_wait has passed. In a session
// the owners look only at what may have news (replica::Reader).
//
// Bytes are never read here: the answer is a head with file slices (connection.h sends them). The exceptions are
// batches that the client is not known to decode (compression.type=auto), which are read and decompressed.
#include <algorithm>
#include <map>
#include <set>

#include "base/check.h"
#include "kafka/handlers/handlers.h"
#include "kafka/handlers/lookup.h"
#include "record/recompress.h"
#include "wire/fetch_request.h"
#include "wire/fetch_response.h"

namespace mq::kafka {

namespace {

constexpr int16_t kTopicIdsFrom = 13;
constexpr int16_t kFollowersFrom = 11;  // a client may be sent to a replica near it (KIP-392)
constexpr int16_t kCurrentLeaderFrom = 12;
constexpr int16_t kZstdFrom = 10;                // earlier clients cannot read it (KIP-110)
constexpr size_t kDecompressHereMax = 64 << 10;  // more goes off the loop
constexpr uint8_t kLz4Bit = 1 << static_cast<int>(record::Codec::lz4);
constexpr uint8_t kZstdBit = 1 << static_cast<int>(record::Codec::zstd);

// One partition of the request, in the order of service.
struct Item {
  FetchWish wish;                        // without a session
  uint64_t number = 0;                   // with one
  FetchSession::Entry* entry = nullptr;  // with one
  TopicIdPartition id;
  uint32_t shard = 0;
  replica::Fetched found;
  Buffer plain;  // instead of the file's bytes
  bool isPlain = false;

  const FetchWish& asked() const { return entry ? entry->wish : wish; }
  size_t bytes() const { return isPlain ? plain.size() : found.length; }
};

struct Plan {
  int16_t version;
  replica::Isolation isolation;
  uint64_t bytesMin;
  uint64_t bytesMax;
  std::vector<Item> items;
  FetchSessionUse session;
  std::map<uint64_t, size_t> placeOf;  // of a session's entry, by number, in items
  bool fullAnswer = true;              // lists every partition, changed or not
};

// What one shard is asked about: its items, by place.
struct Lookup {
  TopicIdPartition id;
  replica::Fetch fetch;
};

FetchWish wishOf(std::string_view topic, const TopicId& id, const wire::FetchRequest::FetchPartition& partition) {
  return {.topic = std::string(topic),
          .id = id,
          .partition = partition.partition,
          .from = Offset(partition.fetchOffset),
          .bytesMax = partition.partitionMaxBytes,
          .currentLeaderEpoch = LeaderEpoch(partition.currentLeaderEpoch),
          .lastFetchedEpoch = LeaderEpoch(partition.lastFetchedEpoch)};
}

replica::Fetch fetchOf(const FetchWish& asked, const Plan& plan) {
  return {.from = asked.from,
          .bytesMax = static_cast<uint32_t>(std::max(asked.bytesMax, 0)),
          .isolation = plan.isolation,
          .currentLeaderEpoch = asked.currentLeaderEpoch,
          .lastFetchedEpoch = asked.lastFetchedEpoch,
          .followerMayServe = plan.version >= kFollowersFrom};
}

// Runs on the owner of the partitions.
std::vector<replica::Fetched> look(replica::Partitions& partitions, const std::vector<Lookup>& lookups,
                                   uint64_t bytesMax) {
  std::vector<replica::Fetched> found;
  found.reserve(lookups.size());
  bool first = true;
  for (const Lookup& lookup : lookups) {
    replica::Partition* partition = partitions.find(lookup.id);
    if (partition == nullptr) {
      found.push_back({.error = partitions.whyMissing(lookup.id).error});
      continue;
    }
    replica::Fetch fetch = lookup.fetch;
    fetch.bytesMax = static_cast<uint32_t>(std::min<uint64_t>(fetch.bytesMax, bytesMax));
    fetch.firstBatchWhole = first;
    found.push_back(partition->fetch(fetch));
    uint64_t length = found.back().length;
    if (length > 0) first = false;
    bytesMax -= std::min(bytesMax, length);
  }
  return found;
}

// Keeps of what was found at several owners what fits into the request's limit.
void cut(Plan& plan) {
  uint64_t left = plan.bytesMax;
  bool first = true;
  for (Item& item : plan.items) {
    if (item.found.length == 0) continue;
    if (item.found.length > left && !first) {
      item.found.length = 0;
      item.found.file.reset();
      continue;
    }
    first = false;
    left -= std::min<uint64_t>(left, item.found.length);
  }
}

// Asks every owner about its partitions.
Co<void> lookEverywhere(Server& server, Plan& plan) {
  uint32_t here = server.shard().index();
  std::vector<std::vector<size_t>> places(server.shard().count());
  for (size_t i = 0; i < plan.items.size(); ++i) {
    Item& item = plan.items[i];
    if (!item.id.topic.isZero()) places[item.shard].push_back(i);
  }
  auto lookupsOf = [&](uint32_t shard) {
    std::vector<Lookup> lookups;
    lookups.reserve(places[shard].size());
    for (size_t place : places[shard]) {
      lookups.push_back({plan.items[place].id, fetchOf(plan.items[place].asked(), plan)});
    }
    return lookups;
  };
  auto take = [&](uint32_t shard, std::vector<replica::Fetched>&& found) {
    for (size_t i = 0; i < found.size(); ++i) plan.items[places[shard][i]].found = std::move(found[i]);
  };

  std::vector<std::pair<uint32_t, kj::Promise<std::vector<replica::Fetched>>>> remote;
  for (uint32_t shard = 0; shard < places.size(); ++shard) {
    if (shard == here || places[shard].empty()) continue;
    remote.emplace_back(
        shard, server.shard().call(shard, [&partitions = server.partitionsOf(shard), lookups = lookupsOf(shard),
                                           bytesMax = plan.bytesMax] { return look(partitions, lookups, bytesMax); }));
  }
  if (!places[here].empty()) take(here, look(server.partitions(), lookupsOf(here), plan.bytesMax));
  for (auto& [shard, promise] : remote) take(shard, co_await kj::mv(promise));
  cut(plan);
}

Located locateWish(Server& server, const Plan& plan, const FetchWish& asked) {
  bool byId = plan.version >= kTopicIdsFrom;
  auto topic = byId ? server.image().topic(asked.id) : server.image().topic(asked.topic);
  return locate(topic.get(), asked.partition, byId ? Error::unknownTopicId : Error::unknownTopicOrPartition);
}

Item& itemOf(Plan& plan, uint64_t number) {
  auto [at, isNew] = plan.placeOf.emplace(number, plan.items.size());
  if (isNew) plan.items.push_back({.number = number, .entry = plan.session->find(number)});
  return plan.items[at->second];
}

// What the owners are to be told of the session's list, by shard. Entries that are nowhere become items at once.
std::vector<replica::Partitions::ReaderChanges> changesOf(Server& server, Plan& plan) {
  FetchSession& session = *plan.session;
  std::vector<replica::Partitions::ReaderChanges> changes(server.shard().count());
  for (const TopicIdPartition& id : session.takeDropped()) changes[server.shardOf(id)].dropped.push_back(id);
  for (const TopicIdPartition& id : session.takeServed()) changes[server.shardOf(id)].served.push_back(id);
  for (uint64_t number : session.takeStale()) {
    FetchSession::Entry& entry = *session.find(number);
    Located located = locateWish(server, plan, entry.wish);
    if (!entry.followed.topic.isZero() && entry.followed != located.id)
      changes[server.shardOf(entry.followed)].dropped.push_back(entry.followed);
    entry.followed = located.id;
    if (located.error != Error::none) {
      Item& item = itemOf(plan, number);
      item.id = {};
      item.found = {.error = located.error};
      session.setStale(number);  // it may be there the next time
      continue;
    }
    uint32_t shard = server.shardOf(located.id);
    session.owners.insert(shard);
    changes[shard].named.push_back({.id = located.id, .tag = number, .fetch = fetchOf(entry.wish, plan)});
  }
  return changes;
}

void take(Server& server, Plan& plan, uint32_t shard, std::vector<replica::Reader::Found>&& list) {
  FetchSession& session = *plan.session;
  for (replica::Reader::Found& each : list) {
    Item& item = itemOf(plan, each.tag);
    MQ_CHECK(item.entry != nullptr, each.tag);  // the owner was told to drop what the client forgot
    item.id = item.entry->followed;
    item.shard = shard;
    item.found = std::move(each.fetched);
    if (item.found.error == Error::none) continue;
    session.setStale(each.tag);
    if (item.found.error != Error::unknownTopicOrPartition) continue;
    Located located = locateWish(server, plan, item.entry->wish);
    if (located.error == Error::none) continue;  // made anew; the next request finds it
    item.id = {};
    item.found = {.error = located.error};
  }
}

// Asks the owners what is new in the session's list.
Co<void> lookForNews(Server& server, Plan& plan) {
  auto changes = changesOf(server, plan);
  FetchSession& session = *plan.session;
  uint32_t here = server.shard().index();
  using Found = std::vector<replica::Reader::Found>;
  std::vector<std::pair<uint32_t, kj::Promise<Found>>> asked;
  for (uint32_t shard : session.owners) {
    replica::Partitions& partitions = server.partitionsOf(shard);
    auto look = [&partitions, token = session.token, changes = std::move(changes[shard]), bytesMax = plan.bytesMax] {
      return partitions.look(token, changes, bytesMax);
    };
    asked.emplace_back(shard, shard == here ? kj::Promise<Found>(look()) : server.shard().call(shard, std::move(look)));
  }
  // Another owner goes first each time, as what it found is kept when there is more than fits.
  if (!asked.empty()) {
    auto first = asked.begin() + session.nextEpoch() % static_cast<int32_t>(asked.size());
    std::rotate(asked.begin(), first, asked.end());
  }
  for (auto& [shard, promise] : asked) take(server, plan, shard, co_await kj::mv(promise));
  cut(plan);
}

// Called once for a session: its readers at the owners end with it.
void follow(Server& server, FetchSession& session) {
  session.token = server.nextWaitToken();
  session.onEnd = [&server, &session] {
    for (uint32_t shard : session.owners) {
      replica::Partitions& partitions = server.partitionsOf(shard);
      if (shard == server.shard().index()) {
        partitions.endReader(session.token);
      } else {
        server.shard().post(shard, [&partitions, token = session.token] { partitions.endReader(token); });
      }
    }
  };
}

uint64_t bytesFound(const Plan& plan) {
  uint64_t bytes = 0;
  for (const Item& item : plan.items) bytes += item.found.length;
  return bytes;
}

// Something that the client should hear of without waiting.
bool isUrgent(const Plan& plan) {
  return std::ranges::any_of(plan.items, [](const Item& item) {
    return item.found.error != Error::none || item.found.diverging.end.value() >= 0;
  });
}

// Waits at owners under one token. Ends them all when it goes, since a remote one does not notice that nobody waits.
class Waits {
 public:
  Waits(Server& server, uint64_t token) : server_(server), token_(token) { server.metrics().fetchesWaiting.add(); }
  ~Waits() {
    server_.metrics().fetchesWaiting.subtract();
    for (uint32_t shard : shards_) {
      replica::Partitions& partitions = server_.partitionsOf(shard);
      if (shard == server_.shard().index()) {
        partitions.cancelWait(token_);
      } else {
        server_.shard().post(shard, [&partitions, token = token_] { partitions.cancelWait(token); });
      }
    }
  }
  kj::Promise<void> at(uint32_t shard, std::vector<replica::WaitOn> list, uint64_t bytes, Duration atMost) {
    shards_.push_back(shard);
    replica::Partitions& partitions = server_.partitionsOf(shard);
    if (shard == server_.shard().index()) return partitions.waitForData(token_, std::move(list), bytes, atMost);
    return server_.shard().call(shard, [&partitions, token = token_, list = std::move(list), bytes, atMost]() mutable {
      return partitions.waitForData(token, std::move(list), bytes, atMost);
    });
  }
  kj::Promise<void> forNewsAt(uint32_t shard, uint64_t bytes, Duration atMost) {
    shards_.push_back(shard);
    replica::Partitions& partitions = server_.partitionsOf(shard);
    if (shard == server_.shard().index()) return partitions.waitForNews(token_, bytes, atMost);
    return server_.shard().call(
        shard, [&partitions, token = token_, bytes, atMost] { return partitions.waitForNews(token, bytes, atMost); });
  }

 private:
  Server& server_;
  uint64_t token_;
  std::vector<uint32_t> shards_;
};

// Until any owner has more to read, or `atMost` has passed. What is missing may come from several shards, so each
// reports its share; at least one of them has to reach it.
Co<void> waitForNews(Request& request, const Plan& plan, uint64_t bytesMissing, Duration atMost) {
  const std::set<uint32_t>& owners = plan.session->owners;
  uint64_t share = std::max<uint64_t>(bytesMissing / std::max<size_t>(owners.size(), 1), 1);
  Waits waits(request.server, plan.session->token);
  kj::Promise<void> any = request.session.leaving.addBranch();
  for (uint32_t shard : owners) any = any.exclusiveJoin(waits.forNewsAt(shard, share, atMost));
  co_await any;
}

// Until any owner has more to read, or `atMost` has passed; without a session, so the partitions are told each time.
Co<void> waitForMore(Request& request, const Plan& plan, uint64_t bytesMissing, Duration atMost) {
  Server& server = request.server;
  std::vector<std::vector<replica::WaitOn>> lists(server.shard().count());
  for (const Item& item : plan.items) {
    if (item.id.topic.isZero()) continue;
    Offset end =
        plan.isolation == replica::Isolation::readCommitted ? item.found.lastStableOffset : item.found.highWatermark;
    lists[item.shard].push_back({.partition = item.id, .end = end, .isolation = plan.isolation});
  }
  size_t involved = static_cast<size_t>(std::ranges::count_if(lists, [](const auto& list) { return !list.empty(); }));
  if (involved == 0) {
    co_await server.shard().after(atMost).exclusiveJoin(request.session.leaving.addBranch());
    co_return;
  }
  uint64_t share = std::max<uint64_t>(bytesMissing / involved, 1);
  Waits waits(server, server.nextWaitToken());
  kj::Promise<void> any = request.session.leaving.addBranch();
  for (uint32_t shard = 0; shard < lists.size(); ++shard) {
    if (!lists[shard].empty()) any = any.exclusiveJoin(waits.at(shard, std::move(lists[shard]), share, atMost));
  }
  co_await any;
}

void resolve(Server& server, Plan& plan) {
  // Partitions of one topic mostly come together.
  metadata::TopicRef topic;
  const FetchWish* previous = nullptr;
  bool byId = plan.version >= kTopicIdsFrom;
  for (Item& item : plan.items) {
    const FetchWish& asked = item.asked();
    if (previous == nullptr || previous->id != asked.id || previous->topic != asked.topic) {
      topic = byId ? server.image().topic(asked.id) : server.image().topic(asked.topic);
    }
    previous = &asked;
    auto located = locate(topic.get(), asked.partition, byId ? Error::unknownTopicId : Error::unknownTopicOrPartition);
    item.id = located.id;
    item.found = {.error = located.error};
    if (located.error == Error::none) item.shard = server.shardOf(located.id);
  }
}

// The first batches of a file's range uncompressed, until they come to bytesMax: a small range can hold batches that
// grow a thousandfold. What cannot be decompressed is left as it is: the client will say so.
struct PlainRange {
  Buffer bytes;
  size_t changed = 0;
};
PlainRange decompressed(const FileRef& file, uint64_t position, uint32_t length, uint64_t bytesMax) {
  Buffer stored(length);
  stored.resize(file->read(position, stored));
  PlainRange plain;
  record::Workspace workspace;
  Bytes rest = stored;
  do {
    auto next = record::nextBatch(rest);
    if (next.kind != record::NextBatch::Kind::whole) break;
    rest = rest.subspan(next.sizeBytes);
    record::BatchView batch(next.batch);
    if (batch.codec() == record::Codec::lz4 && record::decompressed(batch, workspace, plain.bytes)) {
      ++plain.changed;
    } else {
      plain.bytes.insert(plain.bytes.end(), next.batch.begin(), next.batch.end());
    }
  } while (plain.bytes.size() < bytesMax);
  return plain;
}

config::CompressionType compressionOf(Server& server, const TopicId& id) {
  auto topic = server.image().topic(id);
  if (topic == nullptr) return config::CompressionType::producer;
  return config::resolveTopic(server.settings().topicDefaults, *server.image().topicConfigs(topic->name)).compression;
}

// Makes what was found fit for a client that is old or of modest means.
Co<void> adapt(Request& request, Plan& plan) {
  Server& server = request.server;
  bool plainOnly = !request.session.decodesLz4();
  if (!plainOnly && plan.version >= kZstdFrom) co_return;
  uint64_t left = plan.bytesMax;  // of decompressed bytes; passed by one batch at most
  for (Item& item : plan.items) {
    if (item.found.error != Error::none || item.id.topic.isZero()) continue;
    if (item.found.length == 0) continue;
    uint8_t codecs = item.found.codecs != 0 ? item.found.codecs : (kLz4Bit | kZstdBit);
    bool mayZstd = plan.version < kZstdFrom && (codecs & kZstdBit) != 0;
    bool mayLz4 = plainOnly && (codecs & kLz4Bit) != 0;
    if (!mayZstd && !mayLz4) continue;
    auto compression = compressionOf(server, item.id.topic);
    if (mayZstd && (item.found.codecs != 0 || compression == config::CompressionType::zstd)) {
      item.found = {.error = Error::unsupportedCompressionType};
      continue;
    }
    if (!mayLz4 || compression != config::CompressionType::autoLz4) continue;
    if (left == 0) {  // the client will ask again
      item.found.length = 0;
      item.found.file.reset();
      continue;
    }
    auto bytesMax = std::min<uint64_t>(left, static_cast<uint64_t>(std::max(item.asked().bytesMax, 0)));
    auto work = [file = item.found.file, position = item.found.position, length = item.found.length, bytesMax] {
      return decompressed(file, position, length, bytesMax);
    };
    PlainRange plain =
        item.found.length > kDecompressHereMax ? co_await server.shard().run(Pool::compute, std::move(work)) : work();
    if (plain.changed == 0 && plain.bytes.size() == item.found.length) continue;
    left -= std::min<uint64_t>(left, plain.bytes.size());
    server.metrics().fetchDecompressed.add(plain.changed);
    server.metrics().fetchDecompressedSize.add(plain.bytes.size());
    item.plain = std::move(plain.bytes);
    item.isPlain = true;
  }
}

wire::FetchResponse::PartitionData describe(const Plan& plan, Item& item) {
  replica::Fetched& found = item.found;
  wire::FetchResponse::PartitionData data;
  data.partitionIndex = item.asked().partition;
  data.errorCode = found.error;
  bool failed = found.error != Error::none;  // then Kafka tells no offsets either
  data.highWatermark = failed ? -1 : found.highWatermark.value();
  data.lastStableOffset = failed ? -1 : found.lastStableOffset.value();
  data.logStartOffset = failed ? -1 : found.logStart.value();
  bool known = !item.id.topic.isZero();
  if (known && plan.isolation == replica::Isolation::readUncommitted) data.abortedTransactions.reset();
  for (const auto& aborted : found.aborted) {
    if (data.abortedTransactions)
      data.abortedTransactions->push_back(
          {.producerId = aborted.producer.value(), .firstOffset = aborted.first.value()});
  }
  if (found.diverging.end.value() >= 0) {
    data.divergingEpoch = {.epoch = found.diverging.epoch.value(), .endOffset = found.diverging.end.value()};
  }
  bool elsewhere = found.error == Error::notLeaderOrFollower || found.error == Error::fencedLeaderEpoch;
  if (elsewhere && plan.version >= kCurrentLeaderFrom) {
    data.currentLeader = {.leaderId = found.leader.value(), .leaderEpoch = found.leaderEpoch.value()};
  }
  if (item.isPlain) {
    data.records = wire::Blob(Bytes(item.plain));
  } else if (found.length > 0) {
    data.records = wire::Blob::external(found.length);
  }
  return data;
}

// Whether an incremental answer has to name the partition; remembers what it then says.
bool isNews(Item& item) {
  FetchSession::Entry& entry = *item.entry;
  const replica::Fetched& found = item.found;
  bool news = !entry.told || item.bytes() > 0 || found.error != Error::none || found.diverging.end.value() >= 0 ||
              entry.highWatermark != found.highWatermark || entry.logStart != found.logStart;
  entry.told = found.error == Error::none;  // an error is repeated, and so is the news that it is over
  entry.highWatermark = found.highWatermark;
  entry.logStart = found.logStart;
  return news;
}

Response answer(Request& request, Plan& plan) {
  wire::FetchResponse response;
  if (plan.session) {
    response.sessionId = plan.session->id();
    plan.session->isAnswered = true;
    std::ranges::sort(plan.items, {}, &Item::number);  // as the client listed them
  }
  std::vector<FileSlice> slices;
  const FetchWish* previous = nullptr;
  bool errors = false;
  for (Item& item : plan.items) {
    if (item.entry && item.bytes() > 0) plan.session->addServed(item.id);
    if (item.entry && !isNews(item) && !plan.fullAnswer) continue;
    const FetchWish& asked = item.asked();
    if (previous == nullptr || previous->id != asked.id || previous->topic != asked.topic) {
      response.responses.push_back({.topic = asked.topic, .topicId = asked.id});
    }
    previous = &asked;
    response.responses.back().partitions.push_back(describe(plan, item));
    errors |= item.found.error != Error::none;
    if (item.bytes() > 0) request.server.countFetched(item.id, item.bytes());
    if (item.found.length > 0 && !item.isPlain) {
      slices.push_back({std::move(item.found.file), item.found.position, item.found.length});
    }
  }
  if (errors) request.server.metrics(request.api).errors.add();
  Response frame = respond(request, response);
  frame.slices = std::move(slices);
  return frame;
}

Response refuse(Request& request, Error error) {
  request.server.metrics(request.api).errors.add();
  wire::FetchResponse response;
  response.errorCode = error;
  return respond(request, response);
}

// The items of the request: its own list, or its session's. An error is one of the whole request.
Result<void> plan(Request& request, const wire::FetchRequest& asked, Plan& plan) {
  Server& server = request.server;
  FetchSessions& sessions = server.fetchSessions();
  bool byId = plan.version >= kTopicIdsFrom;
  Instant now = server.shard().now();

  if (asked.sessionEpoch > 0) {
    auto resumed = sessions.resume(asked.sessionId, asked.sessionEpoch, byId, now);
    if (!resumed) return resumed.failure();
    plan.session = std::move(*resumed);
    plan.fullAnswer = false;
  } else {
    if (asked.sessionId != 0) sessions.close(asked.sessionId);
    bool any = std::ranges::any_of(asked.topics, [](const auto& topic) { return !topic.partitions.empty(); });
    if (asked.sessionEpoch == 0 && any) plan.session = sessions.create(byId, now);
    if (plan.session) follow(server, *plan.session);
  }
  if (plan.session) {
    for (const auto& topic : asked.forgottenTopicsData) {
      for (int32_t partition : topic.partitions) plan.session->forget({topic.topic, topic.topicId, partition});
    }
    for (const auto& topic : asked.topics) {
      for (const auto& partition : topic.partitions)
        plan.session->update(wishOf(topic.topic, topic.topicId, partition));
    }
    if (!plan.session->isAnswered || plan.session->isolation != plan.isolation) plan.session->setAllStale();
    plan.session->isAnswered = false;
    plan.session->isolation = plan.isolation;
    return {};
  }
  for (const auto& topic : asked.topics) {
    for (const auto& partition : topic.partitions) {
      plan.items.push_back({.wish = wishOf(topic.topic, topic.topicId, partition)});
    }
  }
  return {};
}

Co<Response> serveFetch(Request& request, Plan plan, Duration wait) {
  Server& server = request.server;
  Instant deadline = server.shard().now() + wait;
  for (;;) {
    if (plan.session) {
      co_await lookForNews(server, plan);
    } else {
      resolve(server, plan);
      co_await lookEverywhere(server, plan);
    }
    uint64_t bytes = bytesFound(plan);
    bool isEmpty = plan.session ? plan.session->size() == 0 : plan.items.empty();
    if (bytes >= plan.bytesMin || isEmpty || isUrgent(plan) || request.session.isLeaving) break;
    Duration left = deadline - server.shard().now();
    if (left <= 0ns) break;
    if (plan.session) {
      co_await waitForNews(request, plan, plan.bytesMin - bytes, left);
    } else {
      co_await waitForMore(request, plan, plan.bytesMin - bytes, left);
    }
  }
  co_await adapt(request, plan);
  co_return answer(request, plan);
}

}  // namespace

kj::Promise<Response> fetch(Request& request, wire::FetchRequest asked) {
  if (asked.isolationLevel < 0 || asked.isolationLevel > 1) return refuse(request, Error::invalidRequest);
  auto bytesMax = std::min(std::max(asked.maxBytes, 0), request.server.settings().fetchBytesMax);
  Plan todo{.version = request.version,
            .isolation = static_cast<replica::Isolation>(asked.isolationLevel),
            .bytesMin = std::min(static_cast<uint64_t>(std::max(asked.minBytes, 0)), static_cast<uint64_t>(bytesMax)),
            .bytesMax = static_cast<uint64_t>(bytesMax)};
  if (auto planned = plan(request, asked, todo); !planned) return refuse(request, planned.failure().error);
  return serveFetch(request, std::move(todo), std::chrono::milliseconds(std::max(asked.maxWaitMs, 0)));
}

}  // namespace mq::kafka
