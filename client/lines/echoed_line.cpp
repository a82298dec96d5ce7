#include "client/lines/echoed_line.hpp"

#include <charconv>
#include <span>
#include <string_view>
#include <utility>

#include "schemas/openai/notes.hpp"
#include "schemas/openai/request_json.hpp"

namespace millrace::client {
namespace {

using openai::json;

constexpr char between = '+';

struct LinePlace {
  std::uint64_t offset = 0, bytes = 0;
};

std::optional<LinePlace> read_note(std::string_view note) {
  LinePlace place;
  const char* const end = note.data() + note.size();
  const auto [middle, wrong_offset] =
      std::from_chars(note.data(), note.data() + note.size(), place.offset);
  if (wrong_offset != std::errc() || middle == end || *middle != between) return std::nullopt;
  const auto [rest, wrong_bytes] = std::from_chars(middle + 1, end, place.bytes);
  if (wrong_bytes != std::errc() || rest != end) return std::nullopt;
  return place.bytes <= limits::line_bytes ? std::optional(place) : std::nullopt;
}

}  // namespace

std::string place_note(const InputLine& line) {
  return std::to_string(line.offset) + between + std::to_string(line.bytes);
}

Result<std::optional<openai::Request>> echoed_request(File& input, const JobResult& result) {
  const auto note = result.metadata.find(std::string(openai::echo_key));
  if (note == result.metadata.end()) return std::nullopt;
  const auto place = read_note(note->second);
  if (!place) return std::nullopt;
  std::string text(place->bytes, '\0');
  MILLRACE_ASSIGN(const std::size_t got, input.read_at(place->offset, std::span(text)));
  if (got != text.size()) return std::nullopt;
  const json line = json::parse(text, nullptr, false);
  const auto body = line.is_object() ? line.find("body") : line.end();
  if (body == line.end() || !body->is_object()) return std::nullopt;
  auto request = openai::parse_request(openai::Endpoint::completion, body->dump(), {});
  if (!request || !request->form.echo || request->jobs.size() != 1) return std::nullopt;
  return std::optional(*std::move(request));
}

}  // namespace millrace::client
