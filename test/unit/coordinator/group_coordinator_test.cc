#include "coordinator/group_coordinator.h"

#include <doctest/doctest.h>

namespace mq::coordinator {
namespace {

TEST_CASE("partitionOf: where Kafka keeps a group") {
  struct Row {
    std::string_view group;
    int32_t of3;
    int32_t of50;
  };
  const Row rows[] = {
      {std::string_view("", 0), 0, 0},
      {std::string_view("a", 1), 1, 47},
      {std::string_view("ab", 2), 0, 5},
      {std::string_view("abc", 3), 0, 4},
      {std::string_view("abcd", 4), 1, 24},
      {std::string_view("abcde", 5), 0, 45},
      {std::string_view("21", 2), 0, 49},
      {std::string_view("foobar", 6), 1, 13},
      {std::string_view("a-little-bit-long-string", 24), 1, 19},
      {std::string_view("a-little-bit-longer-string", 26), 0, 20},
      {std::string_view("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", 48), 1, 39},
      {std::string_view("group-1", 7), 2, 49},
      {std::string_view("my-group", 8), 0, 12},
      {std::string_view("console-consumer-12345", 22), 0, 6},
      {std::string_view("caf\303\251", 5), 0, 21},
      {std::string_view("\346\227\245\346\234\254\350\252\236", 9), 2, 43},
      {std::string_view("\360\237\232\200", 4), 0, 27},
      {std::string_view("polygenelubricants", 18), 0, 0},
      {std::string_view("GydZG_", 6), 0, 0},
      {std::string_view(
           "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
           "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
           "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
           300),
       2, 14},
      {std::string_view("connect-cluster", 15), 1, 13},
      {std::string_view("orders.v1", 9), 2, 46},
      {std::string_view("txn-0", 5), 1, 9},
      {std::string_view("txn-1", 5), 2, 10},
      {std::string_view("0", 1), 0, 48},
      {std::string_view("\000", 1), 0, 0},
      {std::string_view("Aa", 2), 0, 12},
      {std::string_view("BB", 2), 0, 12},
      {std::string_view("group-37", 8), 0, 44},
      {std::string_view("group-1443", 10), 0, 34},
  };
  for (const Row& row : rows) {
    CAPTURE(row.group);
    CHECK(partitionOf(row.group, 1) == 0);
    CHECK(partitionOf(row.group, 3) == row.of3);
    CHECK(partitionOf(row.group, 50) == row.of50);
  }
}

TEST_CASE("partitionOf: any bytes have a place") {
  for (std::string_view bytes :
       {"\xff", "\xc3", "\xe6\x97", "\xf0\x9f\x9a", "\xf8\x88\x80\x80\x80", "a\xc3(", "\x80"}) {
    int32_t place = partitionOf(bytes, 50);
    CHECK(place >= 0);
    CHECK(place < 50);
  }
}

}  // namespace
}  // namespace mq::coordinator
