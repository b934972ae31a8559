// Scrubber: reads the sealed segments of one shard's logs over and over, at a bounded rate, and takes the checksum of
// every batch, so that a bit that flips on the disk is found here and not by a consumer.
//
// A batch that fails is not served from then on (Log::read answers CORRUPT_MESSAGE for it, what lies around stays
// readable), named in the log with file and offset, counted, and told to the log's observer, who may fetch it from a
// replica. On its way the indexes of segments that nobody has used yet are checked.
//
// One pass takes as long as Tuning::scrubBytesPerSecond says; passes begin at least Options::scrubPassMin apart.
// Reading happens on Pool::background. Belongs to its shard.
#pragma once
#include "runtime/shard.h"
#include "runtime/tasks.h"

namespace mq::storage {

class ShardLogs;
class Log;

class Scrubber {
 public:
  explicit Scrubber(ShardLogs& logs);
  void restart();  // the rate is another
  void stop();

 private:
  Co<void> run();
  Co<void> scrub(TopicPartition name, Offset base);

  ShardLogs& logs_;
  Tasks tasks_;
};

}  // namespace mq::storage
