// The printer of all messages: walks the descriptor tables.
#include <cmath>
#include <cstring>
#include <iterator>

#include "wire/codec.h"

namespace mq::wire {
namespace {

class Printer {
 public:
  explicit Printer(int16_t version) : version_(version) {}

  void structure(const Structure& structure, const uint8_t* object) {
    out_ += '{';
    bool first = true;
    auto next = [&](std::string_view name) {
      if (!first) out_ += ',';
      first = false;
      text(name);
      out_ += ':';
    };
    for (const Field& field : structure.fields) {
      if (!field.versions.contains(version_)) continue;
      next(field.name);
      value(field, object + field.offset);
    }
    if (structure.unknownTagsOffset >= 0) {
      auto tags = reinterpret_cast<const UnknownTags*>(object + structure.unknownTagsOffset)->list();
      if (!tags.empty()) {
        next("_tags");
        out_ += '[';
        for (const UnknownTag& tag : tags) {
          if (&tag != &tags.front()) out_ += ',';
          fmt::format_to(std::back_inserter(out_), "[{},", tag.tag);
          hex(tag.value);
          out_ += ']';
        }
        out_ += ']';
      }
    }
    out_ += '}';
  }

  std::string take() { return std::move(out_); }

 private:
  void value(const Field& field, const uint8_t* at) {
    const void* value = field.optional ? field.optional->get(at) : at;
    if (!value) {
      out_ += "null";
      return;
    }
    if (!field.array) {
      single(field, value);
      return;
    }
    out_ += '[';
    auto* element = static_cast<const uint8_t*>(field.array->data(value));
    for (size_t i = 0; i < field.array->size(value); ++i, element += field.array->stride) {
      if (i > 0) out_ += ',';
      single(field, element);
    }
    out_ += ']';
  }

  void single(const Field& field, const void* value) {
    switch (field.type) {
      case Type::boolean: out_ += *static_cast<const bool*>(value) ? "true" : "false"; break;
      case Type::int8: number<int8_t>(value); break;
      case Type::int16: number<int16_t>(value); break;
      case Type::uint16: number<uint16_t>(value); break;
      case Type::int32: number<int32_t>(value); break;
      case Type::uint32: number<uint32_t>(value); break;
      case Type::int64: number<int64_t>(value); break;
      case Type::float64: real(*static_cast<const double*>(value)); break;
      case Type::uuid: text(static_cast<const Uuid*>(value)->toString()); break;
      case Type::string: text(*static_cast<const std::string*>(value)); break;
      case Type::bytes:
      case Type::records: {
        auto& blob = *static_cast<const Blob*>(value);
        if (blob.isExternal())
          text(fmt::format("{} bytes", blob.size()));
        else
          hex(blob.view());
        break;
      }
      case Type::structure: structure(*field.structure, static_cast<const uint8_t*>(value)); break;
    }
  }

  template <class T>
  void number(const void* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    fmt::format_to(std::back_inserter(out_), "{}", value);
  }

  void real(double value) {
    std::string shown = fmt::format("{}", value);
    if (!std::isfinite(value)) return text(shown);
    out_ += shown;
    if (shown.find_first_of(".e") == std::string::npos) out_ += ".0";
  }

  void text(std::string_view text) {
    out_ += '"';
    for (char c : text) {
      if (c == '"' || c == '\\') out_ += '\\';
      if (static_cast<unsigned char>(c) < 0x20)
        fmt::format_to(std::back_inserter(out_), "\\u{:04x}", c);
      else
        out_ += c;
    }
    out_ += '"';
  }

  void hex(Bytes bytes) {
    static constexpr char kDigits[] = "0123456789abcdef";
    out_ += '"';
    for (uint8_t byte : bytes) {
      out_ += kDigits[byte >> 4];
      out_ += kDigits[byte & 15];
    }
    out_ += '"';
  }

  int16_t version_;
  std::string out_;
};

}  // namespace

std::string describe(const Message& descriptor, const void* message, int16_t version) {
  Printer printer(version);
  printer.structure(descriptor.body, static_cast<const uint8_t*>(message));
  return printer.take();
}

}  // namespace mq::wire
