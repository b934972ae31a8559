#include "base/error.h"

namespace mq {
namespace {
struct Row {
  Error error;
  std::string_view name;
  bool retriable;
  std::string_view meaning;
};

constexpr Row rows[] = {
#define MQ_ERROR(name, code, kafkaName, retriable, meaning) {Error::name, kafkaName, retriable, meaning},
#include "base/errors.def"
#undef MQ_ERROR
};

const Row* find(Error error) {
  for (const Row& row : rows) {
    if (row.error == error) return &row;
  }
  return nullptr;
}
}  // namespace

std::string_view kafkaName(Error error) {
  const Row* row = find(error);
  return row ? row->name : "UNLISTED_ERROR";
}

std::string_view meaningOf(Error error) {
  const Row* row = find(error);
  return row ? row->meaning : "a code that this version of mq does not know";
}

bool isRetriable(Error error) {
  const Row* row = find(error);
  return row && row->retriable;
}

bool isKnownError(int16_t code) { return find(static_cast<Error>(code)) != nullptr; }

}  // namespace mq
