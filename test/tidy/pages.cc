// Generated pages are fresh: compares etc/mq.toml and man/mq.toml.5.scd under ROOT with what the tables print.
// MQ_UPDATE_GOLDEN=1 rewrites them (`./dev test --update`).
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

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
  bool toml = fresh(root + "/etc/mq.toml", mq::config::exampleToml());
  bool manual = fresh(root + "/man/mq.toml.5.scd", mq::config::manualScdoc());
  return toml && manual ? 0 : 1;
}
