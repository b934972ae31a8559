#include "cli/kafka_client.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace mq::cli {
namespace {
// Signal handlers cannot reach anything else.
std::atomic<int> firstSignal{0};

void onSignal(int number) {
  int none = 0;
  if (!firstSignal.compare_exchange_strong(none, number)) _exit(128 + number);
}

void onLog(const rd_kafka_t*, int level, const char* facility, const char* text) {
  fmt::print(stderr, "librdkafka {} {}: {}\n", level, facility, text);
}
}  // namespace

std::vector<Flag> withKafkaFlags(std::vector<Flag> own) {
  own = withBrokerFlags(std::move(own));
  own.push_back({.name = "property",
                 .shortNames = "X",
                 .value = "KEY=VALUE",
                 .help = "any librdkafka property; comes last, so it wins",
                 .repeats = true});
  own.push_back({.name = "verbose", .shortNames = "v", .help = "show what librdkafka logs"});
  return own;
}

std::string brokerList(const Arguments& arguments) {
  std::string list;
  for (const std::string& address : clientOptions(arguments).brokers) list += (list.empty() ? "" : ",") + address;
  return list;
}

Handle makeHandle(rd_kafka_type_t type, const Arguments& arguments, const Properties& own, void* opaque,
                  void (*setCallbacks)(rd_kafka_conf_t*)) {
  rd_kafka_conf_t* conf = rd_kafka_conf_new();
  char error[512];
  auto set = [&](const std::string& key, const std::string& value) {
    if (rd_kafka_conf_set(conf, key.c_str(), value.c_str(), error, sizeof error) != RD_KAFKA_CONF_OK) {
      rd_kafka_conf_destroy(conf);
      fail(exitUsage, "-X {}={}: {}", key, value, error);
    }
  };
  set("bootstrap.servers", brokerList(arguments));
  set("client.id", "mq");
  set("reconnect.backoff.max.ms", "1000");  // after a broker's restart nobody waits for the ten seconds of the default
  for (const auto& [key, value] : own) set(key, value);
  for (const std::string& given : arguments.all("property")) {
    size_t equals = given.find('=');
    if (equals == std::string::npos) {
      rd_kafka_conf_destroy(conf);
      fail(exitUsage, "-X {}: it takes KEY=VALUE", given);
    }
    set(given.substr(0, equals), given.substr(equals + 1));
  }
  if (arguments.has("verbose"))
    rd_kafka_conf_set_log_cb(conf, onLog);
  else
    set("log_level", "0");
  rd_kafka_conf_set_opaque(conf, opaque);
  setCallbacks(conf);
  rd_kafka_t* handle = rd_kafka_new(type, conf, error, sizeof error);
  if (!handle) {
    rd_kafka_conf_destroy(conf);
    fail(exitUsage, "{}", error);
  }
  return Handle(handle);
}

int exitCodeOf(rd_kafka_resp_err_t error) {
  switch (error) {
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION: return exitNotFound;
    case RD_KAFKA_RESP_ERR__AUTHENTICATION: return exitDenied;
    default: return error > 0 ? exitCodeOf(static_cast<Error>(error)) : exitFailed;
  }
}

std::string describeError(rd_kafka_resp_err_t error, const char* detail) {
  std::string text = detail && *detail ? detail : rd_kafka_err2str(error);
  return fmt::format("{} ({} {})", text, rd_kafka_err2name(error), static_cast<int>(error));
}

Interrupts::Interrupts() {
  firstSignal = 0;
  struct sigaction action{};
  action.sa_handler = onSignal;  // without SA_RESTART: a read that waits for input ends
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

Interrupts::~Interrupts() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

bool Interrupts::any() { return firstSignal.load(std::memory_order_relaxed) != 0; }
int Interrupts::signal() { return firstSignal.load(); }
int Interrupts::exitCode() { return 128 + signal(); }

}  // namespace mq::cli
