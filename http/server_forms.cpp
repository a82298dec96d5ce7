// Forms: a body is taken apart while it arrives, and its pieces go to the route's reader. What a
// request does wrong is told once its body has been read.
#include <utility>

#include "http/server_connections.hpp"

namespace millrace::http {

std::optional<Response> Connections::begin_form(Connection& connection) {
  const Status begun = make_form(connection);
  if (begun) return std::nullopt;
  const Code code = begun.error().code;
  return refusal(code == Code::overloaded ? 503 : code_http_status(code), begun.error());
}

Status Connections::make_form(Connection& connection) {
  const Request& request = connection.exchange->request();
  MILLRACE_ASSIGN(Multipart form, Multipart::of(request.header("Content-Type")));
  MILLRACE_ASSIGN(connection.reader, connection.route->make_form(request));
  connection.form = std::move(form);
  return {};
}

void Connections::take_form_data(Connection& connection, const char* data, std::size_t bytes) {
  if (!connection.form || connection.form_error) return;
  const Status taken = connection.form->read({data, bytes}, *connection.reader);
  if (taken) return;
  connection.form_error = taken.error();
  connection.reader.reset();  // it lets go of what it has
}

void Connections::end_form(Connection& connection, bool complete) {
  const auto form = std::exchange(connection.form, std::nullopt);
  if (!form) return;
  if (!complete) return connection.reader.reset();
  if (const Status whole = form->end(); !whole && !connection.form_error) {
    connection.form_error = whole.error();
  }
  if (connection.form_error) return connection.reader.reset();
  connection.exchange->form_ = std::move(connection.reader);
}

}  // namespace millrace::http
