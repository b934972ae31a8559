// `mq serve`: a node, until a signal. The first SIGTERM or SIGINT stops it cleanly within shutdown.timeout.ms, a second
// one at once.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "broker/node.h"
#include "cli/commands.h"
#include "cli/json_record.h"
#include "cli/output.h"
#include "config/broker_settings.h"
#include "runtime/process.h"
#include "runtime/tasks.h"
#include "runtime/uv/log.h"
#include "runtime/uv/node.h"
#include "version.h"

extern char** environ;

namespace mq::cli {
namespace {

std::string readWhole(const std::string& path) {
  int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(exitUsage, "--config {}: {}", path, strerror(errno));
  std::string text;
  char piece[16384];
  ssize_t got;
  while ((got = ::read(descriptor, piece, sizeof piece)) > 0 && text.size() < (4 << 20))
    text.append(piece, static_cast<size_t>(got));
  int error = errno;
  ::close(descriptor);
  if (got < 0) fail(exitUsage, "--config {}: {}", path, strerror(error));
  if (text.size() >= (4 << 20)) fail(exitUsage, "--config {}: more than 4 MiB is no configuration", path);
  return text;
}

struct FlagSetting {
  std::string_view flag;
  std::string_view setting;
};
constexpr FlagSetting kFlagSettings[] = {
    {"roles", "roles"},
    {"node-id", "node.id"},
    {"data-dir", "data.dir"},
    {"listen", "listeners"},
    {"advertise", "advertised.listeners"},
    {"peer-listen", "peer.listen"},
    {"http-listen", "http.listen"},
    {"controllers", "controllers"},
};

config::BrokerConfig loadConfig(const Arguments& arguments, const std::string& temporary) {
  config::StartInput input;
  if (auto path = arguments.text("config")) {
    input.tomlPath = *path;
    input.toml = readWhole(*path);
  }
  for (char** at = environ; *at; ++at) {
    std::string_view entry = *at;
    size_t equals = entry.find('=');
    if (equals != std::string_view::npos)
      input.environment.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
  }
  if (arguments.has("dev")) {
    input.flags.push_back({"auto.create.topics.enable", "true", "--dev"});
    input.flags.push_back({"data.dir", temporary, "--dev"});
  }
  for (const FlagSetting& row : kFlagSettings) {
    const auto& given = arguments.all(row.flag);
    if (given.empty()) continue;
    std::string value;
    for (const std::string& item : given) value += (value.empty() ? "" : ",") + item;
    input.flags.push_back({std::string(row.setting), value, fmt::format("--{}", row.flag)});
  }
  for (const std::string& set : arguments.all("set")) {
    size_t equals = set.find('=');
    if (equals == std::string::npos) fail(exitUsage, "--set {}: it takes KEY=VALUE", set);
    input.flags.push_back({set.substr(0, equals), set.substr(equals + 1), "--set"});
  }
  auto loaded = config::BrokerConfig::load(input);
  std::string problems;
  if (!loaded) {
    for (const config::Problem& problem : loaded.error())
      problems += (problems.empty() ? "" : "\nmq: ") + problem.toString();
  }
  if (!problems.empty()) fail(exitUsage, "{}", problems);
  return std::move(*loaded);
}

LogLevel levelOf(config::LogDetail detail) {
  switch (detail) {
    case config::LogDetail::debug: return LogLevel::debug;
    case config::LogDetail::info: return LogLevel::info;
    case config::LogDetail::warning: return LogLevel::warning;
    case config::LogDetail::error: return LogLevel::error;
  }
  return LogLevel::info;
}

LogStyle styleOf(config::LogFormat format) {
  switch (format) {
    case config::LogFormat::automatic: return LogStyle::byTerminal;
    case config::LogFormat::text: return LogStyle::text;
    case config::LogFormat::json: return LogStyle::json;
  }
  return LogStyle::byTerminal;
}

// --dev: gone when the process ends, however it ends in order.
class TemporaryDirectory {
 public:
  explicit TemporaryDirectory(bool wanted) {
    if (!wanted) return;
    const char* base = std::getenv("TMPDIR");
    path_ = fmt::format("{}/mq-dev-XXXXXX", base && *base ? base : "/tmp");
    if (!mkdtemp(path_.data()))
      fail(exitFailed, "--dev: cannot make a temporary directory {}: {}", path_, strerror(errno));
  }
  ~TemporaryDirectory() {
    std::error_code ignored;  // a leftover in the system's temporary directory harms nobody
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

bool isLoopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

std::string joined(const std::vector<std::string>& items) {
  std::string text;
  for (const std::string& item : items) text += (text.empty() ? "" : ", ") + item;
  return text;
}

// What a person sees when it serves: at most eight lines on a terminal, one JSON object otherwise.
class Announcement {
 public:
  Announcement(const config::BrokerSettings& settings, std::string directory, bool isThrownAway)
      : settings_(settings), directory_(std::move(directory)), isThrownAway_(isThrownAway) {}

  void print(const broker::Serving& serving, int64_t milliseconds) const {
    bool text = settings_.logFormat == config::LogFormat::text ||
                (settings_.logFormat == config::LogFormat::automatic && stderrIsTerminal());
    std::string out = text ? asLines(serving, milliseconds) : asJson(serving, milliseconds);
    // One write: a reader of the log sees all of it or nothing.
    [[maybe_unused]] ssize_t written = ::write(STDERR_FILENO, out.data(), out.size());
  }

 private:
  std::string durability() const { return std::string(config::nameOf(settings_.topicDefaults.durability)); }
  // Where a client on this machine connects.
  std::string connectTo(const broker::Serving& serving) const {
    std::string address =
        serving.listening.empty() ? "" : serving.listening[0].substr(serving.listening[0].find('=') + 1);
    if (address.starts_with("0.0.0.0:")) address = "127.0.0.1" + address.substr(7);
    if (address.starts_with("[::]:")) address = "[::1]" + address.substr(4);
    return address;
  }
  static std::string advertisedText(const broker::Serving& serving) {
    std::vector<std::string> items;
    for (const std::string& item : serving.advertised)
      items.push_back(item.empty() ? "the address that the client connects to" : item);
    return joined(items);
  }

  std::string asLines(const broker::Serving& serving, int64_t milliseconds) const {
    std::string out = fmt::format("mq {}\n", MQ_VERSION);
    out += fmt::format("cluster    {}, node {}\n", serving.clusterId, serving.node);
    std::string state =
        serving.newDirectory ? "new" : fmt::format("{} topics, {}", serving.topics, humanBytes(serving.bytes));
    out += fmt::format("data       {} ({}{}{})\n", directory_, state,
                       serving.wasClean || serving.newDirectory ? "" : ", recovered",
                       isThrownAway_ ? "; --dev: thrown away at the end" : "");
    out += fmt::format("listening  {}; clients are sent to {}{}\n", joined(serving.listening), advertisedText(serving),
                       serving.http.empty() ? "" : fmt::format("; http://{}/metrics", serving.http));
    out += durability() == "fsync" ? "durability fsync: acknowledged means synced to the disk\n"
                                   : "durability page-cache: acknowledged records can be lost with the power\n";
    if (serving.offlinePartitions > 0)
      out += fmt::format("OFFLINE    {} partitions; the log above says why\n", serving.offlinePartitions);
    out += fmt::format("try        seq 10 | mq produce hello --create -b {}\n", connectTo(serving));
    out += fmt::format("ready in {} ms\n", milliseconds);
    return out;
  }

  std::string asJson(const broker::Serving& serving, int64_t milliseconds) const {
    std::string out =
        fmt::format("{{\"event\":\"ready\",\"version\":\"{}\",\"cluster\":\"{}\",\"node\":{},\"data\":", MQ_VERSION,
                    serving.clusterId, serving.node);
    appendJsonBytes(out, asBytes(directory_));
    out +=
        fmt::format(",\"new\":{},\"clean\":{},\"topics\":{},\"bytes\":{},\"offline_partitions\":{},\"listening\":[",
                    serving.newDirectory, serving.wasClean, serving.topics, serving.bytes, serving.offlinePartitions);
    auto list = [&](const std::vector<std::string>& items) {
      for (size_t i = 0; i < items.size(); ++i) {
        if (i) out += ',';
        appendJsonBytes(out, asBytes(items[i]));
      }
    };
    list(serving.listening);
    out += "],\"advertised\":[";
    list(serving.advertised);
    out += "],\"http\":";
    serving.http.empty() ? void(out += "null") : appendJsonBytes(out, asBytes(serving.http));
    out += fmt::format(",\"durability\":\"{}\",\"throw_away\":{},\"ready_ms\":{}}}\n", durability(), isThrownAway_,
                       milliseconds);
    return out;
  }

  const config::BrokerSettings& settings_;
  std::string directory_;
  bool isThrownAway_;
};

int runServe(const Arguments& arguments) {
  auto begin = std::chrono::steady_clock::now();
  TemporaryDirectory temporary(arguments.has("dev") && !arguments.has("check-config"));
  config::BrokerConfig loaded = loadConfig(arguments, temporary.path().empty() ? "." : temporary.path());
  const config::BrokerSettings& settings = loaded.settings();
  if (arguments.has("check-config")) {
    fmt::print("the configuration is good\n");
    return exitDone;
  }
  std::string directory = absolutePath(settings.dataDir);
  bool isThrownAway = directory == temporary.path();  // --dev with a --data-dir keeps that one
  auto log = stderrLogger(levelOf(settings.logDetail), styleOf(settings.logFormat));
  std::vector<std::string> open;
  for (const auto* listeners : {&settings.listeners, &settings.httpListen}) {
    for (const config::Endpoint& listener : *listeners) {
      if (!isLoopback(listener.address.host)) open.push_back(listener.toString());
    }
  }
  if (!open.empty())
    log->warning("open-listener", "{}: reachable from other machines, without authentication", joined(open));

  UvNodeOptions options;
  options.shards = static_cast<uint32_t>(settings.shards);
  options.backgroundThreads = static_cast<uint32_t>(settings.recoveryThreads);
  options.syncThreads = static_cast<uint32_t>(std::max(settings.syncThreads * 2, 2));
  int exitCode = exitDone;
  UvNode world(options, *log);
  world.run([&](Shard& first) -> Co<void> {
    std::string stopped;  // why it ends, when it is not a signal
    broker::Node node(first, {loaded, directory, MQ_VERSION, processUsage});
    auto started = node.start([&](broker::RecoveryProgress progress) {
      log->info("recovery", "{} of {} partitions recovered", progress.opened, progress.total);
    });
    // A signal during recovery stops it too.
    bool ready = false;
    int signal = 0;
    auto serve = started.then([&](broker::Serving&& serving) {
      ready = true;
      auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
      Announcement(settings, directory, isThrownAway).print(serving, took.count());
      return node.failed().then([&](std::string&& reason) { stopped = std::move(reason); });
    });
    std::optional<kj::Exception> failure;
    try {
      co_await serve.exclusiveJoin(world.signal().then([&](int number) { signal = number; }));
    } catch (...) {
      failure.emplace(caughtException());
    }
    // From here a second signal ends it at once, whatever the loop does. Not by the system's default, which is to
    // ignore it when we are process 1 of a container.
    for (int number : {SIGINT, SIGTERM}) std::signal(number, [](int again) { ::_exit(128 + again); });
    if (failure) {
      exitCode = exitFailed;  // said at the end, where it is seen
    } else if (!stopped.empty()) {
      log->error("node-failed", "{}", stopped);
      exitCode = exitFailed;
    } else if (ready) {
      log->info("stopping", "{}: answering, flushing, closing", signal == SIGINT ? "SIGINT" : "SIGTERM");
    }
    try {
      const bool clean = co_await node.stop();
      if (clean && exitCode == exitDone) log->info("stopped", "clean");
      if (!clean) log->warning("stopped", "not clean: the next start recovers");
    } catch (const kj::Exception& exception) {
      log->error("stop-failed", "not everything could be flushed and sealed ({}); the next start recovers",
                 mq::describe(exception));
      exitCode = exitFailed;
    }
    if (failure) kj::throwFatalException(kj::mv(*failure));
  });
  return exitCode;
}

}  // namespace

Command serveCommand() {
  return {
      .path = "serve",
      .summary = "Run a node",
      .details =
          "Without options a single durable node: 127.0.0.1:9092, data in ./mq-data, every acknowledged record synced "
          "to the disk. "
          "Settings come from --config, then the environment (MQ_CFG_NUM_PARTITIONS=3), then flags; etc/mq.toml "
          "documents them all.\n\n"
          "SIGTERM or Ctrl-C answers what is pending, flushes and stops; a second one stops at once.",
      .flags =
          {{.name = "config", .value = "FILE", .help = "settings in TOML"},
           {.name = "set", .value = "KEY=VALUE", .help = "any setting by name; wins over the file", .repeats = true},
           {.name = "roles", .value = "ROLES", .help = "broker,controller (default both)"},
           {.name = "node-id", .value = "N", .help = "number of this node in its cluster (default 1)"},
           {.name = "data-dir", .value = "DIR", .help = "where everything lies (default ./mq-data)"},
           {.name = "listen",
            .value = "[NAME=]HOST:PORT",
            .help = "for clients (default 127.0.0.1:9092)",
            .repeats = true},
           {.name = "advertise",
            .value = "[NAME=]HOST:PORT",
            .help = "what clients are told to connect to (default: what they connected to)",
            .repeats = true},
           {.name = "peer-listen", .value = "HOST:PORT", .help = "for other nodes (default 127.0.0.1:9093)"},
           {.name = "http-listen", .value = "HOST:PORT", .help = "liveness, readiness, metrics (default off)"},
           {.name = "controllers",
            .value = "ID@HOST:PORT,...",
            .help = "the controllers of the cluster (default this node)"},
           {.name = "check-config", .help = "check the settings and stop"},
           {.name = "dev", .help = "a temporary directory, topics made on first use; data is thrown away at the end"}},
      .examples = {{"mq serve", "a durable node on 127.0.0.1:9092"},
                   {"mq serve --dev --listen 127.0.0.1:19092", "a playground"},
                   {"mq serve --listen 0.0.0.0:9092 --advertise broker.example.org:9092", "reachable from elsewhere"}},
      .run = runServe};
}

}  // namespace mq::cli
