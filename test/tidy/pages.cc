// Generated pages are fresh (what is about commands and settings): compares etc/mq.toml and man/*.scd under ROOT with
// what the tables print. MQ_UPDATE_GOLDEN=1 rewrites them (`./dev test --update`).
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "cli/manual.h"
#include "config/reference.h"

namespace {

bool fresh(const std::string& path, const std::string& content) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream held;
  held << in.rdbuf();
  if (in && held.str() == content) return true;
  const char* update = std::getenv("MQ_UPDATE_GOLDEN");
  if (update != nullptr && std::string(update) == "1") {
    std::ofstream out(path, std::ios::binary);
    out << content;
    out.close();
    if (out) return true;
    std::fprintf(stderr, "cannot write %s\n", path.c_str());
    return false;
  }
  std::fprintf(stderr, "%s is stale: ./dev test --update\n", path.c_str());
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: pages ROOT\n");
    return 2;
  }
  std::string root = argv[1];
  bool good = fresh(root + "/etc/mq.toml", mq::config::exampleToml());
  auto pages = mq::cli::manualPages();
  pages["mq.toml.5.scd"] = mq::config::manualScdoc();
  for (const auto& [name, content] : pages) good = fresh(root + "/man/" + name, content) && good;
  for (const auto& entry : std::filesystem::directory_iterator(root + "/man")) {
    std::string name = entry.path().filename();
    if (pages.contains(name) || name.ends_with(".7.scd")) continue;  // chapter 7 is written by hand
    std::fprintf(stderr, "%s: there is no such command any more\n", entry.path().c_str());
    good = false;
  }
  return good ? 0 : 1;
}
