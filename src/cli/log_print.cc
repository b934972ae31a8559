#include "cli/log_print.h"

#include <charconv>

#include "cli/json_record.h"
#include "cli/output.h"
#include "record/records.h"

namespace mq::cli {
namespace {

using storage::LogFileKind;
using storage::LogFileName;

constexpr size_t kFlushBytes = 64 << 10;

std::string text(const auto& value) { return fmt::format("{}", value); }
std::string quotedText(std::string_view value) {
  std::string out;
  appendJsonString(out, value);
  return out;
}
const char* word(bool value) { return value ? "true" : "false"; }

}  // namespace

std::optional<DirectoryName> partitionOf(std::string_view directory) {
  size_t dash = directory.rfind('-');
  if (dash == std::string_view::npos || dash == 0) return std::nullopt;
  std::string_view digits = directory.substr(dash + 1);
  int32_t partition = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), partition);
  if (error != std::errc() || end != digits.data() + digits.size() || partition < 0) return std::nullopt;
  return DirectoryName{std::string(directory.substr(0, dash)), partition};
}

std::string_view remedyFor(LogFileKind kind) {
  switch (kind) {
    case LogFileKind::log:
      return "at the end of what a killed broker wrote, its next start cuts it off and keeps it as .cut; elsewhere the "
             "records around it can be read: bring the file back from a replica or a backup, or save what is whole "
             "with "
             "mq log dump --records -J";
    case LogFileKind::metadataSnapshot: return "bring the file back from another controller or a backup";
    case LogFileKind::offsetIndex:
    case LogFileKind::timeIndex:
    case LogFileKind::transactionIndex: return "nothing is lost: a broker rebuilds it from the log";
    case LogFileKind::snapshot:
      return "nothing is lost: remove it while the broker is stopped, the next start rebuilds it";
    case LogFileKind::leaderEpochs: return "nothing is lost: the next start rebuilds it from the log";
    case LogFileKind::partitionMetadata:
      return "bring it back from a backup: without it the directory belongs to no topic";
    default: return "";
  }
}

LogPrinter::LogPrinter(storage::LogReader& reader, std::string directory, LogStyle style,
                       std::function<void(std::string&)> flush)
    : reader_(reader), directory_(std::move(directory)), style_(style), flush_(std::move(flush)) {
  if (auto name = partitionOf(directory_)) {
    topic_ = std::move(name->topic);
    partition_ = name->partition;
  } else {
    topic_ = directory_;
  }
}

void LogPrinter::head(const LogFileName& file, std::string_view what) {
  if (!style_.json) out_ += fmt::format("{}/{}  {}  {}\n", directory_, file.name, what, humanBytes(file.size));
}

void LogPrinter::line(const LogFileName& file, std::string_view type,
                      std::initializer_list<std::pair<std::string_view, std::string>> fields) {
  if (style_.json) {
    out_ += fmt::format("{{\"type\":\"{}\",\"file\":{}", type, quotedText(directory_ + "/" + file.name));
    for (const auto& [name, value] : fields) out_ += fmt::format(",\"{}\":{}", name, value);
    out_ += "}\n";
  } else {
    out_ += " ";
    for (const auto& [name, value] : fields) out_ += fmt::format(" {} {}", name, value);
    out_ += '\n';
  }
  if (out_.size() >= kFlushBytes) flush_(out_);
}

void LogPrinter::print(const LogFileName& file) {
  bool isLog =
      file.kind == LogFileKind::log || file.kind == LogFileKind::cut || file.kind == LogFileKind::metadataSnapshot;
  if (style_.records && !isLog) return;
  switch (file.kind) {
    case LogFileKind::log:
    case LogFileKind::cut:
    case LogFileKind::metadataSnapshot: printLog(file); break;
    case LogFileKind::offsetIndex:
      head(file, "offset index");
      for (const auto& entry : reader_.readOffsetIndex(file, true))
        line(file, "offsetIndex", {{"offset", text(entry.offset)}, {"position", text(entry.position)}});
      break;
    case LogFileKind::timeIndex:
      head(file, "time index");
      for (const auto& entry : reader_.readTimeIndex(file, true)) {
        line(file, "timeIndex",
             {{style_.json ? "ts" : "time", style_.json ? text(entry.timestamp) : isoTime(entry.timestamp.value())},
              {"offset", text(entry.offset)}});
      }
      break;
    case LogFileKind::transactionIndex:
      head(file, "aborted transactions");
      for (const auto& entry : reader_.readTransactionIndex(file)) {
        line(file, "transaction",
             {{"producerId", text(entry.producer)},
              {"firstOffset", text(entry.first)},
              {"lastOffset", text(entry.last)},
              {"lastStableOffset", text(entry.lastStable)}});
      }
      break;
    case LogFileKind::snapshot: {
      head(file, "producers");
      auto state = reader_.readSnapshot(file);
      for (const auto& [id, producer] : state.producers()) {
        line(file, "producer",
             {{"producerId", text(id)},
              {"producerEpoch", text(producer.epoch)},
              {"lastSequence", text(producer.lastSequence())},
              {"lastOffset", text(producer.lastOffset())},
              {"transactionStart", text(producer.transactionFirst)}});
      }
      break;
    }
    case LogFileKind::leaderEpochs:
      head(file, "leader epochs");
      for (const auto& entry : reader_.readLeaderEpochs(file).entries())
        line(file, "epoch", {{"epoch", text(entry.epoch)}, {"startOffset", text(entry.start)}});
      break;
    case LogFileKind::partitionMetadata:
      head(file, "topic id");
      if (auto id = reader_.readPartitionMetadata(file))
        line(file, "topicId", {{"topicId", style_.json ? fmt::format("\"{}\"", *id) : text(*id)}});
      break;
    case LogFileKind::deleted: head(file, "deleted, about to be removed"); break;
    case LogFileKind::other: head(file, "no file of a log"); break;
  }
  flush_(out_);
}

