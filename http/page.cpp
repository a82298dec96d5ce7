#include "http/page.hpp"

#include <string>
#include <utility>

#include "http/page_files.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::http {
namespace {

// Everything comes from this server, and no other page may hold this one in a frame.
constexpr const char* policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

std::string type_of(std::string_view name) {
  if (name.ends_with(".html")) return "text/html; charset=utf-8";
  if (name.ends_with(".css")) return "text/css; charset=utf-8";
  if (name.ends_with(".js")) return "text/javascript; charset=utf-8";
  if (name.ends_with(".svg")) return "image/svg+xml";
  return "application/octet-stream";
}

// Whether the list of a header If-None-Match has the tag.
bool has_tag(std::string_view list, std::string_view tag) {
  return list == "*" || list.contains(tag);
}

Handler handler_of(const PageFile& file) {
  const std::string tag = "\"" + std::to_string(hash64(file.bytes)) + "\"";
  return [file, tag](const std::shared_ptr<Exchange>& exchange) {
    Response response;
    response.type = type_of(file.name);
    response.headers = {{"ETag", tag},
                        {"Cache-Control", "no-cache"},
                        {"Content-Security-Policy", policy},
                        {"X-Content-Type-Options", "nosniff"},
                        {"Referrer-Policy", "no-referrer"}};
    if (has_tag(exchange->request().header("If-None-Match"), tag)) {
      response.status = 304;
    } else {
      response.body = file.bytes;
    }
    exchange->respond(std::move(response));
  };
}

}  // namespace

void add_page_routes(Routes& routes) {
  for (const PageFile& file : page_files()) {
    const std::string name(file.name);
    routes.add("GET", name == "index.html" ? "/" : "/page/" + name, handler_of(file));
  }
}

}  // namespace millrace::http
