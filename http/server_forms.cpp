// Forms: a body is taken apart by libmicrohttpd while it arrives, and its pieces go to the route's
// reader. What a request does wrong is told once its body has been read.
#include <microhttpd.h>

#include <utility>

#include "http/server_connections.hpp"

namespace millrace::http {
namespace {

constexpr std::size_t piece_bytes = 64 * 1024;
constexpr std::string_view form_type = "multipart/form-data";

std::unexpected<Error> no_form() {
  return fail(Code::invalid_value, "the body is no form, or it is cut short",
              "send it as multipart/form-data");
}

MHD_Result take_piece(void* to, MHD_ValueKind /*kind*/, const char* name, const char* filename,
                      const char* /*type*/, const char* /*encoding*/, const char* data,
                      std::uint64_t offset, std::size_t bytes) {
  auto& connection = *static_cast<Connection*>(to);
  if (connection.form_error) return MHD_NO;
  const FormPiece piece{.name = name == nullptr ? "" : name,
                        .filename = filename == nullptr ? "" : filename,
                        .offset = offset,
                        .bytes = {data, bytes}};
  if (const Status taken = connection.reader->take(piece); !taken) {
    connection.form_error = taken.error();
    return MHD_NO;
  }
  return MHD_YES;
}

}  // namespace

std::optional<Response> Connections::begin_form(Connection& connection) {
  const Status begun = make_form(connection);
  if (begun) return std::nullopt;
  const Code code = begun.error().code;
  return refusal(code == Code::overloaded ? 503 : code_http_status(code), begun.error());
}

Status Connections::make_form(Connection& connection) {
  const Request& request = connection.exchange->request();
  const std::string_view type = request.header("Content-Type");
  if (!same_name(type.substr(0, type.find(';')), form_type)) return no_form();
  MILLRACE_ASSIGN(auto reader, connection.route->make_form(request));
  connection.form =
      MHD_create_post_processor(connection.handle, piece_bytes, &take_piece, &connection);
  if (connection.form == nullptr) return no_form();  // it names no boundary
  connection.reader = std::move(reader);
  return {};
}

void Connections::take_form_data(Connection& connection, const char* data, std::size_t bytes) {
  if (connection.form == nullptr || connection.form_error) return;
  if (MHD_post_process(connection.form, data, bytes) == MHD_YES) return;
  if (!connection.form_error) connection.form_error = no_form().error();
  connection.reader.reset();  // it lets go of what it has
}

void Connections::end_form(Connection& connection, bool complete) {
  if (connection.form == nullptr) return;
  const bool whole = MHD_destroy_post_processor(std::exchange(connection.form, nullptr)) == MHD_YES;
  if (!complete) return connection.reader.reset();
  if (!whole && !connection.form_error) connection.form_error = no_form().error();
  if (connection.form_error) return connection.reader.reset();
  connection.exchange->form_ = std::move(connection.reader);
}

}  // namespace millrace::http
