#pragma once
// How the filter tojson writes JSON: the parameters of Python's json.dumps.
#include <optional>
#include <string>

#include "engine/core/template/context.hpp"

namespace millrace::chat_template {

struct JsonStyle {
  std::optional<std::string> indent;  // of one level; none: all on one line
  std::string item_separator = ", ", key_separator = ": ";
  bool ensure_ascii = false, sort_keys = false;
};

}  // namespace millrace::chat_template
