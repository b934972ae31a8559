// What `mq log dump` prints of the files of a partition: lines for people, or one JSON object a line. Records come in
// the form of `mq consume -J`, so that `mq log dump --records -J DIR | mq produce -J` brings back what a broker cannot
// serve any more.
//
//   {"type":"batch","file":"t-0/00000000000000000000.log","position":0,"size":153,"baseOffset":0,"lastOffset":9,...}
//   {"type":"offsetIndex","file":...,"offset":9,"position":0}    timeIndex, transaction, producer, epoch, topicId alike
#pragma once
#include <functional>
#include <string>

#include "record/compression.h"
#include "storage/log_reader.h"

namespace mq::cli {

struct LogStyle {
  bool json = false;
  bool records = false;  // the records of .log files, and nothing else
};

// Prints each file into `out` as it is read; `flush` is called when a few of its lines have come together. Damaged
// batches are printed and marked, their records left out. Problems stay in the reader. `directory` is
// "<topic>-<partition>", for names and for the records' topic and partition.
class LogPrinter {
 public:
  LogPrinter(storage::LogReader& reader, std::string directory, LogStyle style,
             std::function<void(std::string&)> flush);
  void print(const storage::LogFileName& file);

 private:
  void printLog(const storage::LogFileName& file);
  void printBatch(const storage::LogFileName& file, const storage::LogReader::DumpedBatch& batch);
  void printRecords(const storage::LogReader::DumpedBatch& batch);
  // One line: `name` and the fields as JSON, or the fields as words.
  void line(const storage::LogFileName& file, std::string_view type,
            std::initializer_list<std::pair<std::string_view, std::string>> fields);
  void head(const storage::LogFileName& file, std::string_view what);

  storage::LogReader& reader_;
  std::string directory_;
  std::string topic_;
  int32_t partition_ = 0;
  LogStyle style_;
  std::function<void(std::string&)> flush_;
  std::string out_;
  record::Workspace workspace_;
};

// What a person can do about a damaged file of this kind.
std::string_view remedyFor(storage::LogFileKind kind);

// "hello-0" is partition 0 of hello; nullopt: no such name.
struct DirectoryName {
  std::string topic;
  int32_t partition;
};
std::optional<DirectoryName> partitionOf(std::string_view directory);

}  // namespace mq::cli
