// Client: the thin client of mq's own commands. One blocking connection per broker, one request at a time, every wait
// with a deadline. Everyday produce and consume use librdkafka; this does the rest, in few round trips: a command
// answers in milliseconds.
//
// Speaks the highest version that both sides know (ApiVersions first on each connection), so it works with any broker
// of Kafka's protocol. Errors of the world end the command: CommandError with one line that names the broker and what
// to try.
#pragma once
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "wire/codec.h"
#include "wire/metadata_response.h"

namespace mq::cli {

struct ClientOptions {
  std::vector<std::string> brokers;           // HOST:PORT, tried in order
  std::chrono::milliseconds timeout{10'000};  // of a connection attempt and of one answer, each
};

// The flags that every command which talks to a broker has, and their reading.
inline constexpr std::string_view kBrokersVariable = "MQ_BROKERS";
std::vector<Flag> withBrokerFlags(std::vector<Flag> own);
ClientOptions clientOptions(const Arguments& arguments);

class Client {
 public:
  static constexpr int32_t kAnyBroker = -1;   // the one of the first connection
  static constexpr int32_t kController = -2;  // the broker that Metadata calls the controller

  explicit Client(ClientOptions options);
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // `versionMax` bounds the version where a command needs an older shape.
  template <class Request>
  typename Request::Response call(const Request& request, int32_t broker = kAnyBroker, int16_t versionMax = INT16_MAX) {
    typename Request::Response response;
    int16_t version =
        connectionTo(broker, Request::kApiKey, Request::kVersionMin, std::min(Request::kVersionMax, versionMax));
    Buffer body;
    auto encoded = wire::encode(request, version, body);
    if (!encoded) fail(exitFailed, "{}", encoded.failure().message);
    Bytes answer = exchange(Request::kApiKey, version, body);
    ByteReader reader(answer);
    auto decoded = wire::decodeInto(Request::Response::kDescriptor, reader, version, &response);
    if (!decoded)
      fail(exitFailed, "{} answered something that is not Kafka's protocol: {}", where(), decoded.failure().message);
    return response;
  }
  // The version that call() would use; -1: the broker does not serve the request at all.
  int16_t versionOf(int16_t apiKey, int16_t min, int16_t max, int32_t broker = kAnyBroker);

  // Metadata of all topics or of those named. Cached until refresh() for brokers and controller.
  wire::MetadataResponse metadata(const std::vector<std::string>* topics);

  // The broker that keeps a group or a transactional id, remembered until it says that it does not. Waits for one
  // within the timeout, and ends the command when there is none.
  enum class Kind : int8_t { group = 0, transaction = 1 };  // FindCoordinator's numbers
  int32_t coordinatorOf(const std::string& name, Kind kind = Kind::group);
  // As call(), to that coordinator. errorOf(response) is what it says of the group or id; while that means that the
  // coordinator is loading or elsewhere it is looked up and asked again, until the timeout.
  template <class Request, class ErrorOf>
  typename Request::Response callCoordinator(const std::string& name, const Request& request, ErrorOf errorOf,
                                             int16_t versionMax = INT16_MAX, Kind kind = Kind::group) {
    auto deadline = std::chrono::steady_clock::now() + options_.timeout;
    for (;;) {
      auto response = call(request, coordinatorOf(name, kind), versionMax);
      if (!movesOn({kind, name}, errorOf(response), deadline)) return response;
    }
  }

  std::chrono::milliseconds timeout() const { return options_.timeout; }
  std::string where() const;  // "127.0.0.1:9092", the broker last spoken to

 private:
  struct Connection;
  Connection& open(const std::string& address);
  int16_t connectionTo(int32_t broker, int16_t apiKey, int16_t min, int16_t max);
  using Coordinated = std::pair<Kind, std::string>;
  // Whether to ask again: the error is one of coordinators that passes, and there is time. Then the one that was asked
  // is forgotten.
  bool movesOn(const Coordinated& key, Error error, std::chrono::steady_clock::time_point deadline);
  Bytes exchange(int16_t apiKey, int16_t version, const Buffer& body);  // valid until the next exchange

  ClientOptions options_;
  std::map<std::string, std::unique_ptr<Connection>> connections_;  // by address
  std::map<int32_t, std::string> addresses_;                        // of brokers, by id
  std::map<Coordinated, int32_t> coordinators_;
  int32_t controller_ = -1;
  Connection* current_ = nullptr;
};

// Topic, partition, broker and Kafka's name and code, in one line.
std::string describeError(Error error, const std::optional<std::string>& message);

}  // namespace mq::cli
