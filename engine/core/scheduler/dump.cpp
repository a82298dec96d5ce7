#include <sstream>

#include "engine/core/scheduler/scheduler.hpp"

namespace millrace::engine {
namespace {

template <class List>
void write_list(std::ostream& out, const char* name, const List& list) {
  out << ' ' << name << '[';
  for (const auto& item : list) out << item << ',';
  out << ']';
}

}  // namespace

std::string Scheduler::dump() const {
  std::ostringstream out;
  out << "next " << next_id_ << " admissions " << admissions_ << " pauses " << pauses_
      << " step_tokens " << options_.step_tokens << " forecast " << lengths_.text() << " tree "
      << tree_.size() << " pool " << pool_->used() << '/' << pool_->idle() << " restores "
      << restores_.size();
  write_list(out, "running", running_);
  write_list(out, "waiting", waiting_);
  write_list(out, "slots", used_slots_);
  for (const auto& [id, s] : sequences_) {
    out << "\nsequence " << id << ": " << s.prompt_tokens << '+' << s.max_tokens << " pending "
        << s.pending << " computed " << s.computed << " written " << s.written << " judged "
        << s.judged << " slot " << s.slot << " waits " << s.wait.has_value();
    write_list(out, "tokens", s.tokens);
    write_list(out, "pages", s.pages.pages());
  }
  return out.str();
}

}  // namespace millrace::engine
