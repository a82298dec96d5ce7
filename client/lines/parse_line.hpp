#pragma once
// An input line becomes a job: a line of OpenAI's batch format (`custom_id`, `method`, `url`,
// `body`) for /v1/chat/completions or /v1/completions, or a plain job, which is the job map of
// schemas/README.md as JSON (token ids as arrays).
//
// The job is checked as the broker would check it (schemas/codec.hpp), so that a bad line is known
// before it travels. Fields nobody knows stay in the job: the result warns about them.
// Errors: those of decode_job and check_json; too_large. Thread safety: pure function.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "client/lines/custom_ids.hpp"
#include "client/lines/line_reader.hpp"
#include "schemas/base/error.hpp"
#include "schemas/messages.hpp"

namespace millrace::client {

// What the producer wrote, and so what the result line looks like.
enum class Shape : std::uint8_t { plain, chat, completion };

// Metadata keys that carry our notes along with a job and back in its result.
inline constexpr std::string_view shape_key = "millrace.shape";  // "chat", "completion"
inline constexpr std::string_view duplicate_key = "millrace.duplicate_of_line";
inline constexpr std::string_view model_key = "millrace.model";  // named where another may run

struct LineOptions {
  std::string id{};                    // of the job; empty: the line's own, or none
  std::optional<std::string> model{};  // instead of the line's
  std::string stream{}, batch{};       // where the line names none, or always with `own_queue`
  bool own_queue = false;              // the line's id, stream and batch do not count (`run`)
  bool strict = false;                 // unknown fields are refused
  CustomIds* custom_ids = nullptr;     // where given, ids used before are noted in the job
};

struct ParsedLine {
  std::uint64_t number = 0;
  std::string id;                        // the job's; the options' where the line is bad
  std::string stream;                    // the job's; empty where the line is bad
  std::optional<std::string> custom_id;  // also of a bad line, where it could be read
  Shape shape = Shape::plain;
  Body body;                                       // the job, where there is no error
  std::vector<std::string> warnings;               // the result will carry them too
  bool other_batch = false, other_stream = false;  // named by the line, and not the options' own
  std::optional<Error> error;
};

ParsedLine parse_line(const InputLine& line, const LineOptions& options);

// The line of a job that the broker refused, in the form of a line that could not be parsed.
ParsedLine refused_line(std::uint64_t number, const Body& job, const Error& error);

}  // namespace millrace::client
