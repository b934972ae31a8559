// `mq consume -g`: reading as a member of a consumer group, in the classic protocol.
//
// What is committed has been handed over: all of its bytes taken by stdout, or the command of --exec ended with 0. So a
// crash at any moment repeats records, and never loses one. Commits are made once a second (with --exec for each
// batch), before partitions are given up, and at the end, also on a closed pipe and on SIGINT and SIGTERM.
#pragma once
#include "cli/command.h"
#include "cli/record_text.h"

namespace mq::cli {

int consumeInGroup(const Arguments& arguments, RecordStyle style);

}  // namespace mq::cli
