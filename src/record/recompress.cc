#include "record/recompress.h"

#include <algorithm>

#include "base/check.h"
#include "record/records.h"

namespace mq::record {
namespace {

void setCodec(MutableBytes batch, Codec codec) {
  int attributes = (BatchView(batch).attributes() & ~Attributes::kCodecMask) | static_cast<int>(codec);
  storeBigEndian(batch.data() + Layout::kAttributes, static_cast<int16_t>(attributes));
}

// Header copied, codec set, records compressed, nothing sealed yet.
void rebuildUnsealed(BatchView batch, Bytes plain, Codec codec, Level level, Workspace& workspace, Buffer& out) {
  size_t start = out.size();
  Bytes header = batch.whole().first(Layout::kHeaderBytes);
  out.insert(out.end(), header.begin(), header.end());
  setCodec(MutableBytes(out).subspan(start), codec);
  workspace.compressor.compress(codec, level, plain, out);
}

Failure tooLargeToStore(size_t sizeBytes, Codec codec, const StoreRules& rules) {
  return failure(Error::messageTooLarge, "{} bytes as this topic stores the batch (codec {}), more than the {} allowed",
                 sizeBytes, nameOf(codec), rules.batchBytesMax);
}

}  // namespace

std::optional<Compression> Compression::named(std::string_view name) {
  if (name == "producer") return Compression{.kind = Kind::producer};
  if (name == "auto") return Compression{.kind = Kind::automatic};
  if (name == "uncompressed") return Compression{.kind = Kind::fixed, .codec = Codec::none};
  std::optional<Codec> codec = codecNamed(name);
  if (!codec || *codec == Codec::none) return std::nullopt;
  return Compression{.kind = Kind::fixed, .codec = *codec};
}

Result<MutableBytes> storedForm(MutableBytes batch, const BatchFacts& facts, const StoreRules& rules,
                                Workspace& workspace, Buffer& rewritten) {
  batch = batch.first(facts.sizeBytes);
  BatchView view(batch);
  const Compression& wanted = rules.compression;
  bool tryLz4 =
      wanted.kind == Compression::Kind::automatic && !view.isCompressed() && facts.plainRecords.size() >= kAutoBytesMin;
  bool change = wanted.kind == Compression::Kind::fixed && view.codec() != wanted.codec;
  if ((tryLz4 || change) && !view.isControl()) {
    Codec codec = tryLz4 ? Codec::lz4 : wanted.codec;
    size_t plainSize = Layout::kHeaderBytes + facts.plainRecords.size();
    if (codec == Codec::none && plainSize > rules.batchBytesMax) return tooLargeToStore(plainSize, codec, rules);
    rewritten.clear();
    rebuildUnsealed(view, facts.plainRecords, codec, tryLz4 ? Level() : wanted.level, workspace, rewritten);
    if (change && rewritten.size() > rules.batchBytesMax) return tooLargeToStore(rewritten.size(), codec, rules);
    if (change || rewritten.size() <= batch.size() - facts.plainRecords.size() / kAutoGain) {
      setTimestampsUnsealed(rewritten, rules.timestampType, facts.maxTimestamp);
      setLengthAndCrc(rewritten);
      return MutableBytes(rewritten);
    }
  }
  if (facts.timestampsDiffer) setTimestamps(batch, rules.timestampType, facts.maxTimestamp);
  return batch;
}

void rebuild(BatchView batch, Bytes plain, Codec codec, Level level, Workspace& workspace, Buffer& out) {
  size_t start = out.size();
  rebuildUnsealed(batch, plain, codec, level, workspace, out);
  setLengthAndCrc(MutableBytes(out).subspan(start));
}

void emptied(BatchView batch, Buffer& out) {
  size_t start = out.size();
  Bytes header = batch.whole().first(Layout::kHeaderBytes);
  out.insert(out.end(), header.begin(), header.end());
  MutableBytes copy = MutableBytes(out).subspan(start);
  int attributes = batch.attributes() & ~(Attributes::kCodecMask | Attributes::kDeleteHorizon);
  storeBigEndian(copy.data() + Layout::kAttributes, static_cast<int16_t>(attributes));
  storeBigEndian(copy.data() + Layout::kBaseTimestamp, kNoTimestamp.value());
  storeBigEndian(copy.data() + Layout::kRecordCount, int32_t{0});
  setLengthAndCrc(copy);
}

Result<void> decompressed(BatchView batch, Workspace& workspace, Buffer& out, size_t plainBytesMax) {
  Result<Bytes> plain = plainRecords(batch, workspace, plainBytesMax);
  if (!plain) return plain.failure();
  rebuild(batch, *plain, Codec::none, {}, workspace, out);
  return {};
}

}  // namespace mq::record
