#include "schemas/base/error.hpp"

#include <array>

namespace millrace {
namespace {

struct Row {
  std::string_view name;
  int http_status;
  std::string_view summary, advice;
};

constexpr auto table = std::to_array<Row>({
#define X(name, status, summary, advice) {#name, status, summary, advice},
    MILLRACE_ERROR_CODES(X)
#undef X
});

}  // namespace

std::string_view code_name(Code code) {
  return table[static_cast<std::size_t>(code)].name;
}
int code_http_status(Code code) {
  return table[static_cast<std::size_t>(code)].http_status;
}
std::string_view code_summary(Code code) {
  return table[static_cast<std::size_t>(code)].summary;
}
std::string_view code_advice(Code code) {
  return table[static_cast<std::size_t>(code)].advice;
}

std::optional<Code> code_from_name(std::string_view name) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    if (table[i].name == name) return static_cast<Code>(i);
  }
  return std::nullopt;
}

std::string Error::text() const {
  std::string out(code_name(code));
  out += ": ";
  out += message;
  if (!hint.empty()) out += " (" + hint + ")";
  return out;
}

std::string_view Error::what_to_do() const {
  return hint.empty() ? code_advice(code) : std::string_view(hint);
}

}  // namespace millrace
