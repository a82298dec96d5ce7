#include "engine/core/dump.hpp"

#include "engine/core/stop/reasoning_budget.hpp"
#include "engine/core/stop/stop_machine.hpp"

namespace millrace::engine {

void LoopDetector::dump(std::ostream& out) const {
  out << " loop " << count_;
  dump_list(out, "last", last_);
  dump_list(out, "equal", equal_);
}

void TextStop::dump(std::ostream& out) const {
  out << " strings " << state_ << " text \"" << text_ << "\" held \"" << held_ << '"';
}

void TextParts::dump(std::ostream& out) const {
  out << " parts inside " << inside_ << " message " << (message_ ? static_cast<int>(*message_) : -1)
      << " at " << state_ << " held \"" << held_ << "\" header \"" << prompt_header_ << '|'
      << header_ << "\" from " << header_begin_ << " of " << taken_ << " answer \"" << text_
      << "\" reasoning \"" << reasoning_.value_or("-") << '"';
  dump_list(out, "calls", tool_calls_);
  for (const PartSpan& span : spans_) {
    out << " part " << static_cast<int>(span.part) << ' ' << span.begin << '-' << span.end;
  }
}

void ReasoningBudget::dump(std::ostream& out) const {
  out << " reasoned " << count_ << " forced " << next_;
  dump_list(out, "closing", closing_ != nullptr ? *closing_ : Tokens());
  parts_.dump(out);
}

void StopMachine::dump(std::ostream& out) const {
  out << "stop after " << count_ << " ended " << ended_ << " given " << given_ << " sequence "
      << sequence_ << " by \"" << stop_string_.value_or("-") << "\" "
      << (stop_token_ ? std::to_string(*stop_token_) : "-");
  dump_list(out, "begins", begins_);
  dump_list(out, "tokens from", token_begins_);
  dump_list(out, "stopped", stop_sequence_.value_or(Tokens()));
  text_.dump(out);
  if (parts_) parts_->dump(out);
  loop_.dump(out);
}

}  // namespace millrace::engine
