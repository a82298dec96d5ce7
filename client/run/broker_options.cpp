#include "client/run/broker_options.hpp"

#include <memory>

#include "broker/server/settings.hpp"

namespace millrace::client {

broker::ServerOptions broker_options(const BackendOptions& options) {
  broker::ServerOptions server;
  server.ledger.folder = options.folder;
  server.core.previous_engines_are_gone = true;  // engines die with their run
  server.core.hang_ms = hang_ms(options.step_limit_s);
  server.core.match_kv = false;  // no other engine could run a job that one of these cannot
  server.core.fingerprint = options.fingerprint;
  if (!options.service) return server;
  const broker::Settings usual;
  server.core.retention = broker::retention(usual);
  const auto marks = std::make_shared<broker::DiskMarks>();
  broker::apply(usual, *marks);
  server.disk_marks = marks;
  return server;
}

}  // namespace millrace::client
