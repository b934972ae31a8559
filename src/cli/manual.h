// Manual pages out of the command table, as scdoc source: man/*.1.scd, compared with this by the tidy test.
#pragma once
#include <map>
#include <string>

namespace mq::cli {

// File name ("mq-topic-create.1.scd") to content: one for each command and group, and mq.1.scd.
std::map<std::string, std::string> manualPages();

}  // namespace mq::cli
