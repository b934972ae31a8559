#include "scenario.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <vector>

namespace mq::scenario {
namespace {

std::string withoutTrailingSpace(const std::string& text) {
  std::istringstream in(text);
  std::string line, out;
  while (std::getline(in, line)) {
    line.erase(line.find_last_not_of(" \t") + 1);
    if (!line.empty()) out += line + "\n";
  }
  return out;
}

// Runs one file; true when it came out as written (or was rewritten).
bool runFile(const std::string& path, const World& world, bool update) {
  std::ifstream file(path);
  if (!file) {
    std::cerr << path << ": cannot be read\n";
    return false;
  }
  std::string line, commands, rewritten;
  int number = 0, steps = 0, wrong = 0;
  while (std::getline(file, line)) {
    ++number;
    if (line != "----") {
      rewritten += line + "\n";
      if (line.empty() || line[0] == '#')
        commands.clear();
      else
        commands += line + "\n";
      continue;
    }
    int at = number;
    std::string expected;
    while (std::getline(file, line) && !line.empty()) {
      ++number;
      expected += line + "\n";
    }
    ++number;
    std::string outcome = withoutTrailingSpace(world(commands));
    ++steps;
    rewritten += "----\n" + outcome + "\n";
    if (!update && outcome != expected) {
      ++wrong;
      std::cerr << path << ":" << at << ": " << commands << "expected:\n" << expected << "got:\n" << outcome << "\n";
    }
    commands.clear();
  }
  if (!commands.empty() || steps == 0) {
    std::cerr << path << ":" << number << ": commands without ---- and an outcome\n";
    return false;
  }
  if (update) {
    while (rewritten.ends_with("\n\n")) rewritten.pop_back();
    std::ofstream(path) << rewritten;
  }
  return wrong == 0;
}

}  // namespace

int run(int argc, char** argv, const std::function<World()>& newWorld) {
  const char* update = std::getenv("MQ_UPDATE_GOLDEN");
  bool fine = argc > 1;
  for (int i = 1; i < argc; ++i) fine = runFile(argv[i], newWorld(), update && *update) && fine;
  return fine ? 0 : 1;
}

}  // namespace mq::scenario
