#pragma once
// Which handler answers a method and a path. A route is a path whose segments may be names in
// braces: "/v1/models/{id}" takes one segment, and "/v1/models/{id*}" all that follow. The first
// route that fits is taken.
// Thread safety: complete it before the server starts; then it is only read.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/exchange.hpp"
#include "schemas/base/error.hpp"

namespace millrace::http {

// Runs on the server's thread and must not wait; the answer may come later, from any thread.
using Handler = std::function<void(const std::shared_ptr<Exchange>&)>;

// The form of a request (multipart/form-data), in pieces as they arrive, so that a large file is
// never held. Used on the server's thread.
struct FormPiece {
  std::string_view name;      // of the field
  std::string_view filename;  // of a file; empty: none was given
  std::uint64_t offset = 0;   // of the bytes in the field; 0: a field begins
  std::string_view bytes;     // empty only if the field is
};
class FormReader {
 public:
  virtual ~FormReader() = default;
  // An error refuses the request with the error's status; what still comes of it is dropped.
  virtual Status take(const FormPiece& piece) = 0;
};
using FormMaker = std::function<Result<std::unique_ptr<FormReader>>(const Request&)>;

struct Route {
  std::string method;
  std::vector<std::string> pattern;
  Handler handler;
  std::uint64_t body_bytes = 0;  // the most that a body may have; 0: what the server takes
  FormMaker make_form{};         // empty: the body is held, and none is a form
  std::uint32_t body_ms = 0;  // from the headers to the end of the body; 0: what the server allows
};

class Routes {
 public:
  // A GET is also answered for HEAD, without the body.
  void add(std::string_view method, std::string_view pattern, Handler handler,
           std::uint64_t body_bytes = 0);

  // A route for forms: the handler finds the reader in Exchange::take_form().
  void add_form(std::string_view method, std::string_view pattern, FormMaker make_form,
                Handler handler, std::uint64_t body_bytes, std::uint32_t body_ms);

  using Parts = std::map<std::string, std::string, std::less<>>;
  struct Match {
    const Route* route = nullptr;      // none: see allowed
    Parts parts;                       // of the path, by their names
    std::vector<std::string> allowed;  // the methods of this path; empty: there is no such path
  };
  Match find(std::string_view method, const std::vector<std::string>& path) const;
  // What to ask for in place of a path that fits none: the route with the same end, as clients miss
  // it that have a wrong base URL, or whose end is its plural; else those with the same first
  // segment; else all.
  std::string hint_for(const std::vector<std::string>& path) const;

 private:
  std::string list_beside(std::string_view first) const;

  std::vector<Route> routes_;
};

// Resolves the %-escapes of a text. Errors: invalid_value for a broken escape, a control character
// or invalid UTF-8.
Result<std::string> unescape(std::string_view text);
// Cuts a path at its slashes and resolves the escapes of each segment. Errors: those of unescape,
// invalid_value for a path that does not begin with a slash or has a segment "." or "..".
Result<std::vector<std::string>> split_path(std::string_view path);

}  // namespace millrace::http
