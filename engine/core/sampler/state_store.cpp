#include "engine/core/sampler/state_store.hpp"

#include <algorithm>
#include <limits>
#include <string>

namespace millrace::engine {

Result<PlacedState> StateStore::place(const StateRequest& request) {
  const auto found = blocks_.find(request.slot);
  if (found != blocks_.end()) {
    Block& block = found->second;
    if (block.sequence == request.sequence && block.position == request.position) {
      ++block.position;
      return PlacedState{block.offset, true};
    }
    release(block);
    blocks_.erase(found);
  }
  const RowHistory& h = request.history;
  if (h.prompt.size() + h.output.size() != request.position) {
    return fail(Code::internal, "the tokens before position " + std::to_string(request.position) +
                                    " are not known where a row's state is built");
  }
  const RowState state = build_row_state(*request.edits, h, request.log);
  Block block;
  block.sequence = request.sequence;
  block.position = request.position + 1;
  block.kept = static_cast<std::uint32_t>(state.words.size());
  block.size = block.kept + state.scratch;
  MILLRACE_ASSIGN(block.offset, take(block.size));
  blocks_[request.slot] = block;
  MILLRACE_TRY(device_->write(buffer_, std::uint64_t{block.offset} * 4,
                              std::as_bytes(std::span(state.words))));
  return PlacedState{block.offset, false};
}

void StateStore::other_draw(std::uint32_t slot, std::uint64_t sequence) {
  const auto found = blocks_.find(slot);
  if (found == blocks_.end() || found->second.sequence == sequence) return;
  release(found->second);
  blocks_.erase(found);
}

Result<std::vector<std::uint32_t>> StateStore::read(std::uint32_t slot) const {
  std::vector<std::uint32_t> words;
  const auto found = blocks_.find(slot);
  if (found == blocks_.end()) return words;
  words.resize(found->second.kept);
  MILLRACE_TRY(device_->read(buffer_, std::uint64_t{found->second.offset} * 4,
                             std::as_writable_bytes(std::span(words))));
  return words;
}

Result<std::uint32_t> StateStore::take(std::uint32_t words) {
  const auto fits = [&](const auto& hole) { return hole.second >= words; };
  auto hole = std::find_if(free_.begin(), free_.end(), fits);
  if (hole == free_.end()) {
    MILLRACE_TRY(grow(words));
    hole = std::find_if(free_.begin(), free_.end(), fits);
  }
  const auto [offset, size] = *hole;
  free_.erase(hole);
  if (size > words) free_[offset + words] = size - words;
  return offset;
}

// Commands that are enqueued already use the old buffer; the copy comes after them.
Status StateStore::grow(std::uint32_t words) {
  const std::uint64_t wanted =
      std::max<std::uint64_t>(std::uint64_t{size_} * 2, std::uint64_t{size_} + words);
  if (wanted > std::numeric_limits<std::uint32_t>::max()) {
    return fail(Code::out_of_memory, "the states of rows with penalties exceed 16 GiB",
                "run with a smaller --max-batch");
  }
  MILLRACE_ASSIGN(Buffer larger, device_->allocate(wanted * 4, "states of rows with penalties"));
  if (size_ > 0) {
    MILLRACE_TRY(device_->copy(buffer_, 0, larger, 0, std::uint64_t{size_} * 4));
  }
  buffer_ = std::move(larger);
  const auto more = static_cast<std::uint32_t>(wanted) - size_;
  Block added;
  added.offset = size_;
  added.size = more;
  size_ += more;
  release(added);
  return {};
}

void StateStore::release(const Block& block) {
  auto at = free_.emplace(block.offset, block.size).first;
  const auto next = std::next(at);
  if (next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    free_.erase(next);
  }
  if (at == free_.begin()) return;
  const auto before = std::prev(at);
  if (before->first + before->second != at->first) return;
  before->second += at->second;
  free_.erase(at);
}

}  // namespace millrace::engine
