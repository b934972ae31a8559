// What the one reader, the one writer and the one printer know about a message: its fields, their types, version
// ranges and places in the generated struct. generate.py emits these tables; nobody writes them by hand.
//
// Fields of a Structure come in wire order: first the plain ones, then the tagged ones by ascending tag.
// All tables are constants; a descriptor lives as long as the program.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace mq::wire {

enum class Type : uint8_t {
  boolean,
  int8,
  int16,
  uint16,
  int32,
  uint32,
  int64,
  float64,
  uuid,
  string,
  bytes,
  records,
  structure
};

struct VersionRange {  // both ends inclusive, as in Kafka's tables; last < first: no version
  int16_t first = 0;
  int16_t last = -1;
  constexpr bool contains(int16_t version) const { return first <= version && version <= last; }
};

// std::vector<T> without knowing T.
struct ArrayAccess {
  size_t stride;
  size_t (*size)(const void* array);
  const void* (*data)(const void* array);
  void* (*renew)(void* array, size_t count);  // `count` fresh elements; answers the first
};

// std::optional<T> without knowing T.
struct OptionalAccess {
  const void* (*get)(const void* optional);  // null when there is no value
  void* (*emplace)(void* optional);          // a fresh value
  void (*reset)(void* optional);
};

struct Structure;

struct Field {
  const char* name;
  uint32_t offset;
  Type type;
  bool isDroppable = false;  // a sender may leave a value out silently where the version has no place for it
  bool isRigid = false;      // never compact (RequestHeader's client id)
  bool isNullByDefault = false;
  VersionRange versions;
  VersionRange nullable;                     // versions that may carry null
  int32_t tag = -1;                          // -1: not tagged
  const Structure* structure = nullptr;      // of Type::structure
  const ArrayAccess* array = nullptr;        // null: a single value
  const OptionalAccess* optional = nullptr;  // null: never null in any version
  int64_t defaultNumber = 0;
  const char* defaultText = "";
};

struct Structure {
  const char* name;
  std::span<const Field> fields;
  uint32_t plainCount;        // fields before the first tagged one
  uint32_t size;              // of the generated struct
  int32_t unknownTagsOffset;  // -1: no version of the message is flexible
  const uint16_t* bytesMin;   // fewest bytes on the wire, by version - versions.first of the message
};

enum class MessageKind : uint8_t { request, response, header, data, recordKey, recordValue, metadata };

struct Message {
  const char* name;
  MessageKind kind;
  bool latestVersionUnstable;
  int16_t number;  // api key or record type; -1: neither
  VersionRange versions;
  VersionRange flexible;
  Structure body;
  void* (*create)();  // a fresh message on the heap, for code that walks all messages
  void (*destroy)(void*);
};

}  // namespace mq::wire
