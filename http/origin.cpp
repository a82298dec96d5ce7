#include "http/origin.hpp"

#include <algorithm>

#include "http/address.hpp"

namespace millrace::http {
namespace {

// "example.org:80" of "http://example.org:80".
std::string_view authority_of(std::string_view origin) {
  const auto end = origin.find("://");
  return end == std::string_view::npos ? std::string_view() : origin.substr(end + 3);
}

}  // namespace

bool OriginPolicy::allows(std::string_view origin) const {
  return std::ranges::any_of(
      allowed, [&](const std::string& one) { return one == "*" || same_name(one, origin); });
}

Status OriginPolicy::check(const Request& request) const {
  const std::string_view host = request.header("Host");
  const std::string_view name = host_of(host);
  if (local_hosts_only && !host.empty() && !is_numeric_host(name) &&
      !same_name(name, "localhost")) {
    return fail(Code::unauthorized,
                "this server without keys does not answer to the name '" + std::string(name) + "'",
                "use the address that it listens on, or give the broker keys");
  }
  const std::string_view origin = request.header("Origin");
  if (origin.empty() || allows(origin)) return {};
  if (!host.empty() && same_name(authority_of(origin), host)) return {};
  return fail(Code::unauthorized, "pages of '" + std::string(origin) + "' may not use this server",
              "start it with --http-allow-origin and this address");
}

Headers OriginPolicy::headers(const Request& request) const {
  const std::string_view origin = request.header("Origin");
  if (origin.empty() || !allows(origin)) return {};
  return {{"Access-Control-Allow-Origin", std::string(origin)},
          {"Access-Control-Expose-Headers", "x-request-id, retry-after"},
          {"Vary", "Origin"}};
}

bool OriginPolicy::is_question(const Request& request) {
  return request.method == "OPTIONS" && !request.header("Access-Control-Request-Method").empty();
}

Response OriginPolicy::answer(const Request& request) const {
  Response response{.status = 204, .body = {}, .type = {}, .headers = {}};
  if (headers(request).empty()) return response;  // a page of the server itself needs none
  response.headers = {{"Access-Control-Allow-Methods", "GET, POST, DELETE"},
                      {"Access-Control-Allow-Headers",
                       std::string(request.header("Access-Control-Request-Headers"))},
                      {"Access-Control-Max-Age", "600"}};
  return response;
}

}  // namespace millrace::http
