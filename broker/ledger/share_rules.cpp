// The rule of claims for several tenants.
#include <algorithm>
#include <map>

#include "broker/ledger/ledger_rules.hpp"

namespace millrace::broker {
namespace {

// The turns of one claim.
class Turns {
 public:
  Turns(const ClaimShared& claim, std::vector<TakenShare>& taken)
      : shares_(claim.shares), taken_(taken), left_(shares_.size()) {
    taken_.resize(left_);
    if (left_ == 0 || (claim.goes_on && tokens(0) > 0)) return;
    at_ = left_ - 1;
    next();
  }

  bool done() const { return left_ == 0; }
  std::size_t at() const { return at_; }               // whose turn it is
  std::int64_t tokens() const { return tokens(at_); }  // that it may take
  // `exhausted`: the tenant has no more jobs that the claim may have.
  void took(std::uint64_t tokens, bool exhausted) {
    taken_[at_].tokens += tokens;
    taken_[at_].exhausted = exhausted;
    if (exhausted) --left_;
    if (left_ > 0 && (exhausted || this->tokens() <= 0)) next();
  }

 private:
  std::int64_t tokens(std::size_t i) const {
    return shares_[i].deficit_tokens + taken_[i].turns * shares_[i].quantum_tokens -
           static_cast<std::int64_t>(taken_[i].tokens);
  }
  // Begins the turn of the next tenant that may take something.
  void next() {
    for (std::size_t steps = 1;; ++steps) {
      at_ = (at_ + 1) % shares_.size();
      if (!taken_[at_].exhausted) {
        ++taken_[at_].turns;
        if (tokens() > 0) return;
      }
      if (steps % shares_.size() == 0) skip_rounds();
    }
  }
  // Counts the rounds in which nobody may take anything, because all took expensive jobs before.
  void skip_rounds() {
    std::int64_t rounds = INT64_MAX;
    for (std::size_t i = 0; i < shares_.size(); ++i) {
      if (!taken_[i].exhausted) rounds = std::min(rounds, -tokens(i) / shares_[i].quantum_tokens);
    }
    for (TakenShare& share : taken_) {
      if (!share.exhausted) share.turns += rounds;
    }
  }

  const std::vector<TenantShare>& shares_;
  std::vector<TakenShare>& taken_;
  std::size_t at_ = 0, left_;
};

}  // namespace

Result<Reply> LedgerRules::carry_out(const ClaimShared& op) {
  constexpr std::uint64_t least_look_ahead = 16;
  ClaimReply reply;
  Turns turns(op, reply.shares);
  ClaimRoom room(op);
  std::map<std::string, Tails> tails;  // by tenant
  Claim own = op;
  while (!turns.done() && !room.full() && !reply.more && reply.jobs.size() < op.max_jobs &&
         records_.status()) {
    const TenantShare& share = op.shares[turns.at()];
    own.tenant = share.tenant;
    own.max_tokens = static_cast<std::uint64_t>(turns.tokens());
    own.max_leased = share.max_leased;
    own.max_jobs = op.max_jobs - static_cast<std::uint32_t>(reply.jobs.size());
    room.allow_tokens(own.max_tokens);
    const auto its = tails.try_emplace(share.tenant, records_, transitions_, share.tenant).first;
    const std::size_t before = reply.jobs.size();
    const Claimed claimed = claim(own, room, its->second, reply);
    for (std::size_t i = before; i < reply.jobs.size(); ++i) {
      own.prefixes.take(reply.jobs[i].prefix);
    }
    // Each turn reads its tenant's queue anew, so all together look at about twice the first one's
    // places.
    own.prefixes.places = std::max(own.prefixes.places / 2, least_look_ahead);
    reply.shares[turns.at()].at_limit = claimed.at_limit;
    reply.shares[turns.at()].ready = claimed.ready;
    turns.took(room.tokens(), claimed.all);
  }
  reply.turn = turns.at();
  return reply;
}

}  // namespace millrace::broker
