#include "engine/core/prefix/segment.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>

#include "schemas/base/hash.hpp"

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "numbers are stored in the host's order");

constexpr std::string_view magic = segment_format, older_magic = "MRKVSEG1";
constexpr std::uint64_t fixed_bytes = 8 + most_fingerprint_bytes + 3 * 4 + 2 * 8;
// Longer than any context. A file that claims a longer path is damaged, and nothing is allocated.
constexpr std::uint64_t most_path_tokens = 1u << 26;

std::uint64_t header_bytes(const Segment& s) {
  return fixed_bytes + 4 * std::uint64_t{s.first_page + s.pages} * s.kind.page_tokens +
         8 * std::uint64_t{s.items()} + 8;
}

template <class T>
void put(std::string& out, T value) {
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  out.append(bytes, sizeof value);
}

template <class T>
T take(std::string_view& bytes) {
  T value;
  bytes.copy(reinterpret_cast<char*>(&value), sizeof value);
  bytes.remove_prefix(sizeof value);
  return value;
}

std::string_view view(std::span<const char> bytes) {
  return {bytes.data(), bytes.size()};
}

std::unexpected<Error> damaged(const std::string& file_path, const char* what) {
  return fail(Code::io_error, file_path + ": " + what, "the segment is computed again");
}

Status read_whole(const SegmentSource& source, std::uint64_t offset, std::span<char> into) {
  MILLRACE_ASSIGN(const std::size_t size, source.read_at(offset, into));
  if (size != into.size()) return damaged(source.place, "the file ends early");
  return {};
}

Result<SegmentSource> source_of(File& file) {
  MILLRACE_ASSIGN(const std::uint64_t size, file.size());
  return SegmentSource{file.path(), size, [&file](std::uint64_t offset, std::span<char> into) {
                         return file.read_at(offset, into);
                       }};
}

// A segment with the checksums of its items.
struct Header {
  Segment segment;
  std::vector<std::uint64_t> sums;
  std::uint64_t file_bytes = 0;
};

Result<Header> read_header(const SegmentSource& source) {
  const std::uint64_t size = source.bytes;
  std::string bytes(fixed_bytes, '\0');
  MILLRACE_TRY(read_whole(source, 0, bytes));
  std::string_view rest = bytes;
  Header out;
  out.file_bytes = size;
  if (rest.starts_with(older_magic)) return out;
  if (!rest.starts_with(magic)) return damaged(source.place, "not a prefix segment");
  rest.remove_prefix(magic.size());
  Segment& s = out.segment;
  const std::string_view name = rest.substr(0, most_fingerprint_bytes);
  s.kind.fingerprint = name.substr(0, name.find('\0'));
  rest.remove_prefix(most_fingerprint_bytes);
  s.kind.page_tokens = take<std::uint32_t>(rest);
  s.first_page = take<std::uint32_t>(rest);
  s.pages = take<std::uint32_t>(rest);
  s.kind.page_bytes = take<std::uint64_t>(rest);
  s.kind.state_bytes = take<std::uint64_t>(rest);
  const std::uint64_t pages = std::uint64_t{s.first_page} + s.pages;
  if (s.item_bytes() == 0 || s.kind.page_tokens == 0 || pages == 0 ||
      pages > most_path_tokens / s.kind.page_tokens || s.item_bytes() > size ||
      segment_file_bytes(s) != size) {
    return damaged(source.place, "its length is not what its header says");
  }
  bytes.resize(header_bytes(s));
  MILLRACE_TRY(read_whole(source, fixed_bytes, std::span(bytes).subspan(fixed_bytes)));
  const std::string_view summed = std::string_view(bytes).substr(0, bytes.size() - 8);
  rest = std::string_view(bytes).substr(fixed_bytes);
  s.path.resize(pages * s.kind.page_tokens);
  for (TokenId& id : s.path) id = take<std::uint32_t>(rest);
  out.sums.resize(s.items());
  for (std::uint64_t& sum : out.sums) sum = take<std::uint64_t>(rest);
  if (take<std::uint64_t>(rest) != hash64(summed)) {
    return damaged(source.place, "the checksum of its header is wrong");
  }
  return out;
}

Status write_whole(Env& env, const std::string& file_path, std::string_view header,
                   std::string_view items) {
  MILLRACE_ASSIGN(const std::unique_ptr<File> file, env.open(file_path, OpenMode::replace));
  MILLRACE_TRY(file->append(header));
  return file->append(items);
}

}  // namespace

std::uint64_t segment_file_bytes(const Segment& s) {
  return header_bytes(s) + s.items() * s.item_bytes();
}

std::string segment_header(const Segment& s, std::span<const char> bytes) {
  std::string header(magic);
  header += s.kind.fingerprint;
  header.resize(magic.size() + most_fingerprint_bytes, '\0');
  put(header, s.kind.page_tokens);
  put(header, s.first_page);
  put(header, s.pages);
  put(header, s.kind.page_bytes);
  put(header, s.kind.state_bytes);
  for (const TokenId id : s.path) put(header, id);
  for (std::uint32_t i = 0; i < s.items(); ++i) {
    put(header, hash64(view(bytes.subspan(i * s.item_bytes(), s.item_bytes()))));
  }
  put(header, hash64(header));
  return header;
}

Status write_segment(Env& env, const std::string& file_path, const Segment& s,
                     std::span<const char> bytes) {
  const std::string header = segment_header(s, bytes);
  const std::string unfinished = file_path + ".part";
  Status written = write_whole(env, unfinished, header, view(bytes));
  if (written) written = env.rename(unfinished, file_path);
  if (!written) static_cast<void>(env.remove(unfinished));
  return written;
}

Result<SegmentFile> read_segment_header(const SegmentSource& source) {
  MILLRACE_ASSIGN(Header header, read_header(source));
  return SegmentFile{std::move(header.segment), header.file_bytes};
}

Result<SegmentFile> read_segment_header(Env& env, const std::string& file_path) {
  MILLRACE_ASSIGN(const std::unique_ptr<File> file, env.open(file_path, OpenMode::read));
  MILLRACE_ASSIGN(const SegmentSource source, source_of(*file));
  return read_segment_header(source);
}

Status read_segment_items(const SegmentSource& source, const Segment& expected, std::uint32_t skip,
                          std::span<char> into) {
  MILLRACE_ASSIGN(const Header header, read_header(source));
  const Segment& s = header.segment;
  if (s.kind != expected.kind || s.path != expected.path || s.first_page != expected.first_page) {
    return damaged(source.place, "it holds another path or another model's pages");
  }
  const std::uint64_t item = s.item_bytes();
  MILLRACE_TRY(read_whole(source, header_bytes(s) + skip * item, into));
  for (std::uint64_t i = 0; i < into.size() / item; ++i) {
    if (hash64(view(into.subspan(i * item, item))) != header.sums[skip + i]) {
      return damaged(source.place, s.is_state() ? "the checksum of the state is wrong"
                                                : "the checksum of a page is wrong");
    }
  }
  return {};
}

Status read_segment_items(Env& env, const std::string& file_path, const Segment& expected,
                          std::uint32_t skip, std::span<char> into) {
  MILLRACE_ASSIGN(const std::unique_ptr<File> file, env.open(file_path, OpenMode::read));
  MILLRACE_ASSIGN(const SegmentSource source, source_of(*file));
  return read_segment_items(source, expected, skip, into);
}

}  // namespace millrace::engine
