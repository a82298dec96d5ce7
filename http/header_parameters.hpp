#pragma once
// Values of headers that have parameters: `form-data; name="file"; filename*=utf-8''a%20b`, as
// RFC 9110, RFC 7578 and RFC 5987 define them. Parameters come in any order, their names in any
// case, their values as tokens or in quotes. In quotes a backslash escapes a quote or a backslash
// and stands for itself before anything else, because browsers write it bare; they write `"`, CR
// and LF as %22, %0D and %0A, and these stay as they come. A token may have any visible character
// but `;` and `"`, because clients write boundaries with `=` and names in UTF-8 without quotes.
// Errors: invalid_value, for what has no such form and for a parameter that comes twice, which
// could be read in two ways. Thread safety: plain values.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::http {

struct HeaderValue {
  std::string value;  // before the first `;`, in lower case
  std::vector<std::pair<std::string, std::string>> parameters;  // names in lower case

  const std::string* find(std::string_view name) const;  // none: nullptr
};

Result<HeaderValue> parse_header_value(std::string_view text);

// The text that `CHARSET'LANGUAGE'ESCAPED` stands for, in UTF-8. The charset is UTF-8 or
// ISO-8859-1.
Result<std::string> decode_extended_value(std::string_view value);

}  // namespace millrace::http
