#pragma once
// How long a request's body is, as its headers say. A server and a proxy before it that read this
// differently see different requests in the same bytes, and a client could hide one in another's
// body. So what could be read in two ways is refused (RFC 9112, sections 5.1 and 6.3).
// Thread safety: a pure function.
#include <cstdint>
#include <optional>

#include "http/request.hpp"
#include "schemas/base/error.hpp"

namespace millrace::http {

// The body's bytes; none: it comes in chunks. Errors: invalid_value.
Result<std::optional<std::uint64_t>> body_length(const Headers& headers);

}  // namespace millrace::http
