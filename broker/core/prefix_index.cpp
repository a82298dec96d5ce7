#include "broker/core/prefix_index.hpp"

namespace millrace::broker {

void PrefixIndex::add(std::uint64_t prefix) {
  if (++engines_[prefix] == 1) all_.reset();
}

void PrefixIndex::remove(std::uint64_t prefix) {
  const auto found = engines_.find(prefix);
  if (found == engines_.end() || --found->second > 0) return;
  engines_.erase(found);
  all_.reset();
}

std::shared_ptr<const std::vector<std::uint64_t>> PrefixIndex::all() {
  if (all_ == nullptr) {
    auto list = std::make_shared<std::vector<std::uint64_t>>();
    list->reserve(engines_.size());
    for (const auto& [prefix, engines] : engines_) list->push_back(prefix);
    all_ = std::move(list);
  }
  return all_;
}

}  // namespace millrace::broker
