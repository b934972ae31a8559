#include "storage/log_directory.h"

#include <algorithm>
#include <charconv>

#include "base/check.h"
#include "base/crc32c.h"
#include "storage/file_names.h"
#include "storage/log_directory_state.h"
#include "storage/partition_metadata.h"
#include "storage/shard_logs.h"

namespace mq::storage {
namespace {

constexpr std::string_view kOwnerFile = "mq-directory";
constexpr std::string_view kLockFile = ".lock";
constexpr std::string_view kListFile = "partitions";
constexpr std::string_view kMarksFile = "recovery-point-offset-checkpoint";
constexpr std::string_view kStartsFile = "log-start-offset-checkpoint";
constexpr std::string_view kCleanedFile = "cleaner-offset-checkpoint";
constexpr std::string_view kCleanFile = "clean-shutdown";
constexpr std::string_view kReserveFile = "reserve";
constexpr std::string_view kQuarantine = "quarantine";
constexpr std::string_view kDeleteSuffix = "-delete";
constexpr int kFormat = 1;
constexpr size_t kSmallFileMax = 256_MiB;
constexpr std::string_view kKafkaFiles[] = {"meta.properties", ".kafka_cleanshutdown", "cleaner-offset-checkpoint"};

template <class... Args>
[[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) {
  throw kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__,
                      kj::str(fmt::format(format, std::forward<Args>(args)...).c_str()));
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The next line, without its end; nullopt when there is none.
std::optional<std::string_view> takeLine(std::string_view& text) {
  if (text.empty()) return std::nullopt;
  size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  return line;
}

struct OwnerFile {
  int64_t format = 0;
  Uuid clusterId;
  int32_t node = 0;
  Uuid directoryId;

  std::string encode() const {
    return fmt::format(
        "# The identity of this mq data directory. Not to be edited.\nformat={}\n{}node.id={}\ndirectory.id={}\n",
        format, clusterId.isZero() ? "" : fmt::format("cluster.id={}\n", clusterId), node, directoryId);
  }
  static OwnerFile decode(std::string_view text, const std::string& path) {
    OwnerFile owner;
    bool cluster = true, node = false, directory = false;  // without a cluster: of none yet
    while (auto line = takeLine(text)) {
      size_t equals = line->find('=');
      if (line->starts_with('#') || equals == std::string_view::npos) continue;
      std::string_view key = line->substr(0, equals), value = line->substr(equals + 1);
      if (key == "format") owner.format = number<int64_t>(value).value_or(0);
      if (key == "cluster.id") cluster = Uuid::parse(value) && (owner.clusterId = *Uuid::parse(value), true);
      if (key == "node.id") node = number<int32_t>(value) && (owner.node = *number<int32_t>(value), true);
      if (key == "directory.id") directory = Uuid::parse(value) && (owner.directoryId = *Uuid::parse(value), true);
    }
    if (owner.format > kFormat) {
      refuse("{} has format {}, written by a newer mq; this one knows up to {}. Nothing was changed", path,
             owner.format, kFormat);
    }
    if (owner.format < 1 || !cluster || !node || !directory) refuse("{} is damaged: {}", path, text);
    return owner;
  }
};

// "1\n" COUNT "\n" then COUNT lines "TOPIC PARTITION TOPIC_ID\n" and "crc HEX\n" over all before.
std::string encodeList(const std::map<TopicPartition, TopicId>& listed) {
  std::string text = fmt::format("1\n{}\n", listed.size());
  for (const auto& [name, topic] : listed) text += fmt::format("{} {} {}\n", name.topic, name.partition, topic);
  return text + fmt::format("crc {:08x}\n", crc32c(asBytes(text)));
}

std::map<TopicPartition, TopicId> decodeList(std::string_view text, const std::string& path) {
  std::map<TopicPartition, TopicId> listed;
  size_t tail = text.rfind("crc ");
  std::string_view body = text.substr(0, tail == std::string_view::npos ? 0 : tail);
  if (tail == std::string_view::npos || text.substr(tail) != fmt::format("crc {:08x}\n", crc32c(asBytes(body)))) {
    refuse("{}, the list of partitions, is damaged: restore it, or remove the partition directories and it", path);
  }
  std::string_view left = body;
  auto version = takeLine(left);
  auto count = takeLine(left);
  if (version != "1" || !count) refuse("{} has version {}, which this mq does not know", path, version.value_or(""));
  while (auto line = takeLine(left)) {
    size_t first = line->find(' '), second = line->rfind(' ');
    auto topic = second == std::string_view::npos ? std::nullopt : Uuid::parse(line->substr(second + 1));
    auto partition = first == second ? std::nullopt : number<int32_t>(line->substr(first + 1, second - first - 1));
    if (!topic || !partition) refuse("{} is damaged in the line \"{}\"", path, *line);
    listed[{std::string(line->substr(0, first)), *partition}] = *topic;
  }
  return listed;
}

// "<topic>-<number>"
bool looksLikePartition(std::string_view name) {
  size_t dash = name.rfind('-');
  return dash != std::string_view::npos && dash > 0 && number<int32_t>(name.substr(dash + 1)).has_value();
}

std::string nameOf(const TopicPartition& name) { return fmt::format("{}", name); }
std::string deletedName(const TopicId& topic, std::string_view partition) {
  return fmt::format("{}-{}{}", topic, partition, kDeleteSuffix);
}

// With the names of all that had to be made.
void makeDurably(FileSystem& files, const std::string& path) {
  if (files.exists(path)) return;
  size_t slash = path.find_last_of('/');
  std::string parent = slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
  makeDurably(files, parent);
  files.makeDirectory(path);
  files.syncDirectory(parent);
}

void removeTree(FileSystem& files, const std::string& path) {
  for (const DirectoryEntry& entry : files.list(path)) {
    std::string inside = path + "/" + entry.name;
    entry.isDirectory ? removeTree(files, inside) : files.remove(inside);
  }
  files.removeDirectory(path);
}

}  // namespace

LogDirectory::State::State(Shard& shard0, Options o)
    : shard(shard0),
      options(std::move(o)),
      tuning(options.tuning),
      dirtyPercents(shard0.count(), 0),
      members(shard0.count(), nullptr),
      tasks(shard0.log(), "directory-task-failed") {
  MQ_CHECK(shard.index() == 0, shard.index());
}

// --- opening

void LogDirectory::State::claim(const DirectoryOwner& owner) {
  FileSystem& files = shard.files();
  const std::string ownerPath = path(kOwnerFile);
  // Looks only: what is refused stays as it is.
  auto read = [&]() -> std::optional<OwnerFile> {
    if (!files.exists(options.path)) return std::nullopt;
    if (!files.exists(ownerPath)) {
      for (std::string_view name : kKafkaFiles) {
        if (files.exists(path(name))) {
          refuse("{} is a data directory of Apache Kafka ({} is there); mq does not touch it. Choose another directory",
                 options.path, name);
        }
      }
      for (const DirectoryEntry& entry : files.list(options.path)) {
        bool known = entry.name.starts_with('.') || entry.name == "lost+found" ||
                     entry.name == std::string(kOwnerFile) + ".tmp" ||
                     std::ranges::find(options.otherNames, entry.name) != options.otherNames.end();
        if (!known) {
          refuse("{} is not empty ({} is there) and not a data directory of mq. Choose another directory", options.path,
                 entry.name);
        }
      }
      return std::nullopt;
    }
    OwnerFile found = OwnerFile::decode(files.readFile(ownerPath, 64_KiB), ownerPath);
    if (found.node != owner.node.value()) {
      refuse("{} belongs to node {}, not to node {}", options.path, found.node, owner.node);
    }
    if (owner.clusterId && !found.clusterId.isZero() && found.clusterId != *owner.clusterId) {
      refuse("{} belongs to cluster {}, not to cluster {}", options.path, found.clusterId, *owner.clusterId);
    }
    return found;
  };
  read();
  makeDurably(files, options.path);
  int64_t holder = 0;
  auto locked = files.lock(path(kLockFile), &holder);
  if (!locked) {
    if (holder > 0) refuse("{} is in use by process {}", options.path, holder);
    refuse("{} is in use by another process", options.path);
  }
  lock = std::move(*locked);
  std::optional<OwnerFile> found = read();  // whoever held the lock before us may have been the first
  if (!found) {
    isNew = true;
    found = OwnerFile{.format = kFormat,
                      .clusterId = owner.clusterId ? *owner.clusterId
                                   : owner.joins   ? Uuid()
                                                   : shard.random().uuid(),
                      .node = owner.node.value(),
                      .directoryId = shard.random().uuid()};
    files.replaceFile(ownerPath, found->encode());
  }
  clusterId = found->clusterId;
  directoryId = found->directoryId;
}

void LogDirectory::State::adopt(const Uuid& cluster) {
  if (clusterId == cluster) return;
  if (!clusterId.isZero()) refuse("{} belongs to cluster {}, not to cluster {}", options.path, clusterId, cluster);
  OwnerFile owner = OwnerFile::decode(shard.files().readFile(path(kOwnerFile), 64_KiB), path(kOwnerFile));
  owner.clusterId = clusterId = cluster;
  shard.files().replaceFile(path(kOwnerFile), owner.encode());
}

void LogDirectory::State::readLists() {
  FileSystem& files = shard.files();
  space = files.space(options.path);
  reserved = files.exists(path(kReserveFile));
  if (reserved && space.available < reserveBytes(space)) {
    shard.log().warning("disk-full", "{} has {} bytes free: the reserve of it is given up so that mq can start",
                        options.path, space.available);
    files.remove(path(kReserveFile));
    reserved = false;
  }
  writable = space.available >= floorBytes(space);
  clean = files.exists(path(kCleanFile));
  if (files.exists(path(kListFile))) {
    listed = decodeList(files.readFile(path(kListFile), kSmallFileMax), path(kListFile));
  }
  auto readCheckpoint = [&](std::string_view name, Checkpoint& into) {
    if (!files.exists(path(name))) return true;
    auto decoded = decodeCheckpoint(files.readFile(path(name), kSmallFileMax));
    if (!decoded) {
      shard.log().error("checkpoint-damaged", "{}: {}", path(name), decoded.failure().message);
      return false;
    }
    into = std::move(*decoded);
    return true;
  };
  // Marks only save work, so without them everything is scanned; starts hide what was deleted, so they must be there.
  if (!readCheckpoint(kMarksFile, marks)) clean = false;
  readCheckpoint(kCleanedFile, cleaned);  // without it compaction begins anew
  if (!readCheckpoint(kStartsFile, starts)) {
    refuse(
        "{} is damaged: it says where logs start after DeleteRecords and retention. Restore it, or remove it to see "
        "deleted records again",
        path(kStartsFile));
  }
  if (clean) {
    files.remove(path(kCleanFile));
    files.syncDirectory(options.path);
  }
}

void LogDirectory::State::survey() {
  FileSystem& files = shard.files();
  std::map<std::string, bool> directories;
  for (const DirectoryEntry& entry : files.list(options.path)) {
    if (entry.isDirectory) directories[entry.name] = true;
  }
  for (auto at = listed.begin(); at != listed.end();) {
    const auto& [name, topic] = *at;
    if (!directories.contains(nameOf(name)) &&
        directories.contains(deletedName(topic, std::to_string(name.partition)))) {
      forgetOffsets(name);
      at = listed.erase(at);
      listChanged = true;
    } else {
      directories.erase(nameOf(name));
      ++at;
    }
  }
  for (const auto& [name, there] : directories) {
    if (std::ranges::find(options.otherNames, name) != options.otherNames.end()) continue;
    if (name.ends_with(kDeleteSuffix)) {
      deleted.push_back(name);
    } else if (looksLikePartition(name)) {
      unlisted[name] = true;
    }
  }
}

void LogDirectory::State::startTasks() {
  for (const std::string& name : std::exchange(deleted, {})) tasks.add(unlinkDirectory(name));
  if (options.spaceCheckInterval > Duration(0)) tasks.add(watchSpace());
  if (listChanged) tasks.add(stored());
}

uint64_t LogDirectory::State::floorBytes(const DiskSpace& now) const {
  return std::min(tuning.freeBytesMin, now.total / 100 * tuning.freePercentMin);
}

uint64_t LogDirectory::State::reserveBytes(const DiskSpace& now) const {
  return std::min(options.reserveBytes, now.total / 100);
}

// --- for LogShards

void LogDirectory::State::join(ShardLogs& logs) { members[logs.shard.index()] = &logs; }

Co<void> LogDirectory::State::leave(uint32_t index, std::vector<TopicPartition> closed) {
  members[index] = nullptr;
  for (TopicPartition& name : closed) recovered.insert(std::move(name));
  marksChanged = true;  // close() stores what the last one left
  co_return;
}

Co<OpenTicket> LogDirectory::State::prepareOpen(TopicPartition name, TopicId topic) {
  // A topic of the same name whose deletion is still under way.
  while (true) {
    auto at = open.find(name);
    if (at == open.end() || at->second.topic == topic) break;
    auto paf = kj::newPromiseAndFulfiller<void>();
    at->second.waiting.push_back(kj::mv(paf.fulfiller));
    co_await paf.promise;
  }
  open[name] = {.topic = topic, .waiting = {}};
  auto at = listed.find(name);
  auto mark = marks.find(name);
  auto start = starts.find(name);
  OpenTicket ticket{.files = true,
                    .listed = true,
                    .clean = clean,
                    .mark = mark == marks.end() ? Offset(0) : mark->second,
                    .start = start == starts.end() ? Offset(0) : start->second};
  if (auto compacted = cleaned.find(name); compacted != cleaned.end()) ticket.cleanedTo = compacted->second;
  if (at != listed.end() && at->second == topic) co_return ticket;
  if (at != listed.end()) {
    shard.log().warning("quarantine", "{} belongs to topic id {}, not to {}: its directory goes to {}", name,
                        at->second, topic, path(kQuarantine));
    listed.erase(name);
    forgetOffsets(name);
    listChanged = true;
    co_await quarantine(nameOf(name));
    co_await stored();
    co_return OpenTicket{};
  }
  if (unlisted.erase(nameOf(name)) == 0) co_return OpenTicket{};
  // Written, but not listed when the process ended: it is ours if it says so.
  if (topicOf(nameOf(name)) == topic) co_return OpenTicket{.files = true, .start = ticket.start};
  co_await quarantine(nameOf(name));
  co_return OpenTicket{};
}

// What partition.metadata in it says; nullopt: nothing that can be read.
std::optional<TopicId> LogDirectory::State::topicOf(const std::string& directory) const {
  std::string metadata = path(directory) + "/" + std::string(kPartitionMetadataFile);
  if (!shard.files().exists(metadata)) return std::nullopt;
  auto id = decodePartitionMetadata(shard.files().readFile(metadata, 64_KiB));
  return id ? std::optional(*id) : std::nullopt;
}

Co<void> LogDirectory::State::settleUnknown(std::function<bool(const TopicId&)> wasDeleted) {
  surveyed = true;
  for (const auto& [directory, there] : std::exchange(unlisted, {})) {
    auto topic = topicOf(directory);
    if (!topic || !wasDeleted(*topic)) {
      co_await quarantine(directory);
      continue;
    }
    shard.log().info("deleted", "{} belongs to a topic that was deleted: it goes", path(directory));
    co_await discard(directory, deletedName(*topic, directory.substr(directory.rfind('-') + 1)));
  }
  for (const auto& [name, topic] : std::map(listed)) {
    if (open.contains(name)) continue;
    if (wasDeleted(topic)) {
      shard.log().info("deleted", "{} belongs to a topic that was deleted: it goes", path(nameOf(name)));
      co_await removePartition(name, topic);
      continue;
    }
    listed.erase(name);
    forgetOffsets(name);
    listChanged = true;
    co_await quarantine(nameOf(name));
  }
  if (listChanged) co_await stored();
}

kj::Promise<void> LogDirectory::State::list(TopicPartition name, TopicId topic) {
  listed[std::move(name)] = topic;
  listChanged = true;
  return stored();
}

kj::Promise<void> LogDirectory::State::storeStart(TopicPartition name, Offset start) {
  starts[std::move(name)] = start;
  startsChanged = true;
  return stored();
}

kj::Promise<void> LogDirectory::State::storeMark(TopicPartition name, Offset mark) {
  marks[std::move(name)] = mark;
  marksChanged = true;
  return stored();
}

kj::Promise<void> LogDirectory::State::storeCleaned(TopicPartition name, Offset cleanedTo) {
  if (!listed.contains(name)) return kj::READY_NOW;  // deleted meanwhile
  cleaned[std::move(name)] = cleanedTo;
  cleanedChanged = true;
  return stored();
}

void LogDirectory::State::forgetOffsets(const TopicPartition& name) {
  marks.erase(name);
  starts.erase(name);
  cleaned.erase(name);
  marksChanged = startsChanged = cleanedChanged = true;
}

bool LogDirectory::State::takeClean() {
  if (cleans >= tuning.cleansMax) return false;
  ++cleans;
  return true;
}

void LogDirectory::State::giveClean(bool cleaned) {
  --cleans;
  if (cleaned) lastClean = shard.wallNow();
}

void LogDirectory::State::noteMarks(std::vector<std::pair<TopicPartition, Offset>> moved) {
  for (auto& [name, mark] : moved) {
    if (!listed.contains(name)) continue;  // deleted meanwhile
    marks[name] = mark;
    marksChanged = true;
  }
  if (marksChanged && !writing) tasks.add(stored().catch_([](kj::Exception&&) {}));
}

Co<void> LogDirectory::State::removePartition(TopicPartition name, TopicId topic) {
  auto at = listed.find(name);
  bool isListed = at != listed.end() && at->second == topic;
  bool isOpen = open.contains(name) && open.at(name).topic == topic;
  if (isListed || isOpen) {
    bool renamed = co_await renameDurably(nameOf(name), deletedName(topic, std::to_string(name.partition)));
    listed.erase(name);
    forgetOffsets(name);
    listChanged = true;
    if (isListed && !offline) co_await stored();
    if (renamed) tasks.add(unlinkDirectory(deletedName(topic, std::to_string(name.partition))));
  }
  if (isOpen) {
    auto waiters = std::move(open.at(name).waiting);
    open.erase(name);
    for (auto& waiter : waiters) waiter->fulfill();
  }
}

// False: it is not there.
Co<bool> LogDirectory::State::renameDurably(std::string from, std::string to) {
  co_return co_await shard.run(Pool::sync, [&files = shard.files(), root = options.path, from, to] {
    if (!files.exists(root + "/" + from)) return false;
    if (files.exists(root + "/" + to)) removeTree(files, root + "/" + to);
    files.rename(root + "/" + from, root + "/" + to);
    files.syncDirectory(root);
    return true;
  });
}

Co<void> LogDirectory::State::discard(std::string directory, std::string as) {
  if (co_await renameDurably(std::move(directory), as)) tasks.add(unlinkDirectory(std::move(as)));
}

void LogDirectory::State::goOffline(const std::string& reason) {
  if (offline) return;
  offline = reason;
  for (auto& waiter : std::exchange(waiting, {})) {
    waiter->reject(kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__, kj::str(reason.c_str())));
  }
  for (ShardLogs* member : members) {
    if (member != nullptr) shard.post(member->shard.index(), [member, reason] { member->goOffline(reason); });
  }
}

// --- the files

kj::Promise<void> LogDirectory::State::stored() {
  if (offline) return kj::Exception(kj::Exception::Type::FAILED, __FILE__, __LINE__, kj::str(offline->c_str()));
  auto paf = kj::newPromiseAndFulfiller<void>();
  waiting.push_back(kj::mv(paf.fulfiller));
  if (!std::exchange(writing, true)) tasks.add(writeChanges());
  return kj::mv(paf.promise);
}

// One write at a time; what is asked for meanwhile shares the next.
Co<void> LogDirectory::State::writeChanges() {
  co_await kj::evalLater([] {});
  while (!waiting.empty() && !offline) {
    auto served = std::exchange(waiting, {});
    struct File {
      std::string path;
      std::string text;
    };
    std::vector<File> changed;
    const bool list = std::exchange(listChanged, false);
    const bool start = std::exchange(startsChanged, false);
    const bool mark = std::exchange(marksChanged, false);
    const bool clean = std::exchange(cleanedChanged, false);
    // First, since one that is too high would hide what is to be cleaned once the log has been cut.
    if (clean) changed.push_back({path(kCleanedFile), encodeCheckpoint(cleaned)});
    // Starts before the list: a listed partition without its start would show deleted records.
    if (start) changed.push_back({path(kStartsFile), encodeCheckpoint(starts)});
    if (list) changed.push_back({path(kListFile), encodeList(listed)});
    if (mark) changed.push_back({path(kMarksFile), encodeCheckpoint(marks)});
    std::optional<kj::Exception> failed;
    for (int attempt = 0; attempt < 2; ++attempt) {
      failed.reset();
      try {
        co_await shard.run(Pool::sync, [&files = shard.files(), changed] {
          for (const File& file : changed) files.replaceFile(file.path, file.text);
        });
      } catch (...) {
        failed.emplace(caughtException());
      }
      if (!failed || !isNoSpace(*failed) || !std::exchange(reserved, false)) break;
      shard.log().warning("disk-full", "the reserve of {} is given up to write its small files", options.path);
      shard.files().remove(path(kReserveFile));
    }
    if (!failed) {
      for (auto& waiter : served) waiter->fulfill();
      continue;
    }
    // Nothing is lost by a later try when there was no space; anything else cannot be trusted.
    listChanged |= list;
    startsChanged |= start;
    marksChanged |= mark;
    cleanedChanged |= clean;
    for (auto& waiter : served) waiter->reject(kj::cp(*failed));
    if (!isNoSpace(*failed))
      goOffline(fmt::format("writing the small files of {}: {}", options.path, describe(*failed)));
  }
  writing = false;
}

Co<void> LogDirectory::State::watchSpace() {
  bool failing = false;
  while (!offline) {
    try {
      space =
          co_await shard.run(Pool::read, [&files = shard.files(), path = options.path] { return files.space(path); });
      failing = false;
      uint64_t floor = floorBytes(space);
      // Back a little above the floor, so that the state does not flicker around it.
      bool now = space.available >= (writable ? floor : floor + floor / 8);
      if (now != writable) {
        writable = now;
        if (now) {
          shard.log().info("disk-space", "{} has {} bytes free again: writes resume", options.path, space.available);
        } else {
          shard.log().error("disk-full",
                            "{} has {} bytes free, below the floor of {}: writes are refused, reads and "
                            "deletes go on",
                            options.path, space.available, floor);
        }
        for (ShardLogs* member : members) {
          if (member != nullptr) shard.post(member->shard.index(), [member, now] { member->writable = now; });
        }
      }
      if (!writable && tuning.trim) co_await trim(floor + floor / 8 - std::min(space.available, floor));
      uint64_t reserve = reserveBytes(space);
      if (!reserved && reserve > 0 && space.available > floor + 2 * reserve) co_await makeReserve(reserve);
    } catch (...) {
      if (!std::exchange(failing, true)) {
        shard.log().warning("disk-space", "cannot look at {}: {}", options.path, describe(caughtException()));
      }
    }
    co_await shard.after(options.spaceCheckInterval);
  }
}

// Each shard its share, and then the disk is looked at again: a little too much would be data lost for nothing.
Co<void> LogDirectory::State::trim(uint64_t bytes) {
  std::vector<kj::Promise<void>> trimming;
  for (ShardLogs* member : members) {
    if (member == nullptr) continue;
    uint64_t share = bytes / members.size() + 1;
    trimming.push_back(shard.call(member->shard.index(), [member, share] { return member->trim(share); }));
  }
  for (auto& promise : trimming) co_await promise;
}

// Real blocks, not a hole: giving the file up must free space.
Co<void> LogDirectory::State::makeReserve(uint64_t bytes) {
  co_await shard.run(Pool::background, [&files = shard.files(), path = path(kReserveFile), bytes] {
    FileRef file = files.open(path, OpenMode::create);
    Buffer zeros(std::min<uint64_t>(bytes, 256_KiB));
    for (uint64_t at = 0; at < bytes; at += zeros.size()) file->write(at, Bytes(zeros));
  });
  reserved = true;
}

Co<void> LogDirectory::State::unlinkDirectory(std::string name) {
  co_await shard.run(Pool::background, [&files = shard.files(), path = path(name)] {
    if (files.exists(path)) removeTree(files, path);
  });
}

Co<void> LogDirectory::State::quarantine(std::string name) {
  std::string to = co_await shard.run(Pool::sync, [&files = shard.files(), root = options.path, name] {
    std::string aside = root + "/" + std::string(kQuarantine);
    files.makeDirectory(aside);
    std::string target = aside + "/" + name;
    for (int n = 1; files.exists(target); ++n) target = fmt::format("{}/{}.{}", aside, name, n);
    if (!files.exists(root + "/" + name)) return std::string();
    files.rename(root + "/" + name, target);
    files.syncDirectory(aside);
    files.syncDirectory(root);
    return target;
  });
  if (!to.empty()) shard.log().warning("quarantine", "{} is not known to this node: moved to {}", path(name), to);
}

// A stop in the middle of the recovery that an unclean stop asked for: the rest of it is still to be done.
size_t LogDirectory::State::unrecovered() const {
  if (clean) return 0;
  return static_cast<size_t>(std::ranges::count_if(listed, [this](const auto& row) {
    bool unclaimed = surveyed && !open.contains(row.first);
    return !recovered.contains(row.first) && !unclaimed;
  }));
}

Co<void> LogDirectory::State::close() {
  for (ShardLogs* member : members) MQ_CHECK(member == nullptr, member->shard.index());
  try {
    if (!offline) co_await stored();
    while (writing) co_await shard.after(1ms);
    tasks.cancelAll();
    if (offline) co_return;
    if (size_t left = unrecovered(); left > 0) {
      shard.log().warning("unclean-stop", "{}: {} partitions were not recovered yet; the next start does that",
                          options.path, left);
      co_return;
    }
    co_await shard.run(Pool::sync,
                       [&files = shard.files(), path = path(kCleanFile)] { files.replaceFile(path, "1\n"); });
  } catch (...) {
    // Nothing is lost by it: the next start scans what a clean one would not.
    kj::Exception reason = caughtException();
    shard.log().warning("unclean-stop", "{} could not be marked as stopped cleanly: {}", options.path,
                        describe(reason));
    tasks.cancelAll();
  }
}

// --- LogDirectory

LogDirectory::LogDirectory(Shard& shard0, Options options, DirectoryOwner owner)
    : state_(std::make_unique<State>(shard0, std::move(options))) {
  state_->claim(owner);
  state_->readLists();
  state_->survey();
  state_->startTasks();
}

LogDirectory::~LogDirectory() = default;

const Options& LogDirectory::options() const { return state_->options; }
const Uuid& LogDirectory::clusterId() const { return state_->clusterId; }
void LogDirectory::adopt(const Uuid& clusterId) { state_->adopt(clusterId); }
const Uuid& LogDirectory::directoryId() const { return state_->directoryId; }
bool LogDirectory::isNew() const { return state_->isNew; }
bool LogDirectory::wasClean() const { return state_->clean; }

std::vector<ListedPartition> LogDirectory::partitions() const {
  std::vector<ListedPartition> partitions;
  partitions.reserve(state_->listed.size());
  for (const auto& [name, topic] : state_->listed) partitions.push_back({name, topic});
  return partitions;
}

WallMs LogDirectory::lastClean() const { return state_->lastClean; }
uint32_t LogDirectory::dirtyPercentMax() const { return std::ranges::max(state_->dirtyPercents); }

const std::optional<std::string>& LogDirectory::offlineReason() const { return state_->offline; }

DirectoryUsage LogDirectory::usage() const {
  return {.totalBytes = state_->space.total, .availableBytes = state_->space.available};
}

bool LogDirectory::writable() const { return state_->writable; }

void LogDirectory::tune(const Tuning& tuning) {
  state_->tuning = tuning;
  for (ShardLogs* member : state_->members) {
    if (member != nullptr) state_->shard.post(member->shard.index(), [member, tuning] { member->tune(tuning); });
  }
}

kj::Promise<void> LogDirectory::settleUnknown(std::function<bool(const TopicId&)> wasDeleted) {
  return state_->settleUnknown(std::move(wasDeleted));
}

kj::Promise<void> LogDirectory::close() { return state_->close(); }

}  // namespace mq::storage
