#include "engine/core/dump.hpp"

#include <set>
#include <sstream>

#include "engine/core/scheduler/scheduler.hpp"

namespace millrace::engine {
namespace {

void dump_pages(std::ostream& out, const SequencePages& pages) {
  for (std::size_t group = 0; group < pages.groups(); ++group) {
    dump_list(out, "pages", pages[group].pages());
    if (group > 0) out << " from " << pages[group].first();
  }
}

void dump_sequence(std::ostream& out, const Sequence& s) {
  out << s.prompt_tokens << '+' << s.max_tokens << " pending " << s.pending << " computed "
      << s.computed << " written " << s.written << " scored " << s.scored << '/'
      << s.prompt_logprobs << " slot " << s.slot << " admission " << s.admission << " restored "
      << s.restored << " promised " << s.fulfilled << '/' << s.promised.size() << " at "
      << s.promised_at << " refills " << s.refills;
  if (s.wait) {
    out << " waits for " << s.wait->tokens << " of " << s.wait->writer << '/' << s.wait->admission;
  }
  for (const Checkpoint& c : s.checkpoints) {
    out << " checkpoint " << c.position << ':' << static_cast<int>(c.keep);
  }
  dump_list(out, "kept", s.kept_positions);
  dump_list(out, "states", s.pages.states().held());
  dump_list(out, "tokens", s.tokens);
  dump_pages(out, s.pages);
}

}  // namespace

std::string Scheduler::dump() const {
  std::ostringstream out;
  out << "next " << next_id_ << " admissions " << admissions_ << " pauses " << pauses_
      << " step_tokens " << wanted_tokens_ << " forecast " << lengths_.text() << '\n';
  pools_->dump(out);
  std::set<PrefixTree::Space> spaces;
  const auto dump_space = [&](const PrefixTree::Space& space) {
    if (!space || !spaces.insert(space).second) return;
    out << '\n';
    tree_.dump(out, space);
  };
  dump_space(shared_);
  for (const auto& [id, s] : sequences_) dump_space(s.space);
  out << '\n';
  dump_list(out, "running", running_);
  dump_list(out, "waiting", waiting_);
  dump_list(out, "slots", used_slots_);
  for (const auto& [id, s] : sequences_) {
    out << "\nsequence " << id << ": ";
    dump_sequence(out, s);
  }
  for (const auto& [ticket, restore] : restores_) {
    out << "\nrestore " << ticket << ": from " << restore.first << " promised "
        << restore.promised.size();
    dump_list(out, "path", restore.path);
    dump_list(out, "states", restore.pages.states().held());
    dump_pages(out, restore.pages);
  }
  return out.str();
}

}  // namespace millrace::engine
