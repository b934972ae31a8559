// An image, its delta and its records as text: for tests, golden files, traces and tools. Equal content prints equally.
#pragma once
#include <span>
#include <string>

#include "metadata/image.h"
#include "metadata/record.h"

namespace mq::metadata {

std::string print(const Image& image);
std::string print(const Delta& delta);    // one line per thing that changed
std::string print(const Record& record);  // one line

}  // namespace mq::metadata
