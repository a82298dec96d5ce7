#include "engine/core/template/scopes.hpp"

namespace millrace::chat_template {

namespace {
constexpr std::size_t binding_bytes = 2 * sizeof(Value);
}

void Scopes::close() {
  for (; log_.size() > frames_.back(); log_.pop_back()) {
    log_.back()->pop_back();
    context_.release(binding_bytes);
  }
  frames_.pop_back();
}

Status Scopes::put(Position at, std::string_view name, const Value& value) {
  Bindings& bindings = names_[name];
  const std::size_t frame = frames_.size();
  if (!bindings.empty() && bindings.back().frame == frame) {
    bindings.back().value = value;
    return {};
  }
  MILLRACE_TRY(context_.hold(at, binding_bytes));
  bindings.push_back({frame, value});
  log_.push_back(&bindings);
  return {};
}

const Value* Scopes::find(std::string_view name) const {
  const auto found = names_.find(name);
  if (found == names_.end() || found->second.empty()) return nullptr;
  const Binding& innermost = found->second.back();
  if (innermost.frame >= visible_from_) return &innermost.value;
  const Binding& outermost = found->second.front();
  return outermost.frame == 0 ? &outermost.value : nullptr;
}

}  // namespace millrace::chat_template
