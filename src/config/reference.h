// The pages that are printed from the tables: etc/mq.toml and man/mq.toml.5.scd. A test compares them with the files.
#pragma once
#include <string>

namespace mq::config {

std::string exampleToml();  // every setting, documented and commented out, with its default
std::string manualScdoc();  // mq.toml(5) as scdoc source

}  // namespace mq::config
