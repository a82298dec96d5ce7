#pragma once
// Shows an engine's metrics to Prometheus. Thread safety: call these functions from main() only.
#include <cstddef>
#include <memory>
#include <string>

#include "engine/worker/metered_executor.hpp"
#include "http/server.hpp"
#include "schemas/base/error.hpp"

namespace millrace::worker {

// Serves the executor's page at /metrics of this address, until the server is destroyed. Without a
// key the address must be one of the loopback interface. The executor must outlive the server.
// Errors: usage (a bad address), unauthorized (other machines could reach it), io_error (it is in
// use).
Result<std::unique_ptr<http::Server>> serve_metrics(const std::string& address, bool keyed,
                                                    const MeteredExecutor& executor);

// The address of a further engine of this command: its port is so much higher. Port 0 stays 0.
std::string next_address(const std::string& first, std::size_t number);

}  // namespace millrace::worker
