// The one writer of all messages: walks the descriptor tables. See codec.h for what it promises.
//
// It writes through a bare pointer into the buffer, which it grows ahead and cuts to size at the end.
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"
#include "wire/codec.h"

namespace mq::wire {
namespace {

// The value of an optional field, or null.
const void* present(const Field& field, const void* at) { return field.optional ? field.optional->get(at) : at; }

template <class T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

int64_t integer(Type type, const void* at) {
  switch (type) {
    case Type::boolean:
    case Type::int8: return load<int8_t>(at);
    case Type::int16: return load<int16_t>(at);
    case Type::uint16: return load<uint16_t>(at);
    case Type::int32: return load<int32_t>(at);
    case Type::uint32: return load<uint32_t>(at);
    default: return load<int64_t>(at);  // float64 by its bits
  }
}

bool isDefault(const Structure& structure, const uint8_t* object);

bool isDefault(const Field& field, const uint8_t* at) {
  const void* value = present(field, at);
  if (!value) return field.isNullByDefault;
  if (field.isNullByDefault) return false;
  if (field.array) return field.array->size(value) == 0;
  switch (field.type) {
    case Type::uuid: return static_cast<const Uuid*>(value)->isZero();
    case Type::string: return *static_cast<const std::string*>(value) == field.defaultText;
    case Type::bytes:
    case Type::records: return static_cast<const Blob*>(value)->empty();
    case Type::structure: return isDefault(*field.structure, static_cast<const uint8_t*>(value));
    default: return integer(field.type, value) == field.defaultNumber;
  }
}

std::span<const UnknownTag> unknownTags(const Structure& structure, const uint8_t* object) {
  if (structure.unknownTagsOffset < 0) return {};
  return reinterpret_cast<const UnknownTags*>(object + structure.unknownTagsOffset)->list();
}

bool isDefault(const Structure& structure, const uint8_t* object) {
  for (const Field& field : structure.fields) {
    if (!isDefault(field, object + field.offset)) return false;
  }
  return unknownTags(structure, object).empty();
}

class Writer {
 public:
  Writer(const Message& message, int16_t version, Buffer& into, Splices* splices)
      : message_(message),
        version_(version),
        flexible_(message.flexible.contains(version)),
        buffer_(into),
        splices_(splices),
        size_(into.size()) {}

  bool structure(const Structure& structure, const uint8_t* object);
  void finish() { buffer_.resize(size_); }
  Failure takeFailure() {
    return failure(Error::invalidRequest, "{} v{}: {}{}{}", message_.name, version_, path_, path_.empty() ? "" : ": ",
                   why_);
  }

 private:
  bool value(const Field& field, const uint8_t* at);
  bool array(const Field& field, const void* value, bool compact);
  bool single(const Field& field, const void* value, bool compact);
  bool tags(const Structure& structure, const uint8_t* object);
  bool isAbsent(const Field& field, const uint8_t* at, bool& ok);
  bool length(size_t count, bool compact, bool wide);
  void null(bool compact, bool wide) { compact ? unsignedVarint(0) : wide ? fixed<int32_t>(-1) : fixed<int16_t>(-1); }

