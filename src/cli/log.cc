// `mq log dump|verify`: what lies in a data directory, ours or Kafka's, of a running broker or a stopped one. Reads
// only.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <set>
#include <thread>

#include "cli/commands.h"
#include "cli/json_record.h"
#include "cli/log_print.h"
#include "cli/output.h"
#include "runtime/tasks.h"
#include "runtime/uv/file_system.h"

namespace mq::cli {
namespace {

using storage::LogFileKind;
using storage::LogFileName;
using storage::LogProblem;
using storage::LogReader;

// One partition directory to be read, or some of its files.
struct Place {
  std::string directory;
  std::string name;  // its last part
  std::string file;  // only this one; empty: all
};

std::string lastPart(const std::string& path) { return path.substr(path.find_last_of('/') + 1); }

bool holdsLog(FileSystem& files, const std::string& directory) {
  for (const DirectoryEntry& entry : files.list(directory)) {
    LogFileKind kind = storage::kindOf(entry.name);
    if (!entry.isDirectory && kind != LogFileKind::other && kind != LogFileKind::deleted) return true;
  }
  return false;
}

// Every partition that the argument means.
std::vector<Place> placesOf(FileSystem& files, std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  if (!files.exists(path)) fail(exitNotFound, "{}: there is nothing of that name", path);
  std::vector<DirectoryEntry> entries;
  bool isDirectory = true;
  try {
    entries = files.list(path);
  } catch (const kj::Exception& exception) {
    // A file, or a directory that cannot be read: the next look tells.
    isDirectory = false;
    try {
      files.open(path, OpenMode::read);
    } catch (const kj::Exception&) {
      fail(exitFailed, "{}", mq::describe(exception));
    }
  }
  if (!isDirectory) {
    std::string name = lastPart(path);
    LogFileKind kind = storage::kindOf(name);
    if (kind == LogFileKind::other || kind == LogFileKind::deleted)
      fail(exitUsage, "{}: its name is none of a log's files (such as 00000000000000000000.log)", path);
    std::string directory =
        name.size() == path.size() ? "." : path.substr(0, std::max<size_t>(path.size() - name.size() - 1, 1));
    return {{directory, lastPart(absolutePath(directory)), name}};
  }
  if (holdsLog(files, path)) return {{path, lastPart(absolutePath(path)), ""}};
  std::vector<Place> places;
  for (const DirectoryEntry& entry : entries) {
    if (entry.isDirectory && partitionOf(entry.name)) places.push_back({path + "/" + entry.name, entry.name, ""});
  }
  return places;
}

std::vector<Place> allPlaces(FileSystem& files, const Arguments& arguments) {
  std::vector<Place> all;
  for (const std::string& path : arguments.positionals()) {
    std::vector<Place> places = placesOf(files, path);
    if (places.empty()) fail(exitNothing, "{}: no partition lies there (directories such as hello-0)", path);
    all.insert(all.end(), places.begin(), places.end());
  }
  return all;
}

std::string pathOf(const Place& place, const LogProblem& problem) { return place.directory + "/" + problem.file; }

int runDump(const Arguments& arguments) {
  auto files = realFileSystem();
  LogStyle style{.json = arguments.has("json"), .records = arguments.has("records")};
  Output out;
  bool damaged = false;
  for (const Place& place : allPlaces(*files, arguments)) {
    LogReader reader(*files, place.directory);
    LogPrinter printer(reader, place.name, style, [&out](std::string& lines) {
      out.write(lines);
      lines.clear();
    });
    for (const LogFileName& file : reader.files()) {
      if (place.file.empty() || place.file == file.name) printer.print(file);
    }
    out.flush();
    for (const LogProblem& problem : reader.problems()) {
      fmt::print(stderr, "mq: {} at byte {}: {}\n", pathOf(place, problem), problem.position, problem.what);
      damaged = true;
    }
  }
  return damaged ? exitUnhealthy : exitDone;
}

struct Verified {
  std::vector<LogProblem> problems;
  std::map<std::string, LogFileKind> kinds;  // by file
  uint64_t bytes = 0;
  size_t segments = 0;
};

Verified verifyOnce(FileSystem& files, const Place& place) {
  LogReader reader(files, place.directory);
  if (place.file.empty()) {
    reader.verify();
  } else {
    LogPrinter printer(reader, place.name, {}, [](std::string& lines) { lines.clear(); });
    for (const LogFileName& file : reader.files()) {
      if (file.name == place.file) printer.print(file);
    }
  }
  Verified verified{.problems = reader.problems(), .kinds = {}};
  for (const LogFileName& file : reader.files()) {
    if (!place.file.empty() && place.file != file.name) continue;
    verified.kinds[file.name] = file.kind;
    verified.bytes += file.size;
    verified.segments += file.kind == LogFileKind::log;
  }
  return verified;
}

// A broker may be writing, rolling and deleting meanwhile: what is wrong stays wrong, in the same place.
Verified verifyPlace(FileSystem& files, const Place& place) {
  constexpr int kLooks = 3;
  constexpr auto kPause = std::chrono::milliseconds(200);
  std::optional<Verified> verified;
  for (int look = 1;; ++look) {
    try {
      Verified seen = verifyOnce(files, place);
      if (verified) {
        std::set<std::pair<std::string, uint64_t>> again;
        for (const LogProblem& problem : seen.problems) again.emplace(problem.file, problem.position);
        std::erase_if(verified->problems,
                      [&](const LogProblem& problem) { return !again.contains({problem.file, problem.position}); });
      } else {
        verified = std::move(seen);
      }
      if (verified->problems.empty() || look >= kLooks) return std::move(*verified);
    } catch (const kj::Exception& exception) {
      if (look >= kLooks)
        fail(exitFailed, "{}", mq::describe(exception));  // a file that was deleted under us is gone next time
    }
    std::this_thread::sleep_for(kPause);
  }
}

int runVerify(const Arguments& arguments) {
  auto files = realFileSystem();
  Output out;
  size_t partitions = 0, segments = 0, problems = 0;
  uint64_t bytes = 0;
  for (const Place& place : allPlaces(*files, arguments)) {
    Verified verified = verifyPlace(*files, place);
    ++partitions;
    segments += verified.segments;
    bytes += verified.bytes;
    problems += verified.problems.size();
    for (const LogProblem& problem : verified.problems) {
      std::string_view remedy = remedyFor(verified.kinds[problem.file]);
      if (arguments.has("json")) {
        std::string line = "{\"file\":";
        appendJsonBytes(line, asBytes(pathOf(place, problem)));
        line += fmt::format(",\"position\":{},\"problem\":", problem.position);
        appendJsonBytes(line, asBytes(problem.what));
        line += ",\"remedy\":";
        appendJsonBytes(line, asBytes(remedy));
        out.write(line + "}\n");
      } else {
        out.write(fmt::format("{} at byte {}: {}{}{}\n", pathOf(place, problem), problem.position, problem.what,
                              remedy.empty() ? "" : "; ", remedy));
      }
    }
    out.flush();
  }
  fmt::print(stderr, "{} partitions, {} segments, {}: {}\n", partitions, segments, humanBytes(bytes),
             problems == 0 ? "all whole" : fmt::format("{} problems", problems));
  return problems == 0 ? exitDone : exitUnhealthy;
}

constexpr Positional kPath = {
    .name = "PATH", .help = "a data directory, a partition's directory, or one file of it", .repeats = true};

}  // namespace

std::vector<Command> logCommands() {
  return {
      {.path = "log", .summary = "Look into the files of a data directory"},
      {.path = "log dump",
       .summary = "Print the batches, indexes and other files of a log",
       .details =
           "Reads only, from a running broker too, and from data directories of Apache Kafka. A damaged batch is "
           "printed and marked, and the walk goes on behind it. Exit code 10: something was damaged.\n\n"
           "--records prints the records alone; with -J in the form of mq consume -J, which mq produce -J reads.",
       .positionals = {kPath},
       .flags = {{.name = "json", .shortNames = "J", .help = "one JSON object a line"},
                 {.name = "records", .shortNames = "r", .help = "the records of the segments, nothing else"}},
       .examples = {{"mq log dump mq-data/hello-0", "every batch and index entry of a partition"},
                    {"mq log dump -r -J mq-data/hello-0 | mq produce -J rescued --create",
                     "bring whole records into a new topic"}},
       .run = runDump},
      {.path = "log verify",
       .summary = "Check every checksum, offset and index of a log",
       .details =
           "Reads only, from a running broker too, and from data directories of Apache Kafka. Prints what is wrong, "
           "where, and what to do about it. Exit code 0: all whole, 10: something is damaged, 1: it could not be "
           "read.",
       .positionals = {kPath},
       .flags = {{.name = "json", .shortNames = "J", .help = "one JSON object a problem"}},
       .examples = {{"mq log verify mq-data", "check all partitions"}},
       .run = runVerify},
  };
}

}  // namespace mq::cli
