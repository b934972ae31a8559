#include "runtime/process.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

namespace mq {
namespace {

// Fields of /proc/self/stat behind the name of the program, which may hold anything; the first one is field 3.
std::vector<std::string> statFields() {
  std::ifstream in("/proc/self/stat");
  std::string text;
  std::getline(in, text);
  std::vector<std::string> fields;
  size_t at = text.rfind(") ");
  if (at == std::string::npos) return fields;
  for (at += 2; at < text.size();) {
    size_t space = std::min(text.find(' ', at), text.size());
    fields.push_back(text.substr(at, space - at));
    at = space + 1;
  }
  return fields;
}

uint64_t numberAt(const std::vector<std::string>& fields, size_t field) {
  return field - 3 < fields.size() ? std::strtoull(fields[field - 3].c_str(), nullptr, 10) : 0;
}

uint64_t countDescriptors() {
  std::unique_ptr<DIR, int (*)(DIR*)> directory(::opendir("/proc/self/fd"), &::closedir);
  if (!directory) return 0;
  uint64_t count = 0;
  while (const dirent* entry = ::readdir(directory.get())) count += entry->d_name[0] != '.';
  return count == 0 ? 0 : count - 1;  // not the one that reads
}

// Of the machine, in seconds since 1970.
uint64_t bootTime() {
  std::ifstream in("/proc/stat");
  std::string word;
  while (in >> word) {
    uint64_t value = 0;
    if (word == "btime" && in >> value) return value;
  }
  return 0;
}

}  // namespace

ProcessUsage processUsage() {
  ProcessUsage usage;
  std::vector<std::string> fields = statFields();
  const auto tick = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  usage.threads = numberAt(fields, 20);
  usage.virtualBytes = numberAt(fields, 23);
  usage.residentBytes = numberAt(fields, 24) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  usage.started = WallMs(static_cast<int64_t>(bootTime() * 1000 + numberAt(fields, 22) * 1000 / tick));
  rusage used{};
  if (::getrusage(RUSAGE_SELF, &used) == 0) {
    for (const timeval& part : {used.ru_utime, used.ru_stime}) {
      usage.cpu += std::chrono::seconds(part.tv_sec) + std::chrono::microseconds(part.tv_usec);
    }
  }
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0) usage.maxDescriptors = limit.rlim_cur;
  usage.openDescriptors = countDescriptors();
  return usage;
}

}  // namespace mq
