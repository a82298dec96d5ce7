#pragma once
// The file of a prefix segment: the packed KV pages of a stretch of one path of tokens.
//
//   bytes            what (integers little-endian)
//   8                "MRKVSEG1"
//   32               fingerprint of what computed the pages, filled with zeros
//   4, 4, 4          tokens of a page; pages before the stretch; pages in it
//   8                bytes of a page
//   4 * tokens       the ids of the whole path, from the first position to the stretch's end
//   8 * pages        XXH3-64 of each page
//   8                XXH3-64 of everything above
//   page bytes * pages
//
// The whole path stands in the file, so that what is read is compared token by token with what was
// asked for, and no file depends on another. A file is written under another name and renamed: one
// that breaks off can only be the work of a power cut, and its checksums tell.
// Errors: io_error, also for what is damaged, with what is wrong; disk_full; not_found. Thread
// safety: pure functions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t most_fingerprint_bytes = 32;

// What all pages of a folder's owner have in common.
struct PageKind {
  std::string fingerprint;  // at most most_fingerprint_bytes
  std::uint32_t page_tokens = 0;
  std::uint64_t page_bytes = 0;
  friend bool operator==(const PageKind&, const PageKind&) = default;
};

struct Segment {
  PageKind kind;
  Tokens path;
  std::uint32_t first_page = 0;
  std::uint32_t pages = 0;
};

std::uint64_t segment_file_bytes(const Segment& segment);

// `bytes` holds segment.pages pages. Where it fails nothing stays behind, but by a cut of power.
Status write_segment(Env& env, const std::string& file_path, const Segment& segment,
                     std::span<const char> bytes);

// What the file says that it holds; its length and everything but the pages is checked.
Result<Segment> read_segment_header(Env& env, const std::string& file_path);

// Pages [skip, skip + into.size() / page bytes) of the stretch, all checked, of a file that must
// hold `expected`.
Status read_segment_pages(Env& env, const std::string& file_path, const Segment& expected,
                          std::uint32_t skip, std::span<char> into);

}  // namespace millrace::engine
