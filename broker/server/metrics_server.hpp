#pragma once
// Shows a broker's metrics to Prometheus. Thread safety: any thread; destroy the server before the
// broker.
#include <memory>
#include <string>

#include "broker/server/server.hpp"
#include "http/server.hpp"
#include "schemas/base/error.hpp"

namespace millrace::broker {

// Answers requests for /metrics when the broker has measured itself.
http::Handler metrics_handler(BrokerServer& broker);

// Serves the broker's page at /metrics of this address, until the server is destroyed. Without keys
// the address must be one of the loopback interface. Errors: usage (a bad address), unauthorized
// (other machines could reach it), io_error (it is in use).
Result<std::unique_ptr<http::Server>> serve_metrics(const std::string& address, bool keyed,
                                                    BrokerServer& broker);

}  // namespace millrace::broker
