// Reads any bytes as the text of tool calls. Each call that is found must have a name and a JSON
// object as its arguments, and a whole answer with calls must begin as one may.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "schemas/openai/check_json.hpp"
#include "schemas/openai/tool_call.hpp"

namespace {

using namespace millrace;
using namespace millrace::openai;

void require(bool holds) {
  if (!holds) std::abort();
}

void check(const std::vector<ToolCall>& calls) {
  for (const ToolCall& call : calls) {
    require(!call.name.empty() && call.arguments.starts_with('{') && check_json(call.arguments));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  check(parse_tool_calls(text, {}));
  const std::vector<ToolCall> bare = parse_bare_tool_calls(text);
  check(bare);
  require(bare.empty() || may_be_bare_tool_call(text.substr(0, size / 2)));
  return 0;
}
