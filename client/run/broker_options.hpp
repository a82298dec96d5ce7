#pragma once
// What an embedded broker is told, but for its endpoints and what it calls. Thread safety: a pure
// function.
#include "broker/server/options.hpp"
#include "client/run/backend.hpp"

namespace millrace::client {

// The broker of a run keeps everything, because its folder ends with the run. The one of a service
// lasts: it deletes old results and watches the disk as millrace-broker does unless it is told
// otherwise.
broker::ServerOptions broker_options(const BackendOptions& options);

}  // namespace millrace::client
