#include "storage/scrubber.h"

#include <algorithm>

#include "record/batch.h"
#include "storage/log.h"
#include "storage/segment_scan.h"
#include "storage/shard_logs.h"

namespace mq::storage {
namespace {

constexpr uint64_t kPieceBytes = 1_MiB;

struct Piece {
  uint64_t next = 0;  // where the next piece begins
  Offset nextOffset;
  std::vector<OffsetRange> damaged;
  std::vector<std::string> problems;
};

// From `at` on, about kPieceBytes: whole batches.
Piece readPiece(const File& log, Offset base, uint64_t at, Offset nextOffset, uint64_t size) {
  Piece piece{.next = at, .nextOffset = nextOffset, .damaged = {}, .problems = {}};
  uint64_t stop = std::min(size, at + kPieceBytes);
  while (piece.next < stop) {
    // A scan ends at the first bad batch; its header tells where the next one is.
    uint64_t from = piece.next;
    ScanResult scan = scanSegment(log, base, {.from = from, .nextOffset = piece.nextOffset, .sizeMax = size},
                                  [&](const record::BatchView& batch, uint64_t position) {
                                    piece.next = position + batch.sizeBytes();
                                    piece.nextOffset = batch.nextOffset();
                                  });
    if (scan.stop == ScanStop::end) break;
    uint8_t header[record::Layout::kHeaderBytes];
    uint64_t bad = scan.validEnd;
    bool whole = bad + sizeof header <= size && log.read(bad, header) == sizeof header;
    record::BatchView batch{Bytes(header)};
    bool walkable = whole && scan.stop == ScanStop::badCrc && batch.baseOffset() >= scan.nextOffset &&
                    bad + batch.sizeBytes() <= size;
    piece.problems.push_back(fmt::format("at byte {}, offset {}: {}", bad, scan.nextOffset, scan.problem));
    if (!walkable) {  // where the next batch begins is not known
      piece.damaged.push_back({scan.nextOffset, Offset(INT64_MAX)});
      piece.next = size;
      break;
    }
    piece.damaged.push_back({batch.baseOffset(), batch.nextOffset()});
    piece.next = bad + batch.sizeBytes();
    piece.nextOffset = batch.nextOffset();
  }
  return piece;
}

}  // namespace

Scrubber::Scrubber(ShardLogs& logs) : logs_(logs), tasks_(logs.shard.log(), "scrub-failed") { restart(); }

void Scrubber::restart() {
  tasks_.cancelAll();
  if (logs_.tuning.scrubBytesPerSecond > 0) tasks_.add(run());
}

void Scrubber::stop() { tasks_.cancelAll(); }

Co<void> Scrubber::run() {
  while (true) {
    Instant began = logs_.shard.now();
    // Logs and segments come and go while this goes on: always the next by name.
    std::optional<TopicPartition> last;
    while (true) {
      auto at = last ? logs_.logs.upper_bound(*last) : logs_.logs.begin();
      if (at == logs_.logs.end()) break;
      last = at->first;
      for (std::optional<Offset> base = at->second->firstSealed(); base;) {
        try {
          co_await scrub(*last, *base);
        } catch (...) {
          kj::Exception reason = caughtException();  // most likely the segment was deleted meanwhile
          logs_.shard.log().debug("scrub-failed", "{} at {}: {}", *last, *base, describe(reason));
        }
        auto again = logs_.logs.find(*last);
        base = again == logs_.logs.end() ? std::nullopt : again->second->sealedAfter(*base);
      }
    }
    co_await logs_.shard.after(std::max<Duration>(logs_.options.scrubPassMin - (logs_.shard.now() - began), 100ms));
  }
}

Co<void> Scrubber::scrub(TopicPartition name, Offset base) {
  uint64_t at = 0;
  Offset nextOffset = base;
  std::optional<uint64_t> replacement;
  while (true) {
    auto found = logs_.logs.find(name);
    if (found == logs_.logs.end() || found->second->unusable()) co_return;
    Log& log = *found->second;
    auto target = log.sealedForScrub(base);
    if (!target || at >= target->facts.size) co_return;
    if (replacement.value_or(target->replacement) != target->replacement) co_return;  // compacted meanwhile
    replacement = target->replacement;
    auto busy = log.scrubbing_;
    Instant began = logs_.shard.now();
    struct Outcome {
      std::optional<IndexCounts> indexes;
      Piece piece;
    };
    Outcome outcome =
        co_await logs_.shard.run(Pool::background, [&system = logs_.shard.files(), target = *target, at, nextOffset] {
          Outcome done;
          if (!target.indexesChecked) {
            done.indexes = checkIndexes(system, target.directory, target.facts, target.indexInterval);
          }
          FileRef file = system.open(target.path, OpenMode::read);
          done.piece = readPiece(*file, target.facts.base, at, nextOffset, target.facts.size);
          return done;
        });
    busy = nullptr;
    found = logs_.logs.find(name);
    if (found == logs_.logs.end()) co_return;
    if (outcome.indexes) found->second->indexesScrubbed(target->facts, *outcome.indexes);
    const Piece& piece = outcome.piece;
    for (size_t i = 0; i < piece.damaged.size(); ++i) {
      found->second->damageFound(target->facts, piece.damaged[i], piece.problems[i]);
    }
    uint64_t bytes = piece.next - at;
    logs_.figures.scrubbedBytes += bytes;
    at = piece.next;
    nextOffset = piece.nextOffset;
    Duration due = Duration(
        static_cast<int64_t>(static_cast<double>(bytes) * 1e9 / static_cast<double>(logs_.tuning.scrubBytesPerSecond)));
    Duration spent = logs_.shard.now() - began;
    if (due > spent) co_await logs_.shard.after(due - spent);
  }
}

}  // namespace mq::storage
