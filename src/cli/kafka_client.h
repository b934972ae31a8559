// What `produce`, `consume` and `bench` share of librdkafka: configuration from flags, errors as exit codes, and
// signals turned into a flag that loops look at.
#pragma once
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <librdkafka/rdkafka.h>

#include "cli/client.h"
#include "cli/command.h"

namespace mq::cli {

using Properties = std::vector<std::pair<std::string, std::string>>;

// -b and -X; later ones win. An unknown property or a bad value is a usage error in librdkafka's words.
std::vector<Flag> withKafkaFlags(std::vector<Flag> own);
std::string brokerList(const Arguments& arguments);

struct HandleDeleter {
  void operator()(rd_kafka_t* handle) const { rd_kafka_destroy(handle); }
};
using Handle = std::unique_ptr<rd_kafka_t, HandleDeleter>;

// Properties of the command, then those of -X. `opaque` is what callbacks get. What librdkafka logs goes to stderr only
// with -v or when it is an error that ends the command.
Handle makeHandle(rd_kafka_type_t type, const Arguments& arguments, const Properties& own, void* opaque,
                  void (*setCallbacks)(rd_kafka_conf_t*));

int exitCodeOf(rd_kafka_resp_err_t error);
std::string describeError(rd_kafka_resp_err_t error, const char* detail);  // text, name and code in one line

// Counts SIGINT and SIGTERM from construction to destruction. The second one ends the process at once.
class Interrupts {
 public:
  Interrupts();
  ~Interrupts();
  static bool any();
  static int signal();    // the first one received; 0: none
  static int exitCode();  // 130 for SIGINT, 143 for SIGTERM
};

}  // namespace mq::cli
