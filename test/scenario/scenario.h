// Scenarios: text in, text out. A file of test/scenario/<folder>/ is a list of steps:
//
//   # a comment, or a blank line
//   create words partitions=3        one or more lines: what is done
//   ----
//   words: ok 3x1                    what comes of it, up to the next blank line
//
// The program for a folder turns the lines of a step into its outcome; it starts afresh with each file. With
// MQ_UPDATE_GOLDEN=1 in the environment the outcomes are written into the file instead of compared (./dev test
// --update).
#pragma once
#include <functional>
#include <memory>
#include <string>

namespace mq::scenario {

// One file's world: called for each step, in order.
using World = std::function<std::string(const std::string& commands)>;

// main() of a folder's program: arguments are the files. 0: all as expected.
int run(int argc, char** argv, const std::function<World()>& newWorld);

}  // namespace mq::scenario
