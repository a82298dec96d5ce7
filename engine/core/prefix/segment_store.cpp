#include "engine/core/prefix/segment_store.hpp"

#include <algorithm>

#include "schemas/base/hash.hpp"

namespace millrace::engine {
namespace {

constexpr std::string_view segment_suffix = ".kv";
constexpr std::size_t hash_digits = 32, page_digits = 8;
constexpr std::size_t name_bytes = 2 * hash_digits + page_digits + 2 + segment_suffix.size();

std::string_view bytes_of(const auto& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof values[0]};
}

// The page in a segment's name, also in one of a file that is being written.
std::string_view page_of(std::string_view name) {
  return name.size() < name_bytes ? std::string_view()
                                  : name.substr(2 * hash_digits + 2, page_digits);
}

}  // namespace

std::string kind_name(const PageKind& kind) {
  std::string text(segment_format);
  for (const std::uint64_t part :
       {std::uint64_t{kind.page_tokens}, kind.page_bytes, kind.state_bytes}) {
    text += " " + std::to_string(part);
  }
  return hash128(text + " " + kind.fingerprint).hex();
}

std::string segment_name(const Segment& segment) {
  Hasher128 path;
  path.update(bytes_of(segment.path));
  const std::uint32_t pages[] = {segment.first_page, segment.pages};
  path.update(bytes_of(std::span(pages)));
  return kind_name(segment.kind) + "-" + path.digest().hex() + "-" +
         hex(std::uint64_t{segment.first_page}).substr(16 - page_digits) +
         std::string(segment_suffix);
}

bool is_segment_name(std::string_view name) {
  if (name.size() != name_bytes || !name.ends_with(segment_suffix)) return false;
  if (name[hash_digits] != '-' || name[2 * hash_digits + 1] != '-') return false;
  return std::ranges::all_of(name.substr(0, name_bytes - segment_suffix.size()), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || c == '-';
  });
}

bool goes_before(const StoredFile& a, const StoredFile& b) {
  if (a.used_s != b.used_s) return a.used_s < b.used_s;
  if (is_segment_name(a.name) != is_segment_name(b.name)) return is_segment_name(a.name);
  if (page_of(a.name) != page_of(b.name)) return page_of(a.name) > page_of(b.name);
  return a.name < b.name;
}

}  // namespace millrace::engine
