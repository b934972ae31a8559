#include "runtime/file.h"

#include <kj/debug.h>

#include <cerrno>
#include <cstring>

namespace mq {

kj::Exception ioError(const char* operation, const std::string& path, int errorNumber) {
  bool noSpace = errorNumber == ENOSPC || errorNumber == EDQUOT;
  auto type = noSpace ? kj::Exception::Type::OVERLOADED : kj::Exception::Type::FAILED;
  return kj::Exception(type, __FILE__, __LINE__,
                       kj::str("cannot ", operation, " ", path.c_str(), ": ", strerror(errorNumber)));
}

bool isNoSpace(const kj::Exception& exception) { return exception.getType() == kj::Exception::Type::OVERLOADED; }

std::string FileSystem::readFile(const std::string& path, size_t sizeMax) {
  FileRef file = open(path, OpenMode::read);
  uint64_t size = file->size();
  if (size > sizeMax) throw ioError("read whole", path, EFBIG);
  std::string content(size, '\0');
  size_t count = file->read(0, {reinterpret_cast<uint8_t*>(content.data()), content.size()});
  content.resize(count);
  return content;
}

void FileSystem::replaceFile(const std::string& path, std::string_view content) {
  std::string temporary = path + ".tmp";
  {
    FileRef file = open(temporary, OpenMode::create);
    file->truncate(0);
    file->write(0, asBytes(content));
    file->sync();
  }
  rename(temporary, path);
  size_t slash = path.rfind('/');
  syncDirectory(slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash));
}

}  // namespace mq
