#pragma once
// The file of a prefix segment: the packed KV pages of a part of one path of tokens, or the state
// of recurrent layers after a path. A state is a segment of its own, because it may be as large as
// hundreds of pages: it is saved after the pages before it, and may be removed before them.
//
//   bytes            what (integers little-endian)
//   8                "MRKVSEG2"
//   32               fingerprint of the engine that computed the pages, padded with zeros
//   4, 4, 4          tokens of a page; pages of the path before the part; pages in the part, or 0:
//                    it is the state after the path
//   8, 8             bytes of a page, and of a state
//   4 * tokens       the ids of the whole path, from the first position to the part's end
//   8 * items        XXH3-64 of each page, or of the state
//   8                XXH3-64 of everything above
//   the pages, or the state
//
// The file holds the whole path, so that a reader compares it token by token with the path that it
// wants, and no file depends on another. A file is written under another name and then renamed, so
// only a power cut can truncate it, and the checksums show that.
// Errors: io_error, also for damage, with what is wrong; disk_full; not_found. Thread safety: pure
// functions.
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

inline constexpr std::string_view segment_format = "MRKVSEG2";
inline constexpr std::uint32_t most_fingerprint_bytes = 32;

// The properties that all pages and states of one engine share. A model without keys and values has
// pages of no bytes, which are in no file; one without recurrent layers has no states.
struct PageKind {
  std::string fingerprint;  // at most most_fingerprint_bytes
  std::uint32_t page_tokens = 0;
  std::uint64_t page_bytes = 0;
  std::uint64_t state_bytes = 0;
  friend bool operator==(const PageKind&, const PageKind&) = default;
};

struct Segment {
  PageKind kind;
  Tokens path;
  std::uint32_t first_page = 0;
  std::uint32_t pages = 0;  // 0: the segment holds the state after the path
  bool is_state() const { return pages == 0; }
  // What it holds: pages, or one state.
  std::uint32_t items() const { return is_state() ? 1 : pages; }
  std::uint64_t item_bytes() const { return is_state() ? kind.state_bytes : kind.page_bytes; }
};

std::uint64_t segment_file_bytes(const Segment& segment);

// The file's bytes before its items, which `items` holds.
std::string segment_header(const Segment& segment, std::span<const char> items);

// Where a file's bytes come from.
struct SegmentSource {
  std::string place;        // for messages
  std::uint64_t bytes = 0;  // of the file
  // As File::read_at.
  std::function<Result<std::size_t>(std::uint64_t offset, std::span<char> into)> read_at;
};

// Writes a segment; `bytes` holds its items. If it fails it leaves no file behind, unless the power
// is cut.
Status write_segment(Env& env, const std::string& file_path, const Segment& segment,
                     std::span<const char> bytes);

// Reads a file's header. Checks the file's length and everything except the items. A file of an
// older format has a segment of no kind.
struct SegmentFile {
  Segment segment;
  std::uint64_t bytes = 0;  // of the file
};
Result<SegmentFile> read_segment_header(const SegmentSource& source);
Result<SegmentFile> read_segment_header(Env& env, const std::string& file_path);

// Reads and checks items [skip, skip + into.size() / item bytes) of the segment. The file must hold
// `expected`.
Status read_segment_items(const SegmentSource& source, const Segment& expected, std::uint32_t skip,
                          std::span<char> into);
Status read_segment_items(Env& env, const std::string& file_path, const Segment& expected,
                          std::uint32_t skip, std::span<char> into);

}  // namespace millrace::engine
