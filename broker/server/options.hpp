#pragma once
// What a broker process is given: where its ledger lies, where it listens, how its core behaves.
// Thread safety: plain values.
#include <cstdint>
#include <functional>
#include <string>

#include "broker/core/config.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::broker {

inline constexpr const char* ledger_file = "ledger.sqlite";

struct ServerOptions {
  std::string ledger_folder;  // created where it is missing; holds `ledger_file`

  // tcp://127.0.0.1:PORT (PORT * for a free one) or ipc://PATH. Others are refused until keys
  // exist.
  std::string clients = net::local_endpoint(net::clients_socket);
  std::string engines = net::local_endpoint(net::engines_socket);
  std::string doorbell = net::local_endpoint(net::doorbell_socket);  // empty: none, readers poll
  std::string push;                                                  // empty: none

  CoreConfig core;

  // All are called on the broker's thread and must not wait for it.
  std::function<void(const EngineInfo& engine)> engine_joined;
  std::function<void(const std::string& name)> engine_hung;  // end its process
  std::function<void()> ended;  // the thread is about to end, drained or by an error
};

// Endpoints that may be bound. Errors: usage (none given), unauthorized (reachable from elsewhere).
Status check_endpoints(const ServerOptions& options);

}  // namespace millrace::broker
