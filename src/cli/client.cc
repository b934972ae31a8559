#include "cli/client.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "runtime/socket.h"
#include "version.h"
#include "wire/api.h"
#include "wire/api_versions_request.h"
#include "wire/api_versions_response.h"
#include "wire/find_coordinator_request.h"
#include "wire/find_coordinator_response.h"
#include "wire/framing.h"
#include "wire/metadata_request.h"

namespace mq::cli {
namespace {
using Clock = std::chrono::steady_clock;
constexpr uint32_t kAnswerBytesMax = 512u << 20;  // of metadata: a broken peer must not make us allocate more

int millisecondsLeft(Clock::time_point deadline) {
  auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
  return left < 0 ? 0 : static_cast<int>(left) + 1;
}
}  // namespace

struct Client::Connection {
  std::string address;
  int descriptor = -1;
  int32_t correlation = 0;
  std::map<int16_t, wire::VersionRange> versions;
  Buffer answer;
  std::chrono::milliseconds timeout;

  ~Connection() {
    if (descriptor >= 0) ::close(descriptor);
  }

  [[noreturn]] void broken(std::string_view doing, std::string_view reason) const {
    fail(exitFailed, "{}: {} ({}); is it up, and is this the right address? -b HOST:PORT names another", address,
         reason, doing);
  }

  void wait(short events, Clock::time_point deadline, std::string_view doing) const {
    for (;;) {
      pollfd item{descriptor, events, 0};
      int ready = ::poll(&item, 1, millisecondsLeft(deadline));
      if (ready > 0) return;
      if (ready < 0 && errno != EINTR) broken(doing, strerror(errno));
      if (ready == 0 || Clock::now() >= deadline) broken(doing, fmt::format("no answer within {} ms", timeout.count()));
    }
  }

