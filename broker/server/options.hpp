#pragma once
// The options of a broker: the place of its ledger, its endpoints, the settings of its core.
// Thread safety: plain values.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "broker/core/config.hpp"
#include "broker/ledger/open_ledger.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::trace {
class Exporter;
}

namespace millrace::broker {

struct ServerOptions {
  LedgerPlace ledger;

  // The folder of keys (schemas/keys/key_file.hpp). Empty: there are none, and whoever can connect
  // may do everything. With keys every endpoint asks for one, ipc:// included.
  std::string keys;

  // Endpoints: tcp://127.0.0.1:PORT (`*` chooses a free port), [::1] likewise, or ipc://PATH. Only
  // with keys others, which other machines can reach.
  std::string clients = net::local_endpoint(net::clients_socket);
  std::string engines = net::local_endpoint(net::engines_socket);
  std::string doorbell = net::local_endpoint(net::doorbell_socket);  // empty: none, readers poll
  std::string push;                                                  // empty: none

  CoreConfig core;
  std::shared_ptr<const DiskMarks> disk_marks;  // of the free space; null: none
  std::string backups;  // the folder of backups; empty: `backups` in the ledger's folder

  std::shared_ptr<trace::Exporter> traces{};  // takes the spans of jobs; null: they have none

  // The broker's thread calls these; they must not wait for it.
  std::function<void(const EngineInfo& engine)> engine_joined;
  std::function<void(const std::string& name)> engine_hung;  // should end the engine's process
  std::function<void()> ended;  // the thread is about to end, after a drain or an error
};

// Checks that the endpoints may be bound. Errors: usage (absent or malformed), unauthorized
// (reachable from other machines).
Status check_endpoints(const ServerOptions& options);

}  // namespace millrace::broker
