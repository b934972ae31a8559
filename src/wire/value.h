// The two value types of messages that the standard library does not have.
//
// Blob: the value of a `bytes` or `records` field. Three kinds:
//   borrowed   a view; its owner must outlive it. What decode() makes: views into the frame, never copies.
//   shared     a view that keeps its owner alive. For answers that outlive the call that made them.
//   external   only a length (`records` fields alone): the encoder writes the length and reports a Splice where the
//              bytes belong, so that file slices are sent without ever being read here.
//
// UnknownTags: the tagged fields a message carried that its schema does not know. They survive decode + encode.
// One pointer, null when there are none. Ascending by tag, no tag twice.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace mq::wire {

class Blob {
 public:
  Blob() = default;
  Blob(Bytes borrowed) : bytes_(borrowed) {}  // NOLINT: `field = bytes` is how handlers read
  Blob(Bytes bytes, std::shared_ptr<const void> owner) : bytes_(bytes), owner_(std::move(owner)) {}

  static Blob owning(Buffer bytes);
  static Blob copyOf(Bytes bytes);
  static Blob copyOf(std::string_view text) { return copyOf(asBytes(text)); }
  static Blob external(size_t length);

  size_t size() const { return isExternal() ? externalLength_ : bytes_.size(); }
  bool empty() const { return size() == 0; }
  bool isExternal() const { return externalLength_ != 0; }
  Bytes view() const { return bytes_; }  // empty when external
  operator Bytes() const { return bytes_; }

  friend bool operator==(const Blob& a, const Blob& b);  // by content; an external one equals none but its like

 private:
  Bytes bytes_;
  std::shared_ptr<const void> owner_;
  size_t externalLength_ = 0;
};

struct UnknownTag {
  uint32_t tag = 0;
  Buffer value;
  friend bool operator==(const UnknownTag&, const UnknownTag&) = default;
};

class UnknownTags {
 public:
  UnknownTags() = default;
  UnknownTags(const UnknownTags& other);
  UnknownTags(UnknownTags&&) noexcept = default;
  UnknownTags& operator=(const UnknownTags& other);
  UnknownTags& operator=(UnknownTags&&) noexcept = default;
  ~UnknownTags();

  std::span<const UnknownTag> list() const;
  bool empty() const { return list().empty(); }
  // Sorts by tag; of one tag given twice the last wins, as in Kafka's readers.
  void assign(std::vector<UnknownTag> tags);

  friend bool operator==(const UnknownTags& a, const UnknownTags& b);

 private:
  std::unique_ptr<std::vector<UnknownTag>> tags_;
};

}  // namespace mq::wire
