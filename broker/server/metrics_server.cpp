#include "broker/server/metrics_server.hpp"

#include <utility>

#include "broker/server/broker_metrics.hpp"
#include "http/address.hpp"

namespace millrace::broker {

http::Handler metrics_handler(BrokerServer& broker) {
  return [&broker](const std::shared_ptr<http::Exchange>& exchange) {
    broker.measure([exchange](const Result<Measures>& measures) {
      http::Response response;
      response.type = metrics::content_type;
      if (measures) {
        response.body = metrics_page(*measures);
      } else {
        response.status = 503;
        response.body = measures.error().text() + "\n";
      }
      exchange->respond(std::move(response));
    });
  };
}

Result<std::unique_ptr<http::Server>> serve_metrics(const std::string& address, bool keyed,
                                                    BrokerServer& broker) {
  MILLRACE_TRY(http::check_listen(
      address, keyed, "the server of metrics",
      "name an address like 127.0.0.1:9464; with --keys any address may be named, but the keys "
      "do not guard metrics: whoever can connect may read them"));
  http::Routes routes;
  routes.add("GET", "/metrics", metrics_handler(broker));
  http::ServerOptions options;
  options.listen = address;
  options.origins.local_hosts_only = !keyed;
  return http::Server::start(std::move(options), std::move(routes));
}

}  // namespace millrace::broker
