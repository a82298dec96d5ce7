#include "engine/worker/metrics_server.hpp"

#include <utility>

#include "http/address.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/metrics/page.hpp"

namespace millrace::worker {

Result<std::unique_ptr<http::Server>> serve_metrics(const std::string& address, bool keyed,
                                                    const MeteredExecutor& executor) {
  MILLRACE_TRY(http::check_listen(
      address, keyed, "the server of metrics",
      "name an address like 127.0.0.1:9465; with --key any address may be named, but the key "
      "does not guard metrics: whoever can connect may read them"));
  http::Routes routes;
  routes.add("GET", "/metrics", [&executor](const std::shared_ptr<http::Exchange>& exchange) {
    http::Response response;
    response.body = executor.page();
    response.type = metrics::content_type;
    exchange->respond(std::move(response));
  });
  http::ServerOptions options;
  options.listen = address;
  options.origins.local_hosts_only = !keyed;
  MILLRACE_ASSIGN(auto server, http::Server::start(std::move(options), std::move(routes)));
  log_info("metrics", {{"at", server->url() + "/metrics"}});
  return server;
}

std::string next_address(const std::string& first, std::size_t number) {
  const auto address = http::parse_address(first);
  if (!address || address->port == 0) return first;
  const std::size_t colon = first.rfind(':');
  return first.substr(0, colon + 1) + std::to_string(address->port + number);
}

}  // namespace millrace::worker
