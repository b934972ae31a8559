// Error: one enum from storage to socket, with Kafka's numbers. An answer a client will see is a value (Result),
// never an exception; exceptions are for a world that failed (I/O error, peer lost, shutting down).
#pragma once
#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

namespace mq {

enum class Error : int16_t {
#define MQ_ERROR(name, code, kafkaName, retriable, meaning) name = code,
#include "base/errors.def"
#undef MQ_ERROR
};

std::string_view kafkaName(Error error);  // "OFFSET_OUT_OF_RANGE"; "UNLISTED_ERROR" for a number we do not know
std::string_view meaningOf(Error error);  // one line for people
bool isRetriable(Error error);
bool isKnownError(int16_t code);

// What a failed operation answers: the code, and what exactly was wrong with what. The message reaches the client
// where the protocol has a place for it. It may be empty.
struct Failure {
  Error error = Error::unknownServerError;
  std::string message;

  Failure(Error e) : error(e) {}  // NOLINT: `return Error::x;` is how handlers read
  Failure(Error e, std::string m) : error(e), message(std::move(m)) {}
};

template <class T>
class [[nodiscard]] Result : public std::expected<T, Failure> {
 public:
  using Base = std::expected<T, Failure>;
  using Base::Base;
  Result() = default;  // success, with a default value
  Result(Error error) : Base(std::unexpect, error) {}
  Result(Failure failure) : Base(std::unexpect, std::move(failure)) {}

  Error errorCode() const { return this->has_value() ? Error::none : Base::error().error; }
  const Failure& failure() const { return Base::error(); }
};

template <class... Args>
Failure failure(Error error, fmt::format_string<Args...> format, Args&&... args) {
  return Failure(error, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace mq

template <>
struct fmt::formatter<mq::Error> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(mq::Error error, Context& context) const {
    return fmt::formatter<std::string_view>::format(mq::kafkaName(error), context);
  }
};
