#include "engine/core/dump.hpp"

#include <sstream>

#include "engine/core/request/engine_loop.hpp"

namespace millrace::engine {
namespace {

void dump_logprobs(std::ostream& out, const TokenLogprobs& logprobs) {
  dump_list(out, "logprobs", logprobs.token);
  dump_list(out, "top", logprobs.top_ids);
  dump_list(out, "top logprobs", logprobs.top_logprobs);
  if (logprobs.listed) dump_list(out, "listed", logprobs.listed->logprobs);
}

std::int64_t or_never(const std::optional<std::int64_t>& time_us) {
  return time_us.value_or(-1);
}

}  // namespace

void ActiveRequest::dump(std::ostream& out) const {
  out << "first " << first_ << " cached " << cached_ << " computed " << prompt_computed_
      << " counted " << prompt_counted_ << " accepted " << accepted_us_ << " started "
      << or_never(started_us_) << " first token " << or_never(first_token_us_);
  dump_logprobs(out, prompt_logprobs_);
  for (const Sample& sample : samples_) {
    out << "\n  sample " << sample.choice.index << " started " << sample.started << " ended "
        << sample.ended << " reason " << static_cast<int>(sample.choice.finish_reason) << " told "
        << sample.told_tokens << '/' << sample.told_text << '/' << sample.told_reasoning << '/'
        << sample.told_calls << " held \"" << sample.decoder.held() << "\" ";
    dump_list(out, "tokens", sample.choice.tokens);
    if (sample.choice.logprobs) dump_logprobs(out, *sample.choice.logprobs);
    out << "\n    ";
    sample.stop.dump(out);
    if (sample.budget) sample.budget->dump(out);
  }
}

std::string EngineLoop::dump() const {
  std::ostringstream out;
  out << scheduler_.dump() << "\nsteps " << counters_.steps << " prompt " << counters_.prompt_tokens
      << " generated " << counters_.generated_tokens << " hits " << counters_.prefix_hits << '/'
      << counters_.prefix_tokens << " completed " << completed_us_ << " pace " << pacer_.tokens();
  if (in_flight_) {
    out << " in flight " << in_flight_->planned.plan.rows.size() << " rows, outputs of";
    for (const PlannedOutput& output : in_flight_->planned.outputs) {
      out << ' ' << output.sequence << '@' << output.position;
    }
  }
  dump_list(out, "cancelled", cancelled_);
  for (const PartialEvent& event : partials_) {
    out << "\npartial " << event.id << '/' << event.partial.choice << " from "
        << event.partial.first_token << " \"" << event.partial.text << '"';
    dump_list(out, "tokens", event.partial.tokens);
  }
  for (const auto& [sequence, owner] : owners_) {
    out << "\nowner of " << sequence << ": " << owner.request << '/' << owner.sample;
  }
  for (const auto& [id, request] : requests_) {
    out << "\nrequest " << id << ": ";
    request.dump(out);
  }
  return out.str();
}

}  // namespace millrace::engine
