#pragma once
// Reads the values inside a job, by the member's type and the field's form; private to the codec.
// It accepts OpenAI's spellings as well: a text in place of a list of one, an array in place of
// `bin`, a number in place of a flag. Errors: invalid_value, missing_field, unsupported_field,
// unknown_task; each names the field's path. Thread safety: none; a Reader has one owner.
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/field.hpp"
#include "schemas/job.hpp"
#include "schemas/names.hpp"
#include "schemas/unpack.hpp"

namespace millrace {

// The paths of unknown fields.
using UnknownNames = std::vector<std::string>;

std::unexpected<Error> unsupported(const std::string& where, std::string_view accepted);
// Whether a value of an unsupported field changes nothing. Skips the value.
bool neutral(wire::Reader& in, std::uint32_t allowed);

Status read_token_ids(wire::Reader& in, const wire::Path& path, Tokens& out);
// Reads a text, token ids, or an array with exactly one of these.
Status read_prompt(wire::Reader& in, const wire::Path& path, Prompt& out);
Status read_messages(wire::Reader& in, const wire::Path& path, Chat& out);
Status read_json(wire::Reader& in, const wire::Path& path, Json& out);
// Reads a map from ids, as text, to numbers; or an array of [id, bias] pairs.
Status read_biases(wire::Reader& in, const wire::Path& path, std::vector<LogitBias>& out);
Status read_texts(wire::Reader& in, const wire::Path& path, bool or_one,
                  std::vector<std::string>& out);
Status read_id_lists(wire::Reader& in, const wire::Path& path, std::vector<Tokens>& out);
// Reads a name, or OpenAI's `stream: false`, which leaves the default.
Status read_stream(wire::Reader& in, const wire::Path& path, std::string& out);

template <class E>
Status read_word(wire::Reader& in, const wire::Path& path, E& out) {
  std::string word;
  MILLRACE_TRY(wire::read(in, path, word));
  const auto value = wire::from_name<E>(word);
  if (value) {
    out = *value;
    return {};
  }
  std::string hint;
  for (const std::string_view name : wire::Names<E>::all) {
    hint += (hint.empty() ? "use " : " or ") + std::string(name);
  }
  const Code code = std::is_same_v<E, Task> ? Code::unknown_task : Code::invalid_value;
  return fail(code, path.text() + ": unknown value " + wire::shown(word), std::move(hint));
}

}  // namespace millrace
