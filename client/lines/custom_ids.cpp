#include "client/lines/custom_ids.hpp"

#include <utility>

#include "schemas/base/hash.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t first_slots = 1024;

}  // namespace

std::optional<std::uint64_t> CustomIds::add(std::string_view custom_id, std::uint64_t line) {
  if (used_ * 3 >= slots_.size() * 2) {
    grow();
  }
  const std::uint64_t hash = hash64(custom_id);
  std::size_t at = hash & (slots_.size() - 1);
  while (slots_[at].line != 0) {
    if (slots_[at].hash == hash) {
      return slots_[at].line == line ? std::nullopt : std::optional(slots_[at].line);
    }
    at = (at + 1) & (slots_.size() - 1);
  }
  slots_[at] = {hash, line};
  ++used_;
  return std::nullopt;
}

void CustomIds::grow() {
  const std::vector<Slot> old =
      std::exchange(slots_, std::vector<Slot>(slots_.empty() ? first_slots : slots_.size() * 2));
  for (const Slot& slot : old) {
    if (slot.line == 0) {
      continue;
    }
    std::size_t at = slot.hash & (slots_.size() - 1);
    while (slots_[at].line != 0) {
      at = (at + 1) & (slots_.size() - 1);
    }
    slots_[at] = slot;
  }
}

}  // namespace millrace::client