  uint8_t* room(size_t count) {
    if (buffer_.size() - size_ < count) [[unlikely]]
      buffer_.resize(std::max({buffer_.capacity(), 2 * size_, size_ + count, size_t(128)}));
    uint8_t* at = buffer_.data() + size_;
    size_ += count;
    return at;
  }
  template <class T>
  void fixed(T value) {
    storeBigEndian(room(sizeof value), value);
  }
  void bytes(Bytes bytes) {
    if (!bytes.empty()) std::memcpy(room(bytes.size()), bytes.data(), bytes.size());
  }
  void unsignedVarint(uint32_t value) {
    while (value > 0x7f) {
      *room(1) = static_cast<uint8_t>(value | 0x80);
      value >>= 7;
    }
    *room(1) = static_cast<uint8_t>(value);
  }
  // A number that is known only after what follows it: one byte is kept, and the few larger ones make place for more.
  size_t reserveVarint() {
    room(1);
    return size_ - 1;
  }
  void fillVarint(size_t at, uint32_t value) {
    if (value <= 0x7f) [[likely]] {
      buffer_[at] = static_cast<uint8_t>(value);
      return;
    }
    size_t more = sizeOfUnsignedVarint(value) - 1;
    room(more);
    std::memmove(buffer_.data() + at + 1 + more, buffer_.data() + at + 1, size_ - more - at - 1);
    size_t end = std::exchange(size_, at);
    unsignedVarint(value);
    size_ = end;
  }
  template <class T>
  void numbers(const void* from, size_t count) {
    auto* source = static_cast<const uint8_t*>(from);
    uint8_t* to = room(count * sizeof(T));
    for (size_t i = 0; i < count; ++i) {
      T number;
      std::memcpy(&number, source + i * sizeof(T), sizeof number);
      storeBigEndian(to + i * sizeof(T), number);
    }
  }

  [[gnu::cold]] bool fail(std::string why) {
    if (why_.empty()) why_ = std::move(why);
    return false;
  }
  [[gnu::cold]] bool within(const char* field, std::optional<size_t> index = {}) {
    std::string step = index ? fmt::format("{}[{}]", field, *index) : std::string(field);
    path_ = path_.empty() ? std::move(step) : step + "." + path_;
    return false;
  }

