#include "http/multipart.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "http/header_parameters.hpp"
#include "http/request.hpp"

namespace millrace::http {
namespace {

constexpr std::string_view form_type = "multipart/form-data";
constexpr std::string_view line_end = "\r\n", header_end = "\r\n\r\n";
constexpr std::string_view line_hint = "end each line of the form's headers with CR LF";

bool is_blank(char letter) {
  return letter == ' ' || letter == '\t';
}

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

// RFC 2046 allows fewer characters; clients write others, and none of these can be misread.
bool may_be_boundary(std::string_view boundary) {
  return !boundary.empty() && boundary.size() <= Multipart::boundary_bytes &&
         !boundary.ends_with(' ') &&
         std::ranges::all_of(boundary, [](char letter) { return letter >= ' ' && letter <= '~'; });
}

// The content is what it is: nobody decodes it.
Status check_encoding(std::string_view value) {
  constexpr std::array<std::string_view, 3> plain = {"7bit", "8bit", "binary"};
  for (const std::string_view name : plain) {
    if (same_name(value, name)) return {};
  }
  return fail(Code::invalid_value, "its Content-Transfer-Encoding is none of 7bit, 8bit and binary",
              "send the bytes as they are, without that header");
}

}  // namespace

Result<Multipart> Multipart::of(std::string_view content_type) {
  const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
  if (!same_name(type, form_type)) {
    return fail(Code::invalid_value, "the body is no form", "send it as multipart/form-data");
  }
  auto header = parse_header_value(content_type);
  if (!header) {
    header.error().message = "the header Content-Type cannot be read: " + header.error().message;
    return fail(std::move(header).error());
  }
  const std::string* const boundary = header->find("boundary");
  if (boundary == nullptr) {
    return fail(Code::invalid_value, "the header Content-Type names no boundary",
                "send multipart/form-data; boundary=BOUNDARY");
  }
  if (!may_be_boundary(*boundary)) {
    return fail(Code::invalid_value,
                "the boundary in the header Content-Type is empty, longer than " +
                    std::to_string(boundary_bytes) +
                    " characters, ends with a blank, or has others than ASCII's",
                "choose another");
  }
  return Multipart(*boundary);
}

// The body begins as if a line had just ended.
Multipart::Multipart(std::string_view boundary) : delimiter_("\r\n--") {
  delimiter_ += boundary;
}

std::string Multipart::where(std::uint64_t at) const {
  std::string text = "byte " + std::to_string(at);
  if (parts_ > 0) text += ", in part " + std::to_string(parts_);
  return text;
}

std::unexpected<Error> Multipart::wrong(std::uint64_t at, std::string_view what,
                                        std::string_view hint) const {
  return fail(Code::invalid_value,
              "the form is malformed at " + where(at) + ": " + std::string(what),
              std::string(hint));
}

Status Multipart::read(std::string_view bytes, FormReader& to) {
  while (!bytes.empty() && state_ != State::epilogue) {
    Result<std::size_t> got = bytes.size();
    if (state_ == State::preamble || state_ == State::content) {
      got = read_content(bytes, to);
    } else if (state_ == State::delimiter) {
      got = read_delimiter_line(bytes);
    } else if (state_ == State::headers) {
      got = read_headers(bytes);
    } else {
      got = read_closing_line(bytes);
    }
    if (!got) return fail(std::move(got).error());
    bytes.remove_prefix(*got);
    position_ += *got;
  }
  return {};
}

Status Multipart::end() const {
  if (state_ == State::closed || state_ == State::epilogue) return {};
  const std::string boundary = delimiter_.substr(line_end.size());
  if (state_ == State::preamble) {
    return fail(Code::invalid_value,
                "the body has " + std::to_string(position_) +
                    " bytes, and no line that begins with " + boundary +
                    ", the boundary of its Content-Type",
                "send a form with that boundary, whose lines end with CR LF");
  }
  return fail(Code::invalid_value, "the form is cut short at " + where(position_),
              "end it with a line " + boundary + "--");
}

// Compares with the delimiter where the last match has ended; returns how many bytes fit.
std::size_t Multipart::match(std::string_view bytes) {
  const std::string_view rest = std::string_view(delimiter_).substr(matched_);
  const auto end = std::ranges::mismatch(bytes, rest).in1;
  const auto fits = static_cast<std::size_t>(end - bytes.begin());
  matched_ += fits;
  return fits;
}

// A boundary has no CR, so that a match which fails can begin anew only at the byte that fails.
Result<std::size_t> Multipart::read_content(std::string_view bytes, FormReader& to) {
  std::size_t carried = matched_;  // of a match that began before these bytes
  std::size_t at = 0, begin = 0;   // of the match
  while (true) {
    if (matched_ == 0) begin = at = std::min(bytes.find('\r', at), bytes.size());
    at += match(bytes.substr(at));
    const bool whole = matched_ == delimiter_.size();
    if (whole || at == bytes.size()) {
      MILLRACE_TRY(give(bytes.substr(0, begin), to));
      if (whole) MILLRACE_TRY(end_content(to));
      return at;
    }
    if (carried > unsent_) {
      MILLRACE_TRY(give(std::string_view(delimiter_).substr(unsent_, carried - unsent_), to));
    }
    carried = matched_ = unsent_ = 0;
  }
}

Status Multipart::give(std::string_view bytes, FormReader& to) {
  if (state_ == State::preamble || bytes.empty()) return {};
  MILLRACE_TRY(to.take({.name = name_, .filename = filename_, .offset = offset_, .bytes = bytes}));
  offset_ += bytes.size();
  return {};
}

Status Multipart::end_content(FormReader& to) {
  if (state_ == State::content && offset_ == 0) {
    MILLRACE_TRY(to.take({.name = name_, .filename = filename_, .offset = 0, .bytes = {}}));
  }
  state_ = State::delimiter;
  last_ = 0;
  return {};
}

Result<std::size_t> Multipart::read_delimiter_line(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char before = std::exchange(last_, bytes[i]);
    const bool open = before == 0 || is_blank(before);
    if (before == '-' && last_ == '-') {
      state_ = State::closed;
      last_ = 0;
      return i + 1;
    }
    if (before == '\r' && last_ == '\n') {
      state_ = State::headers;
      headers_.clear();
      name_.clear();
      filename_.clear();
      disposed_ = false;
      ++parts_;
      headers_at_ = position_ + i + 1;
      return i + 1;
    }
    if (open && (is_blank(last_) || last_ == '\r')) continue;
    if (before == 0 && last_ == '-') continue;
    return wrong(position_ + i, "the line of a delimiter goes on behind it",
                 "end it with CR LF, and choose a boundary that no content has");
  }
  return bytes.size();
}

