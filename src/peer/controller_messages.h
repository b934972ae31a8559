// What is asked of the controller (controller/requests.h) as Cap'n Proto, both ways. Only for this folder: includes
// Cap'n Proto.
//
// Writing throws kj::Exception for lists of more than a million items. Reading throws kj::Exception for what is no
// message: ids of another length, enumerators and ranges that are none, kinds that a newer node has. What a client may
// get wrong (names, counts, node ids that do not exist) passes: the controller answers that.
#pragma once
#include "controller/requests.h"
#include "peer/controller.capnp.h"

namespace mq::peer {

void write(schema::Request::Builder into, const controller::Request& request);
controller::Request read(schema::Request::Reader request);

void write(schema::Answer::Builder into, const Result<controller::Answered>& answer);
Result<controller::Answered> read(schema::Answer::Reader answer);

void writeStatus(schema::Status::Builder into, const Result<void>& result);
Result<void> readStatus(schema::Status::Reader status);

void write(schema::NodeStatus::Builder into, const controller::NodeStatus& status);
controller::NodeStatus read(schema::NodeStatus::Reader status);

void write(schema::JoinRequest::Builder into, const controller::JoinRequest& request);
controller::JoinRequest read(schema::JoinRequest::Reader request);

}  // namespace mq::peer
