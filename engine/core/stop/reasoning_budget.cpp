#include "engine/core/stop/reasoning_budget.hpp"

#include <utility>

namespace millrace::engine {

ReasoningBudget::ReasoningBudget(const ReasoningLimit& limit,
                                 std::shared_ptr<const PartRules> rules)
    : limit_(&limit), parts_(std::move(rules)) {
  decide();
}

void ReasoningBudget::decide() {
  if (!parts_.in_reasoning() || count_ < limit_->tokens) return;
  const std::int32_t marker = parts_.inside();
  closing_ =
      marker < 0 ? &limit_->message_closing : &limit_->closings[static_cast<std::size_t>(marker)];
  next_ = 0;
}

void ReasoningBudget::push(std::string_view piece) {
  const bool reasoned = parts_.in_reasoning();
  parts_.push(piece);
  if (closing_ != nullptr && ++next_ < closing_->size()) return;
  const bool closed = std::exchange(closing_, nullptr) != nullptr;
  if (!closed && reasoned && parts_.in_reasoning()) ++count_;
  decide();
}

std::optional<TokenId> ReasoningBudget::forced() const {
  if (closing_ == nullptr) return std::nullopt;
  return (*closing_)[next_];
}

}  // namespace millrace::engine
