// The one reader of all messages: walks the descriptor tables. See codec.h for what it promises.
#include <cstring>
#include <optional>

#include "wire/codec.h"

namespace mq::wire {
namespace {

constexpr size_t kTextInPlaceBytes = 15;  // of a std::string

class Reader {
 public:
  Reader(const Message& message, ByteReader& from, int16_t version, DecodeCost& cost)
      : message_(message), in_(from), version_(version), flexible_(message.flexible.contains(version)), cost_(cost) {}

  bool structure(const Structure& structure, uint8_t* object);
  Failure takeFailure() {
    return failure(Error::invalidRequest, "{} v{}: {}{}{}", message_.name, version_, path_, path_.empty() ? "" : ": ",
                   why_);
  }

 private:
  bool value(const Field& field, uint8_t* at);
  bool array(const Field& field, uint8_t* at, bool compact);
  bool single(const Field& field, uint8_t* at, bool compact);
  bool tags(const Structure& structure, uint8_t* object);
  bool taggedValue(const Field& field, uint8_t* at, Bytes bytes);

  template <class T>
  bool store(uint8_t* at, T value) {
    std::memcpy(at, &value, sizeof value);
    return in_.ok() || fail("the message ends here");
  }
  template <class T>
  void numbers(uint8_t* at, size_t count);

  // The length or count in front of a value, already checked: `count` items of `bytesEach` fit into what is left.
  enum class Prefix { null, present, bad };
  Prefix prefix(const Field& field, bool compact, bool wide, size_t bytesEach, size_t& count);
  size_t bytesMin(const Field& field, bool compact) const;
  // Before that many bytes are allocated.
  bool charge(size_t bytes) {
    cost_.bytes += bytes;
    return cost_.bytes <= cost_.bytesMax || fail(fmt::format("more than {} bytes once decoded", cost_.bytesMax));
  }

  [[gnu::cold]] bool fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }
  // Failures unwind from the inside out, so the path grows at its front.
  [[gnu::cold]] bool within(const char* field, std::optional<size_t> index = {}) {
    std::string step = index ? fmt::format("{}[{}]", field, *index) : std::string(field);
    path_ = path_.empty() ? std::move(step) : step + "." + path_;
    return false;
  }

