// The golden vectors as objects, and what the tests of this folder do with any message.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "wire/codec.h"

namespace mq::wire {

struct Vector {
  const Message* message = nullptr;
  int16_t version = 0;
  std::string title;   // "FetchResponse v12 max", for INFO()
  std::string fields;  // JSON as describe() prints it, keys sorted
  Buffer prefix;       // type or version in front
  Buffer body;
  bool accepted = true;  // by Kafka
  Buffer reencoded;      // what Kafka wrote again
};

const std::vector<Vector>& goldenMessages();
const std::vector<Vector>& mutatedMessages();

// What describe() prints, keys sorted, without the tagged fields that only we have: Kafka's vectors know nothing of
// them.
std::string kafkasFields(const Message& message, std::string_view json);
Buffer fromHex(std::string_view hex);
std::string toHex(Bytes bytes);

// Any message by its descriptor.
using Any = std::unique_ptr<void, void (*)(void*)>;
inline Any makeAny(const Message& descriptor) { return Any(descriptor.create(), descriptor.destroy); }

}  // namespace mq::wire
