#pragma once
// The body of a form (multipart/form-data, RFC 7578 and RFC 2046), taken apart while it arrives in
// pieces of any size. Each part's content goes on as it comes, and nothing of it is kept.
//
//   MILLRACE_ASSIGN(auto form, Multipart::of(request.header("Content-Type")));
//   MILLRACE_TRY(form.read(bytes, reader));  // for each piece of the body
//   MILLRACE_TRY(form.end());
//
// Bytes held: the delimiter (up to 74), the headers of one part (up to 16 KiB) and the names in
// them, whatever the form has; while the headers are read, up to three times their bytes. Copies of
// a byte: none of a content, whose pieces are views of what read() was given, or of the delimiter
// where a piece ended in what could have been one; three of a header, and one more of a name. A
// content is searched for CR alone, so that each of its bytes is looked at once, and those behind a
// CR once more as far as they are the delimiter's. A piece of the body gives at most one piece of
// content more than there are contents in it.
//
// The reader gets one piece with offset 0 of each part, which is empty only if the part is.
// What stands before the first delimiter and behind the last one is skipped.
// Errors, after which no more may be read: invalid_value (malformed or cut short; the message says
// at which byte of the body), limit_exceeded (a part's headers), and the reader's.
// Thread safety: one thread at a time.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "http/routes.hpp"
#include "schemas/base/error.hpp"

namespace millrace::http {

class Multipart {
 public:
  static constexpr std::size_t boundary_bytes = 70;       // at most, as RFC 2046 has it
  static constexpr std::size_t header_bytes = 16 * 1024;  // of one part, at most

  // A reader for a body with this Content-Type.
  static Result<Multipart> of(std::string_view content_type);

  Status read(std::string_view bytes, FormReader& to);
  // The body has ended. An error if the form has not.
  Status end() const;

 private:
  enum class State : std::uint8_t {
    preamble,   // before the first delimiter
    delimiter,  // behind it, in its line
    headers,    // of a part
    content,    // of a part
    closed,     // behind the last delimiter, in its line
    epilogue    // in the lines that follow
  };
  explicit Multipart(std::string_view boundary);

  // Each reads as much as belongs to the state, and returns how many bytes that was.
  Result<std::size_t> read_content(std::string_view bytes, FormReader& to);
  Result<std::size_t> read_delimiter_line(std::string_view bytes);
  Result<std::size_t> read_headers(std::string_view bytes);
  Result<std::size_t> read_closing_line(std::string_view bytes);

  std::size_t match(std::string_view bytes);
  Status give(std::string_view bytes, FormReader& to);
  Status end_content(FormReader& to);
  Status begin_content();
  Status take_header(std::string_view line);
  Status take_disposition(std::string_view value);
  std::string where(std::uint64_t at) const;
  std::unexpected<Error> wrong(std::uint64_t at, std::string_view what,
                               std::string_view hint) const;

  std::string delimiter_;    // CR LF, `--` and the boundary
  std::size_t matched_ = 2;  // bytes of the delimiter that came last
  std::size_t unsent_ = 2;   // of them those that are not the content's: CR LF of the line before
  State state_ = State::preamble;
  char last_ = 0;          // of the delimiter's line
  std::string headers_;    // of the part, as far as they have come
  bool disposed_ = false;  // its Content-Disposition was read
  std::string name_, filename_;
  std::uint64_t offset_ = 0;      // of the next byte of the content
  std::uint64_t position_ = 0;    // of the next byte of the body
  std::uint64_t parts_ = 0;       // that have begun
  std::uint64_t headers_at_ = 0;  // where those of the part begin
};

}  // namespace millrace::http
