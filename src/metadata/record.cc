#include "metadata/record.h"

#include <optional>

#include "base/check.h"
#include "wire/codec.h"

namespace mq::metadata {
namespace {

constexpr int8_t kLayout = 0;

// Decodes into the alternative with that record type; nullopt: there is none.
template <size_t At = 0>
std::optional<Result<Record>> decodeKind(uint32_t type, uint32_t version, Bytes fields) {
  if constexpr (At == std::variant_size_v<AnyRecord>) {
    return std::nullopt;
  } else {
    using Kind = std::variant_alternative_t<At, AnyRecord>;
    if (type != Kind::kRecordType) return decodeKind<At + 1>(type, version, fields);
    if (version > Kind::kVersionMax)
      return failure(Error::unsupportedVersion, "a {} of version {}, and this mq knows up to {}: start a newer mq",
                     Kind::kDescriptor.name, version, Kind::kVersionMax);
    auto decoded = wire::decode<Kind>(fields, static_cast<int16_t>(version));
    if (!decoded) return failure(decoded.errorCode(), "{}: {}", Kind::kDescriptor.name, decoded.failure().message);
    return Result<Record>(std::move(*decoded));
  }
}

}  // namespace

Buffer encodeRecords(std::span<const Record> records) {
  Buffer data;
  ByteWriter out(data);
  out.int8(kLayout);
  Buffer fields;
  for (auto& record : records) {
    fields.clear();
    std::visit(
        [&]<class Kind>(const Kind& kind) {
          auto done = wire::encode(kind, Kind::kVersionMax, fields);
          MQ_CHECK(done.has_value(), Kind::kDescriptor.name, done.failure().message);
          out.unsignedVarint(Kind::kRecordType);
          out.unsignedVarint(Kind::kVersionMax);
        },
        static_cast<const AnyRecord&>(record));
    out.unsignedVarint(static_cast<uint32_t>(fields.size()));
    out.bytes(fields);
  }
  return data;
}

Result<std::vector<Record>> decodeRecords(Bytes data) {
  ByteReader in(data);
  int8_t layout = in.int8();
  if (!in.ok()) return failure(Error::invalidRequest, "no metadata records: not even their layout");
  if (layout != kLayout)
    return failure(Error::unsupportedVersion,
                   "metadata records in layout {}, and this mq knows {} only: start a newer mq", layout, kLayout);
  std::vector<Record> records;
  while (!in.atEnd()) {
    size_t at = in.position();
    uint32_t type = in.unsignedVarint();
    uint32_t version = in.unsignedVarint();
    Bytes fields = in.bytes(in.unsignedVarint());
    if (!in.ok()) return failure(Error::invalidRequest, "the metadata record at byte {} is cut short", at);
    auto record = decodeKind(type, version, fields);
    if (!record)
      return failure(Error::unsupportedVersion,
                     "a metadata record of type {}, which this mq does not know: start a newer mq", type);
    if (!*record) return failure(record->errorCode(), "at byte {}: {}", at, record->failure().message);
    records.push_back(std::move(**record));
  }
  return records;
}

}  // namespace mq::metadata
