#include <sstream>

#include "engine/core/request/engine_loop.hpp"

namespace millrace::engine {

std::string EngineLoop::dump() const {
  std::ostringstream out;
  out << scheduler_.dump() << "\nsteps " << counters_.steps << " prompt " << counters_.prompt_tokens
      << " generated " << counters_.generated_tokens << " under way "
      << (flying_ ? flying_->planned.plan.rows.size() : 0) << " partials " << partials_.size()
      << " pace " << pacer_.tokens() << "\ncancelled";
  for (const RequestId id : cancelled_) out << ' ' << id;
  for (const auto& [sequence, owner] : owners_) {
    out << "\nowner of " << sequence << ": " << owner.request << '/' << owner.sample;
  }
  for (const auto& [id, request] : requests_) {
    out << "\nrequest " << id << ": first " << request.first_sequence();
    for (std::uint32_t i = 0; i < request.request().n; ++i) {
      out << " sample " << i << " ended " << request.sample_ended(i) << " tokens";
      for (const TokenId token : request.choice(i).tokens) out << ' ' << token;
    }
  }
  return out.str();
}

}  // namespace millrace::engine