  const Message& message_;
  int16_t version_;
  bool flexible_;
  Buffer& buffer_;
  Splices* splices_;
  size_t size_;  // of buffer_, what is written of it
  std::string path_;
  std::string why_;
};

// True for a field that this version has no place for. Then `ok` says whether it may be left out.
bool Writer::isAbsent(const Field& field, const uint8_t* at, bool& ok) {
  if (field.versions.contains(version_)) return false;
  ok = field.isDroppable || isDefault(field, at) || fail("this version has no place for its value") ||
       within(field.name);
  return true;
}

bool Writer::structure(const Structure& structure, const uint8_t* object) {
  bool ok = true;
  for (const Field& field : structure.fields.first(structure.plainCount)) {
    const uint8_t* at = object + field.offset;
    if (!isAbsent(field, at, ok)) ok = value(field, at);
    if (!ok) [[unlikely]]
      return false;
  }
  if (flexible_) return tags(structure, object);
  for (const Field& field : structure.fields.subspan(structure.plainCount)) {
    if (isAbsent(field, object + field.offset, ok) && !ok) return false;
  }
  return unknownTags(structure, object).empty() || fail("this version has no tagged fields");
}

bool Writer::value(const Field& field, const uint8_t* at) {
  bool compact = flexible_ && !field.isRigid;
  bool isStructure = field.type == Type::structure && !field.array;
  if (!field.optional && !field.array && !isStructure) [[likely]] {
    return single(field, at, compact) || within(field.name);
  }
  bool nullable = field.nullable.contains(version_);
  const void* value = present(field, at);
  if (!value) {
    bool wide = field.array || field.type != Type::string;
    if (nullable) {
      if (!isStructure)
        null(compact, wide);
      else if (field.tag < 0)
        fixed<int8_t>(-1);
      else
        unsignedVarint(0);
      return true;
    }
    // Null is the default of this field, and in this version the default has to be written as nothing.
    if (field.isNullByDefault && !isStructure) return length(0, compact, wide);
    return fail("null is not allowed in this version") || within(field.name);
  }
  if (field.array) return array(field, value, compact);
  if (!isStructure) return single(field, value, compact) || within(field.name);
  if (nullable) field.tag < 0 ? fixed<int8_t>(1) : unsignedVarint(1);
  return structure(*field.structure, static_cast<const uint8_t*>(value)) || within(field.name);
}

bool Writer::length(size_t count, bool compact, bool wide) {
  if (count > static_cast<size_t>(!compact && !wide ? INT16_MAX : INT32_MAX - 1)) {
    return fail(fmt::format("{} is too long", count));
  }
  if (compact)
    unsignedVarint(static_cast<uint32_t>(count) + 1);
  else if (wide)
    fixed(static_cast<int32_t>(count));
  else
    fixed(static_cast<int16_t>(count));
  return true;
}

bool Writer::array(const Field& field, const void* value, bool compact) {
  size_t count = field.array->size(value);
  if (!length(count, compact, true)) return within(field.name);
  auto* element = static_cast<const uint8_t*>(field.array->data(value));
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

bool Writer::single(const Field& field, const void* value, bool compact) {
  switch (field.type) {
    case Type::boolean:
    case Type::int8: fixed(load<int8_t>(value)); return true;
    case Type::int16:
    case Type::uint16: fixed(load<int16_t>(value)); return true;
    case Type::int32:
    case Type::uint32: fixed(load<int32_t>(value)); return true;
    case Type::int64:
    case Type::float64: fixed(load<int64_t>(value)); return true;
    case Type::uuid: bytes(static_cast<const Uuid*>(value)->bytes); return true;
    case Type::string: {
      auto& text = *static_cast<const std::string*>(value);
      if (!length(text.size(), compact, false)) return false;
      bytes(asBytes(text));
      return true;
    }
    case Type::bytes:
    case Type::records: {
      auto& blob = *static_cast<const Blob*>(value);
      if (!length(blob.size(), compact, true)) return false;
      if (!blob.isExternal()) {
        bytes(blob.view());
        return true;
      }
      MQ_CHECK(splices_ && field.type == Type::records, message_.name, field.name);
      splices_->push_back({size_, blob.size()});
      return true;
    }
    case Type::structure: break;
  }
  return fail("not a single value");
}

bool Writer::tags(const Structure& structure, const uint8_t* object) {
  auto unknown = unknownTags(structure, object);
  auto writeUnknown = [&] {
    unsignedVarint(unknown.front().tag);
    unsignedVarint(static_cast<uint32_t>(unknown.front().value.size()));
    bytes(unknown.front().value);
    unknown = unknown.subspan(1);
  };
  uint32_t count = static_cast<uint32_t>(unknown.size());
  size_t countAt = reserveVarint();
  for (const Field& field : structure.fields.subspan(structure.plainCount)) {
    const uint8_t* at = object + field.offset;
    if (bool ok = true; isAbsent(field, at, ok)) {
      if (!ok) return false;
      continue;
    }
    auto tag = static_cast<uint32_t>(field.tag);
    while (!unknown.empty() && unknown.front().tag < tag) writeUnknown();
    if (!unknown.empty() && unknown.front().tag == tag) {
      return fail("an unknown tag has the number of a known one") || within(field.name);
    }
    if (isDefault(field, at)) continue;
    ++count;
    unsignedVarint(tag);
    size_t sizeAt = reserveVarint();
    if (!value(field, at)) return false;
    fillVarint(sizeAt, static_cast<uint32_t>(size_ - sizeAt - 1));
  }
  while (!unknown.empty()) writeUnknown();
  fillVarint(countAt, count);
  return true;
}

}  // namespace

Result<void> encodeFrom(const Message& descriptor, const void* message, int16_t version, Buffer& into,
                        Splices* splices) {
  if (!descriptor.versions.contains(version)) {
    return failure(Error::unsupportedVersion, "{} v{}: known are {} to {}", descriptor.name, version,
                   descriptor.versions.first, descriptor.versions.last);
  }
  size_t before = into.size();
  size_t splicesBefore = splices ? splices->size() : 0;
  Writer writer(descriptor, version, into, splices);
  if (writer.structure(descriptor.body, static_cast<const uint8_t*>(message))) {
    writer.finish();
    return {};
  }
  into.resize(before);
  if (splices) splices->resize(splicesBefore);
  return writer.takeFailure();
}

}  // namespace mq::wire