  // True once connected; otherwise *reason says why not.
  bool connect(std::string* reason) {
    Result<Address> parsed = Address::parse(address);
    if (!parsed) fail(exitUsage, "--brokers: {}", parsed.failure().message);
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    if (int error = getaddrinfo(parsed->host.c_str(), std::to_string(parsed->port).c_str(), &hints, &found)) {
      *reason = gai_strerror(error);
      return false;
    }
    Clock::time_point deadline = Clock::now() + timeout;
    for (addrinfo* at = found; at && descriptor < 0; at = at->ai_next) {
      int fd = ::socket(at->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
      if (fd < 0) {
        *reason = strerror(errno);
        continue;
      }
      int error = ::connect(fd, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
      if (error == EINPROGRESS) {
        pollfd item{fd, POLLOUT, 0};
        int ready = ::poll(&item, 1, millisecondsLeft(deadline));
        socklen_t size = sizeof error;
        if (ready <= 0)
          error = ETIMEDOUT;
        else
          getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
      }
      if (error) {
        *reason = strerror(error);
        ::close(fd);
        continue;
      }
      int on = 1;
      setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
      descriptor = fd;
    }
    freeaddrinfo(found);
    return descriptor >= 0;
  }

  void sendAll(Bytes bytes, Clock::time_point deadline) {
    while (!bytes.empty()) {
      ssize_t sent = ::send(descriptor, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent > 0)
        bytes = bytes.subspan(static_cast<size_t>(sent));
      else if (sent < 0 && errno == EAGAIN)
        wait(POLLOUT, deadline, "sending");
      else if (sent < 0 && errno != EINTR)
        broken("sending", strerror(errno));
    }
  }

  void receiveAll(MutableBytes into, Clock::time_point deadline) {
    while (!into.empty()) {
      ssize_t got = ::recv(descriptor, into.data(), into.size(), 0);
      if (got > 0)
        into = into.subspan(static_cast<size_t>(got));
      else if (got == 0)
        broken("waiting for the answer", "the connection was closed by the broker");
      else if (errno == EAGAIN)
        wait(POLLIN, deadline, "waiting for the answer");
      else if (errno != EINTR)
        broken("waiting for the answer", strerror(errno));
    }
  }

  Bytes exchange(int16_t key, int16_t version, Bytes body) {
    Clock::time_point deadline = Clock::now() + timeout;
    wire::RequestHeader header;
    header.requestApiKey = key;
    header.requestApiVersion = version;
    header.correlationId = ++correlation;
    header.clientId = "mq";
    Buffer frame(4);
    auto encoded = wire::encodeRequestHeader(header, frame);
    if (!encoded) fail(exitFailed, "{}", encoded.failure().message);
    ByteWriter(frame).bytes(body);
    ByteWriter(frame).patchInt32(0, static_cast<int32_t>(frame.size() - 4));
    sendAll(frame, deadline);

    uint8_t length[4];
    receiveAll(length, deadline);
    uint32_t size = loadBigEndian<uint32_t>(length);
    if (size < 4 || size > kAnswerBytesMax)
      broken("reading the answer", "what answers there does not speak Kafka's protocol");
    // Grown as bytes arrive: the length alone is only a claim.
    answer.clear();
    while (answer.size() < size) {
      size_t piece = std::min<size_t>(size - answer.size(), 1 << 20);
      answer.resize(answer.size() + piece);
      receiveAll(MutableBytes(answer).last(piece), deadline);
    }
    ByteReader reader(answer);
    Result<int32_t> id = wire::decodeResponseHeader(key, version, reader);
    if (!id || *id != correlation) broken("reading the answer", "what answers there does not speak Kafka's protocol");
    return reader.rest();
  }

  void learnVersions() {
    wire::ApiVersionsRequest request;
    request.clientSoftwareName = "mq";
    request.clientSoftwareVersion = MQ_VERSION;
    for (int16_t version = 3;;) {
      Buffer body;
      if (auto encoded = wire::encode(request, version, body); !encoded)
        fail(exitFailed, "{}", encoded.failure().message);
      ByteReader reader(exchange(wire::ApiVersionsRequest::kApiKey, version, body));
      Bytes raw = reader.rest();
      // A broker that does not know our version says so in the shape of version 0.
      bool refused =
          raw.size() >= 2 && loadBigEndian<int16_t>(raw.data()) == static_cast<int16_t>(Error::unsupportedVersion);
      if (refused && version > 0) {
        version = 0;
        continue;
      }
      ByteReader answerReader(raw);
      auto response = wire::decode<wire::ApiVersionsResponse>(answerReader, version);
      if (!response) broken("asking for versions", "what answers there does not speak Kafka's protocol");
      for (const auto& api : response->apiKeys) versions[api.apiKey] = {api.minVersion, api.maxVersion};
      return;
    }
  }
};

std::vector<Flag> withBrokerFlags(std::vector<Flag> own) {
  own.push_back({.name = "brokers",
                 .shortNames = "b",
                 .value = "HOST:PORT,...",
                 .help = "where to ask first (default: $MQ_BROKERS, else localhost:9092)",
                 .aliases = "bootstrap-server"});
  own.push_back(
      {.name = "request-timeout", .value = "MS", .help = "for a connection and for each answer (default 10000)"});
  return own;
}

ClientOptions clientOptions(const Arguments& arguments) {
  ClientOptions options;
  std::string list = arguments.text("brokers", "");
  if (list.empty()) {
    const char* variable = std::getenv(std::string(kBrokersVariable).c_str());
    list = variable && *variable ? variable : "localhost:9092";
  }
  for (size_t from = 0; from <= list.size();) {
    size_t to = std::min(list.find(',', from), list.size());
    std::string item = list.substr(from, to - from);
    from = to + 1;
    if (item.empty()) continue;
    // A bare host means Kafka's port.
    bool bare = item.find(':') == std::string::npos || (item.front() == '[' && item.back() == ']');
    options.brokers.push_back(bare ? item + ":9092" : item);
  }
  if (options.brokers.empty()) fail(exitUsage, "--brokers names no broker");
  if (auto ms = arguments.number("request-timeout", 1, 3'600'000)) options.timeout = std::chrono::milliseconds(*ms);
  return options;
}

Client::Client(ClientOptions options) : options_(std::move(options)) {}
Client::~Client() = default;

std::string Client::where() const { return current_ ? current_->address : options_.brokers.front(); }

Client::Connection& Client::open(const std::string& address) {
  auto& slot = connections_[address];
  if (slot) return *slot;
  auto connection = std::make_unique<Connection>();
  connection->address = address;
  connection->timeout = options_.timeout;
  std::string reason;
  if (!connection->connect(&reason)) {
    connections_.erase(address);
    fail(exitFailed, "cannot connect to {}: {}", address, reason);
  }
  connection->learnVersions();
  slot = std::move(connection);
  return *slot;
}

int16_t Client::versionOf(int16_t apiKey, int16_t min, int16_t max, int32_t broker) {
  static const std::vector<std::string> none;
  if (broker == kController && controller_ < 0) metadata(&none);
  int32_t id = broker == kController ? controller_ : broker;
  if (id >= 0) {
    if (!addresses_.contains(id)) metadata(&none);
    auto found = addresses_.find(id);
    if (found == addresses_.end()) fail(exitNotFound, "broker {} is not in the cluster", id);
    current_ = &open(found->second);
  } else if (!current_) {
    std::string problems;
    for (const std::string& address : options_.brokers) {
      try {
        current_ = &open(address);
        break;
      } catch (const CommandError& error) {
        if (error.exitCode == exitUsage) throw;
        problems += (problems.empty() ? "" : "; ") + error.message;
      }
    }
    if (!current_) fail(exitFailed, "{}; -b HOST:PORT names another broker, 'mq serve' starts one", problems);
  }
  auto served = current_->versions.find(apiKey);
  if (served == current_->versions.end()) return -1;
  int16_t version = std::min(max, served->second.last);
  return version >= std::max(min, served->second.first) ? version : int16_t{-1};
}

int16_t Client::connectionTo(int32_t broker, int16_t apiKey, int16_t min, int16_t max) {
  int16_t version = versionOf(apiKey, min, max, broker);
  if (version < 0) {
    const wire::Api* api = wire::findApi(apiKey);
    fail(exitFailed, "{} does not serve {} in a version that this mq speaks", where(),
         api ? api->name : "this request");
  }
  return version;
}

Bytes Client::exchange(int16_t apiKey, int16_t version, const Buffer& body) {
  return current_->exchange(apiKey, version, body);
}

wire::MetadataResponse Client::metadata(const std::vector<std::string>* topics) {
  wire::MetadataRequest request;
  request.allowAutoTopicCreation = false;
  if (topics) {
    request.topics.emplace();
    for (const std::string& name : *topics) {
      request.topics->emplace_back();
      request.topics->back().name = name;
    }
  } else {
    request.topics = std::nullopt;
  }
  auto response = call(request, kAnyBroker);
  addresses_.clear();
  for (const auto& broker : response.brokers) {
    addresses_[broker.nodeId] = Address{broker.host, static_cast<uint16_t>(broker.port)}.toString();
  }
  controller_ = response.controllerId;
  return response;
}

namespace {
constexpr std::chrono::milliseconds kCoordinatorPause{50};

bool passes(Error error) {
  return error == Error::coordinatorLoadInProgress || error == Error::coordinatorNotAvailable ||
         error == Error::notCoordinator;
}
}  // namespace

int32_t Client::coordinatorOf(const std::string& name, Kind kind) {
  if (auto known = coordinators_.find({kind, name}); known != coordinators_.end()) return known->second;
  // One key up to version 3, a list of them from 4 on: both are filled, the codec takes that of the version.
  int16_t version = connectionTo(kAnyBroker, wire::FindCoordinatorRequest::kApiKey,
                                 wire::FindCoordinatorRequest::kVersionMin, wire::FindCoordinatorRequest::kVersionMax);
  wire::FindCoordinatorRequest request;
  request.keyType = static_cast<int8_t>(kind);
  if (version >= 4)
    request.coordinatorKeys = {name};
  else
    request.key = name;
  Clock::time_point deadline = Clock::now() + options_.timeout;
  for (;;) {
    auto response = call(request, kAnyBroker, version);
    wire::FindCoordinatorResponse::Coordinator found;
    if (version < 4) {
      found.nodeId = response.nodeId;
      found.host = response.host;
      found.port = response.port;
      found.errorCode = response.errorCode;
      found.errorMessage = response.errorMessage;
    } else if (!response.coordinators.empty()) {
      found = response.coordinators[0];
    } else {
      found.errorCode = Error::coordinatorNotAvailable;
    }
    if (found.errorCode == Error::none) {
      addresses_[found.nodeId] = Address{found.host, static_cast<uint16_t>(found.port)}.toString();
      return coordinators_[{kind, name}] = found.nodeId;
    }
    if (!movesOn({kind, name}, found.errorCode, deadline)) {
      fail(exitCodeOf(found.errorCode), "{} '{}': {} names no coordinator: {}",
           kind == Kind::group ? "group" : "transactional id", name, where(),
           describeError(found.errorCode, found.errorMessage));
    }
  }
}

bool Client::movesOn(const Coordinated& key, Error error, Clock::time_point deadline) {
  if (!passes(error) || Clock::now() >= deadline) return false;
  coordinators_.erase(key);
  ::poll(nullptr, 0, static_cast<int>(kCoordinatorPause.count()));
  return true;
}

std::string describeError(Error error, const std::optional<std::string>& message) {
  std::string_view text = message && !message->empty() ? std::string_view(*message) : meaningOf(error);
  return fmt::format("{} ({} {})", text, kafkaName(error), static_cast<int16_t>(error));
}

}  // namespace mq::cli
