#include "wire/value.h"

#include <algorithm>
#include <functional>
#include <map>

namespace mq::wire {

Blob Blob::owning(Buffer bytes) {
  auto owner = std::make_shared<const Buffer>(std::move(bytes));
  Bytes view(*owner);
  return Blob(view, std::move(owner));
}

Blob Blob::copyOf(Bytes bytes) { return owning(Buffer(bytes.begin(), bytes.end())); }

Blob Blob::external(size_t length) {
  Blob blob;
  blob.externalLength_ = length;
  return blob;
}

bool operator==(const Blob& a, const Blob& b) {
  return a.externalLength_ == b.externalLength_ && std::ranges::equal(a.bytes_, b.bytes_);
}

UnknownTags::UnknownTags(const UnknownTags& other)
    : tags_(other.tags_ ? std::make_unique<std::vector<UnknownTag>>(*other.tags_) : nullptr) {}

UnknownTags& UnknownTags::operator=(const UnknownTags& other) { return *this = UnknownTags(other); }

UnknownTags::~UnknownTags() = default;

std::span<const UnknownTag> UnknownTags::list() const {
  if (!tags_) return {};
  return *tags_;
}

void UnknownTags::assign(std::vector<UnknownTag> tags) {
  if (tags.empty()) {
    tags_.reset();
    return;
  }
  if (std::ranges::adjacent_find(tags, std::ranges::greater_equal{}, &UnknownTag::tag) != tags.end()) {
    std::map<uint32_t, Buffer> byTag;
    for (UnknownTag& tag : tags) byTag[tag.tag] = std::move(tag.value);
    tags.clear();
    for (auto& [tag, value] : byTag) tags.push_back({tag, std::move(value)});
  }
  tags_ = std::make_unique<std::vector<UnknownTag>>(std::move(tags));
}

bool operator==(const UnknownTags& a, const UnknownTags& b) { return std::ranges::equal(a.list(), b.list()); }

}  // namespace mq::wire