  const Message& message_;
  ByteReader& in_;
  int16_t version_;
  bool flexible_;
  DecodeCost& cost_;
  std::string path_;
  std::string why_;
};

bool Reader::structure(const Structure& structure, uint8_t* object) {
  for (const Field& field : structure.fields.first(structure.plainCount)) {
    if (!field.versions.contains(version_)) continue;
    if (!value(field, object + field.offset)) [[unlikely]]
      return false;
  }
  return !flexible_ || tags(structure, object);
}

bool Reader::value(const Field& field, uint8_t* at) {
  bool compact = flexible_ && !field.isRigid;
  if (field.array) return array(field, at, compact);
  if (field.type != Type::structure) return single(field, at, compact) || within(field.name);

  if (field.nullable.contains(version_)) {
    bool present = field.tag < 0 ? in_.int8() >= 0 : in_.unsignedVarint() != 0;
    if (!in_.ok()) return fail("the message ends here") || within(field.name);
    if (!present) {
      field.optional->reset(at);
      return true;
    }
  }
  if (field.optional) at = static_cast<uint8_t*>(field.optional->emplace(at));
  return structure(*field.structure, at) || within(field.name);
}

Reader::Prefix Reader::prefix(const Field& field, bool compact, bool wide, size_t bytesEach, size_t& count) {
  // A compact length is one more than it says, and 0 is null; like Kafka, anything that comes out negative is null.
  int32_t said = compact ? static_cast<int32_t>(in_.unsignedVarint() - 1) : wide ? in_.int32() : in_.int16();
  if (!in_.ok()) {
    fail("the message ends here");
    return Prefix::bad;
  }
  if (said < 0) {
    if (field.nullable.contains(version_)) return Prefix::null;
    fail("null is not allowed");
    return Prefix::bad;
  }
  count = static_cast<size_t>(said);
  if (count > in_.left() / bytesEach) {
    fail(fmt::format("{} announced, but only {} bytes are left", count, in_.left()));
    return Prefix::bad;
  }
  return Prefix::present;
}

size_t Reader::bytesMin(const Field& field, bool compact) const {
  switch (field.type) {
    case Type::boolean:
    case Type::int8: return 1;
    case Type::int16:
    case Type::uint16: return 2;
    case Type::int32:
    case Type::uint32: return 4;
    case Type::int64:
    case Type::float64: return 8;
    case Type::uuid: return 16;
    case Type::string: return compact ? 1 : 2;
    case Type::bytes:
    case Type::records: return compact ? 1 : 4;
    case Type::structure: return field.structure->bytesMin[version_ - message_.versions.first];
  }
  return 1;
}

template <class T>
void Reader::numbers(uint8_t* at, size_t count) {
  const uint8_t* from = in_.bytes(count * sizeof(T)).data();
  for (size_t i = 0; i < count; ++i) {
    T number = loadBigEndian<T>(from + i * sizeof(T));
    std::memcpy(at + i * sizeof(T), &number, sizeof number);
  }
}

bool Reader::array(const Field& field, uint8_t* at, bool compact) {
  size_t count = 0;
  switch (prefix(field, compact, true, bytesMin(field, compact), count)) {
    case Prefix::bad: return within(field.name);
    case Prefix::null: field.optional->reset(at); return true;
    case Prefix::present: break;
  }
  if (!charge(count * field.array->stride)) return within(field.name);
  if (field.optional) at = static_cast<uint8_t*>(field.optional->emplace(at));
  auto* element = static_cast<uint8_t*>(field.array->renew(at, count));
  switch (field.type) {
    case Type::int8: numbers<int8_t>(element, count); return true;
    case Type::int16:
    case Type::uint16: numbers<int16_t>(element, count); return true;
    case Type::int32:
    case Type::uint32: numbers<int32_t>(element, count); return true;
    case Type::int64: numbers<int64_t>(element, count); return true;
    default: break;
  }
  for (size_t i = 0; i < count; ++i, element += field.array->stride) {
    bool ok = field.structure ? structure(*field.structure, element) : single(field, element, compact);
    if (!ok) [[unlikely]]
      return within(field.name, i);
  }
  return true;
}

bool Reader::single(const Field& field, uint8_t* at, bool compact) {
  switch (field.type) {
    case Type::boolean: return store<bool>(at, in_.int8() != 0);
    case Type::int8: return store(at, in_.int8());
    case Type::int16:
    case Type::uint16: return store(at, in_.int16());
    case Type::int32:
    case Type::uint32: return store(at, in_.int32());
    case Type::int64:
    case Type::float64: return store(at, in_.int64());
    case Type::uuid: return store(at, in_.uuid());
    case Type::string:
    case Type::bytes:
    case Type::records: break;
    case Type::structure: return fail("not a single value");
  }
  bool isText = field.type == Type::string;
  size_t length = 0;
  const OptionalAccess* optional = field.array ? nullptr : field.optional;  // elements are never null
  switch (prefix(field, compact, !isText, 1, length)) {
    case Prefix::bad: return false;
    case Prefix::null:
      if (!optional) return fail("null is not allowed");
      optional->reset(at);
      return true;
    case Prefix::present: break;
  }
  if (isText && length > kTextInPlaceBytes && !charge(length)) return false;
  void* to = optional ? optional->emplace(at) : at;
  if (isText) {
    static_cast<std::string*>(to)->assign(in_.text(length));
  } else {
    *static_cast<Blob*>(to) = Blob(in_.bytes(length));
  }
  return true;
}

bool Reader::tags(const Structure& structure, uint8_t* object) {
  uint32_t count = in_.unsignedVarint();
  if (!in_.ok()) return fail("the message ends before its tagged fields");
  if (count == 0) [[likely]]
    return true;
  std::vector<UnknownTag> unknown;
  for (uint32_t i = 0; i < count; ++i) {
    uint32_t tag = in_.unsignedVarint();
    uint32_t size = in_.unsignedVarint();
    if (!in_.ok()) return fail("the message ends in its tagged fields");
    if (size > in_.left()) {
      return fail(fmt::format("tag {} announces {} bytes, but only {} are left", tag, size, in_.left()));
    }
    Bytes bytes = in_.bytes(size);
    const Field* known = nullptr;
    for (const Field& field : structure.fields.subspan(structure.plainCount)) {
      if (static_cast<uint32_t>(field.tag) == tag && field.versions.contains(version_)) known = &field;
    }
    if (!known) {
      if (!charge(2 * sizeof(UnknownTag) + size)) return false;
      unknown.push_back({tag, Buffer(bytes.begin(), bytes.end())});
    } else if (!taggedValue(*known, object + known->offset, bytes)) {
      return false;
    }
  }
  reinterpret_cast<UnknownTags*>(object + structure.unknownTagsOffset)->assign(std::move(unknown));
  return true;
}

bool Reader::taggedValue(const Field& field, uint8_t* at, Bytes bytes) {
  // The same reader, limited to the tag's bytes.
  ByteReader after = in_;
  in_ = ByteReader(bytes);
  if (!value(field, at)) return false;
  size_t left = in_.left();
  in_ = after;
  return left == 0 || fail(fmt::format("{} bytes too many in tag {}", left, field.tag)) || within(field.name);
}

}  // namespace

Result<void> decodeInto(const Message& descriptor, ByteReader& from, int16_t version, void* message, DecodeCost* cost) {
  if (!descriptor.versions.contains(version)) {
    return failure(Error::unsupportedVersion, "{} v{}: known are {} to {}", descriptor.name, version,
                   descriptor.versions.first, descriptor.versions.last);
  }
  DecodeCost unlimited;
  Reader reader(descriptor, from, version, cost ? *cost : unlimited);
  if (reader.structure(descriptor.body, static_cast<uint8_t*>(message))) return {};
  return reader.takeFailure();
}

Failure trailingBytes(const Message& descriptor, size_t left) {
  return failure(Error::invalidRequest, "{}: {} bytes follow it", descriptor.name, left);
}

}  // namespace mq::wire
