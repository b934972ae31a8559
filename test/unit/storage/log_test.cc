// Log on real files: append, read, sync, roll, recover.
#include "storage/log.h"

#include <doctest/doctest.h>

#include <fstream>

#include "log_fixture.h"

using namespace mq;
using namespace mq::storage;

TEST_CASE("Log: what was appended in one turn is written at its end, in the order of the calls, and is read back") {
  TempDirectory temp;
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         Log* log = co_await life.open("t", plainSettings());
         CHECK_FALSE(std::filesystem::exists(life.directory.options().path + "/t-0"));
         std::vector<kj::Promise<Appended>> appends;
         for (int i = 0; i < 10; ++i) appends.push_back(put(*log, makeBatch({.records = 3, .value = 3 * i})));
         CHECK(log->end() == Offset(0));
         for (int i = 0; i < 10; ++i) {
           Appended appended = co_await appends[i];
           CHECK(appended.offsets == OffsetRange{Offset(3 * i), Offset(3 * i + 3)});
         }
         CHECK(log->end() == Offset(30));
         co_await log->whenDurable(Offset(30));
         CHECK(log->durableEnd() == Offset(30));
         ReadBack back = readAll(*log, Offset(0));
         CHECK(back.offsets == range(0, 30));
         CHECK(back.values[17] == "17");
         CHECK(readAll(*log, Offset(11), 1).offsets == range(11, 30));
       }));
  // And after a clean stop, without a scan.
  live(temp / "data", End::close, keep([](Life& life) -> Co<void> {
         CHECK(life.directory.wasClean());
         Log* log = co_await life.open("t", plainSettings());
         CHECK(life.logs.figures().recoveredLogs == 0);
         CHECK(log->end() == Offset(30));
         CHECK(readAll(*log, Offset(0)).offsets == range(0, 30));
         CHECK((co_await put(*log, makeBatch({.records = 2}))).offsets.first == Offset(30));
       }));
}

TEST_CASE("Log: after a kill everything written is there, also over rolls, and appends go on where it ended") {
  TempDirectory temp;
  int64_t end = 0;
  for (int life = 0; life < 4; ++life) {
    live(temp / "data", life % 2 == 0 ? End::kill : End::close, keep([&](Life& l) -> Co<void> {
           auto settings = plainSettings();
           settings.segmentBytes = 4096;
           Log* log = co_await l.open("t", settings);
           CHECK(log->offlineReason().value_or("") == "");
           REQUIRE(log->end() == Offset(end));
           CHECK(readAll(*log, Offset(0)).offsets == range(0, end));
           for (int i = 0; i < 100; ++i) {
             Appended appended =
                 co_await put(*log, makeBatch({.records = 2, .value = static_cast<int>(end)}), LeaderEpoch(life));
             REQUIRE(appended.offsets.first == Offset(end));
             end = appended.offsets.end.value();
             if (i % 10 == 0) co_await log->whenDurable(Offset(end));
           }
           CHECK(log->segmentCount() > 2);
           CHECK(readAll(*log, Offset(0)).offsets == range(0, end));
           CHECK(log->epochEnd(LeaderEpoch(life)).end == Offset(end));
           if (life > 0) CHECK(log->epochEnd(LeaderEpoch(life - 1)).end == Offset(200 * life));
         }));
  }
}