// What follows the last delimiter in its line is checked, so that a line of a content which merely
// begins like it does not cut a file short in silence.
Result<std::size_t> Multipart::read_closing_line(std::string_view bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (is_blank(bytes[i])) continue;
    if (bytes[i] != '\r' && bytes[i] != '\n') {
      return wrong(position_ + i, "the line of the last delimiter goes on behind it",
                   "end the form there, and choose a boundary that no content has");
    }
    state_ = State::epilogue;
    return i + 1;
  }
  return bytes.size();
}

Result<std::size_t> Multipart::read_headers(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    const std::size_t feed = bytes.find('\n', at);
    const std::size_t end = feed == bytes.npos ? bytes.size() : feed + 1;
    if (headers_.size() + (end - at) > header_bytes) {
      return fail(Code::limit_exceeded,
                  "the form's headers at " + where(headers_at_) + " have more than the " +
                      std::to_string(header_bytes) + " bytes that a part's may have",
                  "send shorter ones, and an empty line behind them");
    }
    headers_ += bytes.substr(at, end - at);
    if (feed == bytes.npos) return bytes.size();
    if (!headers_.ends_with(line_end)) {
      return wrong(position_ + feed, "a line ends with LF alone", line_hint);
    }
    at = end;
    if (headers_ == line_end || headers_.ends_with(header_end)) {
      MILLRACE_TRY(begin_content());
      return at;
    }
  }
  return at;
}

// Reads the headers, of which a line that begins with a blank goes on with the one before.
Status Multipart::begin_content() {
  std::string_view rest = headers_;
  std::string line;
  while (!rest.empty()) {
    const std::size_t end = rest.find(line_end);
    const std::string_view next = rest.substr(0, end);
    rest.remove_prefix(end + line_end.size());
    if (!line.empty() && !next.empty() && is_blank(next.front())) {
      line += next;
      continue;
    }
    if (!line.empty()) MILLRACE_TRY(take_header(line));
    line = next;
  }
  if (!disposed_) {
    return wrong(headers_at_, "the part has no header Content-Disposition",
                 "send Content-Disposition: form-data; name=\"NAME\"");
  }
  state_ = State::content;
  offset_ = 0;
  matched_ = unsent_ = line_end.size();  // the empty line may be the one before the delimiter
  return {};
}

Status Multipart::take_header(std::string_view line) {
  const std::size_t colon = line.find(':');
  constexpr std::string_view unfit("\r\0", 2);
  if (colon == line.npos || colon == 0 || is_blank(line.front()) ||
      line.find_first_of(unfit) != line.npos) {
    return wrong(headers_at_, "a line of the part's headers is no NAME: VALUE", line_hint);
  }
  const std::string_view name = trimmed(line.substr(0, colon));
  const std::string_view value = trimmed(line.substr(colon + 1));
  Status taken;
  if (same_name(name, "Content-Disposition")) taken = take_disposition(value);
  if (same_name(name, "Content-Transfer-Encoding")) taken = check_encoding(value);
  if (!taken) return wrong(headers_at_, taken.error().message, taken.error().hint);
  return {};
}

Status Multipart::take_disposition(std::string_view value) {
  if (std::exchange(disposed_, true)) {
    return fail(Code::invalid_value, "Content-Disposition comes twice", "send one");
  }
  auto header = parse_header_value(value);
  if (!header) {
    header.error().message = "Content-Disposition cannot be read: " + header.error().message;
    return fail(std::move(header).error());
  }
  const std::string* const name = header->find("name");
  if (header->value != "form-data" || name == nullptr) {
    return fail(Code::invalid_value, "Content-Disposition is no form-data with a name",
                "send Content-Disposition: form-data; name=\"NAME\"");
  }
  name_ = *name;
  if (const std::string* const filename = header->find("filename")) filename_ = *filename;
  if (const std::string* const extended = header->find("filename*")) {
    auto decoded = decode_extended_value(*extended);
    if (!decoded) {
      decoded.error().message = "filename* cannot be read: " + decoded.error().message;
      return fail(std::move(decoded).error());
    }
    filename_ = *std::move(decoded);
  }
  return {};
}

}  // namespace millrace::http
