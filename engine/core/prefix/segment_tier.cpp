#include "engine/core/prefix/segment_tier.hpp"

#include <utility>

#include "schemas/base/number_text.hpp"

namespace millrace::engine {
namespace {

// The files of a path of so many pages, from page `saved` on in one segment, and of its state.
std::uint64_t files_bytes(const PageKind& kind, std::uint32_t saved, std::uint32_t pages) {
  const bool lacks_pages = kind.page_bytes > 0 && pages > saved;
  const std::uint64_t of_pages =
      lacks_pages ? segment_file_bytes({kind, {}, saved, pages - saved}) : 0;
  return of_pages + (kind.state_bytes > 0 ? segment_file_bytes({kind, {}, pages, 0}) : 0);
}

}  // namespace

Status SegmentTier::check_limit(const PageKind& kind, std::uint64_t most_bytes) {
  const std::uint64_t least = files_bytes(kind, 0, 1);
  if (most_bytes >= least) return {};
  const std::string what = kind.state_bytes > 0
                               ? " holds no segment: a single page and the state after it have "
                               : " holds no segment: one of a single page has ";
  return fail(Code::invalid_value,
              "--prefix-disk of " + size_text(most_bytes) + what + size_text(least),
              "give more, such as 8GiB, or use no folder: --prefix-cache memory");
}

SegmentTier::Place SegmentTier::reserve(Tokens path, std::uint32_t first_page) {
  const auto pages = static_cast<std::uint32_t>(path.size() / kind_.page_tokens);
  return reserve(Segment{kind_, std::move(path), first_page, pages - first_page});
}

SegmentTier::Place SegmentTier::reserve_state(Tokens path) {
  const auto pages = static_cast<std::uint32_t>(path.size() / kind_.page_tokens);
  return reserve(Segment{kind_, std::move(path), pages, 0});
}

bool SegmentTier::holds(std::span<const TokenId> path, std::uint32_t saved) const {
  const auto pages = static_cast<std::uint32_t>(path.size() / kind_.page_tokens);
  return index_.bytes_of(index_.holders(path, saved)) + files_bytes(kind_, saved, pages) <=
         most_bytes_;
}

SegmentTier::Place SegmentTier::reserve(const Segment& segment) {
  const std::uint64_t bytes = segment_file_bytes(segment);
  const std::set<SegmentIndex::Number> beginning = index_.holders(segment.path, segment.first_page);
  if (index_.bytes_of(beginning) + bytes > most_bytes_) return {};
  if (!make_room(bytes, beginning)) return {.later = true};
  return {.number = enter(segment)};
}

}  // namespace millrace::engine