void LogPrinter::printLog(const LogFileName& file) {
  if (!style_.records) head(file, file.kind == LogFileKind::cut ? "a damaged tail that recovery set aside" : "segment");
  reader_.readLog(file, [&](const storage::LogReader::DumpedBatch& batch) {
    if (!style_.records) {
      printBatch(file, batch);
    } else if (batch.good && !batch.batch.isControl()) {
      printRecords(batch);
    }
    if (out_.size() >= kFlushBytes) flush_(out_);
  });
}

void LogPrinter::printBatch(const LogFileName& file, const storage::LogReader::DumpedBatch& dumped) {
  const record::BatchView& batch = dumped.batch;
  if (style_.json) {
    line(file, "batch",
         {{"position", text(dumped.position)},
          {"size", text(batch.sizeBytes())},
          {"baseOffset", text(batch.baseOffset())},
          {"lastOffset", text(batch.lastOffset())},
          {"count", text(batch.recordCount())},
          {"codec", quotedText(nameOf(batch.codec()))},
          {"leaderEpoch", text(batch.leaderEpoch())},
          {"producerId", text(batch.producerId())},
          {"producerEpoch", text(batch.producerEpoch())},
          {"baseSequence", text(batch.baseSequence())},
          {"transactional", word(batch.isTransactional())},
          {"control", word(batch.isControl())},
          {"tstype", batch.isLogAppendTime() ? "\"append\"" : "\"create\""},
          {"baseTimestamp", text(batch.baseTimestamp())},
          {"maxTimestamp", text(batch.maxTimestamp())},
          {"crc", text(batch.crc())},
          {"valid", word(dumped.good)},
          {"problem", dumped.good ? "null" : quotedText(dumped.problem)}});
    return;
  }
  out_ += fmt::format("  @{:<10} offsets {}..{}  {} records  {} bytes  {}  epoch {}  {}", dumped.position,
                      batch.baseOffset(), batch.lastOffset(), batch.recordCount(), batch.sizeBytes(),
                      nameOf(batch.codec()), batch.leaderEpoch(), isoTime(batch.maxTimestamp().value()));
  if (batch.isLogAppendTime()) out_ += " (append)";
  if (batch.producerId().value() >= 0)
    out_ +=
        fmt::format("  producer {} epoch {} from {}", batch.producerId(), batch.producerEpoch(), batch.baseSequence());
  if (batch.isTransactional()) out_ += "  transactional";
  if (batch.isControl()) {
    auto control = record::readControlRecord(batch, workspace_);
    if (!control) {
      out_ += "  control";
    } else {
      switch (control->type) {
        case record::ControlType::abort: out_ += "  abort"; break;
        case record::ControlType::commit: out_ += "  commit"; break;
        default: out_ += fmt::format("  control {}", static_cast<int>(control->type));
      }
    }
  }
  if (!dumped.good) out_ += fmt::format("  DAMAGED: {}", dumped.problem);
  out_ += '\n';
}

void LogPrinter::printRecords(const storage::LogReader::DumpedBatch& dumped) {
  auto records = record::openRecords(dumped.batch, workspace_);
  if (!records) return;  // verify names it
  record::RecordView record;
  PrintedRecord printed;
  while (records->next(record)) {
    printed.topic = topic_;
    printed.partition = partition_;
    printed.offset = record.offset.value();
    printed.timestamp = record.timestamp.value();
    printed.logAppendTime = dumped.batch.isLogAppendTime();
    printed.leaderEpoch = dumped.batch.leaderEpoch().value();
    printed.headers.clear();
    for (record::HeaderView header : record.headers) printed.headers.emplace_back(asBytes(header.key), header.value);
    printed.key = record.key;
    printed.value = record.value;
    if (style_.json) {
      appendJsonRecord(out_, printed);
    } else {
      out_ += fmt::format("{} {}  ", printed.offset, isoTime(*printed.timestamp));
      if (record.key) {
        appendEscaped(out_, *record.key);
        out_ += " = ";
      }
      record.value ? appendEscaped(out_, *record.value) : void(out_ += "(null)");
      out_ += '\n';
    }
    if (out_.size() >= kFlushBytes) flush_(out_);
  }
}

}  // namespace mq::cli
