#include "schemas/job_stops.hpp"

#include "schemas/names.hpp"

namespace millrace {
namespace {

using wire::next;
using wire::Path;
using wire::peek;
using wire::Reader;
using wire::Token;
using wire::Type;

// A map of known keys; `read` reads the value of one of them, or returns false.
template <class Read>
Status read_keys(Reader& in, const Path& path, std::vector<std::string>& unknown, Read read) {
  const Token map = next(in);
  if (map.type != Type::map) return wire::wrong_type(path, "a map", map);
  for (std::uint32_t i = 0; i < map.count; ++i) {
    const Path here{&path, next(in).bytes};
    if (wire::take_nil(in)) continue;
    MILLRACE_ASSIGN(const bool known, read(here));
    if (known) continue;
    wire::skip(in);
    unknown.push_back(wire::shown(here.text()));
  }
  return {};
}

Status read_part(Reader& in, const Path& path, MarkedPart& out) {
  std::string word;
  MILLRACE_TRY(wire::read(in, path, word));
  const auto part = wire::from_name<MarkedPart>(word);
  if (!part) {
    return wire::wrong_value(path, "unknown value " + wire::shown(word),
                             "use reasoning or tool_call");
  }
  out = *part;
  return {};
}

Status read_marker(Reader& in, const Path& path, Marker& out, std::vector<std::string>& unknown) {
  bool part = false, open = false;
  const auto read = [&](const Path& here) -> Result<bool> {
    if (here.name == "part") {
      MILLRACE_TRY(read_part(in, here, out.part));
      part = true;
    } else if (here.name == "open") {
      MILLRACE_TRY(wire::read(in, here, out.open));
      open = true;
    } else if (here.name == "close") {
      MILLRACE_TRY(wire::read(in, here, out.close));
    } else {
      return false;
    }
    return true;
  };
  MILLRACE_TRY(read_keys(in, path, unknown, read));
  const char* hint = "a marker is {part, open, close}; close may be left out";
  if (!part) return fail(Code::missing_field, path.text() + ".part is absent", hint);
  if (!open) return fail(Code::missing_field, path.text() + ".open is absent", hint);
  return {};
}

}  // namespace

Status read_markers(Reader& in, const Path& path, MarkerRequest& out,
                    std::vector<std::string>& unknown) {
  const Token token = peek(in);
  if (token.type == Type::string) {
    const std::string_view word = next(in).bytes;
    if (word != "auto" && word != "none") {
      return wire::wrong_value(path, "unknown value " + wire::shown(word),
                               "use none, auto, or an array of {part, open, close}");
    }
    out.known = word == "auto";
    return {};
  }
  if (token.type != Type::array) {
    return wire::wrong_type(path, "none, auto or an array of markers", token);
  }
  next(in);
  if (token.count > limits::markers) {
    return fail(Code::limit_exceeded, path.text() + " has " + std::to_string(token.count) +
                                          " markers, the limit is " +
                                          std::to_string(limits::markers));
  }
  for (std::uint32_t i = 0; i < token.count; ++i) {
    MILLRACE_TRY(read_marker(in, Path{&path, {}, i}, out.list.emplace_back(), unknown));
  }
  return {};
}

Status read_repetition_detection(Reader& in, const Path& path, RepetitionDetection& out,
                                 std::vector<std::string>& unknown) {
  bool longest = false;
  const auto read = [&](const Path& here) -> Result<bool> {
    if (here.name == "max_pattern_size") {
      MILLRACE_TRY(wire::read(in, here, out.max_pattern_size));
      longest = true;
    } else if (here.name == "min_pattern_size") {
      MILLRACE_TRY(wire::read(in, here, out.min_pattern_size));
    } else if (here.name == "min_count") {
      MILLRACE_TRY(wire::read(in, here, out.min_count));
    } else {
      return false;
    }
    return true;
  };
  MILLRACE_TRY(read_keys(in, path, unknown, read));
  const char* hint = "give a number from 1 to 1024, or leave repetition_detection out";
  static_assert(limits::repetition_pattern == 1024);
  if (!longest) {
    return fail(Code::missing_field, path.text() + ".max_pattern_size is absent", hint);
  }
  // Off is said by leaving it out; beside other values a 0 could only be a mistake.
  if (out.max_pattern_size == 0) {
    return fail(Code::invalid_value, path.text() + ".max_pattern_size is 0", hint);
  }
  return {};
}

}  // namespace millrace
