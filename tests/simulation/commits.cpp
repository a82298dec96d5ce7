#include "tests/simulation/commits.hpp"

#include <algorithm>
#include <utility>

namespace millrace::broker::simulation {
namespace {

// The usual number is larger than the queues of the simulation are long.
void look_less_far(Operation& operation, std::uint64_t places) {
  if (places == 0) return;
  if (auto* claim = std::get_if<Claim>(&operation)) claim->prefixes.places = places;
  if (auto* claim = std::get_if<ClaimShared>(&operation)) claim->prefixes.places = places;
}

}  // namespace

Commits::Commits(Surroundings around, Bug bug) : around_(std::move(around)), bug_(bug) {}

void Commits::connect(const std::string& broker) {
  clear();
  around_.storage.connect(broker);
  slots_.resize(around_.storage.handles());
}

void Commits::clear() {
  ++incarnation_;
  inbox_ = {};
  waiting_.clear();
  slots_.clear();
}

void Commits::push(LedgerRequest request) {
  for (const Operation& operation : request.operations) around_.asked(operation);
  auto& waiting = waiting_[request.ticket];
  waiting.left = request.operations.size();
  waiting.replies.resize(waiting.left, fail(Code::internal, "no reply yet"));
  inbox_.push(request.ticket, std::move(request.operations), {});
}

void Commits::schedule() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (slots_[i].batch || !inbox_.ready()) continue;
    begin(i, inbox_.take({1 + around_.dice.below(20), UINT64_MAX}));
    commit_later(i);
  }
}

void Commits::begin(std::size_t slot, LedgerBatch batch) {
  for (Posted& read : batch.reads) batch.operations.push_back(std::move(read));
  auto& operations = slots_[slot].operations;
  operations.clear();
  for (Posted& one : batch.operations) {
    if (const auto* give = std::get_if<GiveBack>(&one.operation)) {
      excused_ += give->waiting.size();
    }
    look_less_far(one.operation, around_.look_ahead);
    plant(bug_, one.operation);
    operations.push_back(std::move(one.operation));
  }
  slots_[slot].batch = std::move(batch);
}

void Commits::commit_later(std::size_t slot) {
  const bool slow = around_.dice.chance(0.02);  // a disk that stalls
  const std::uint64_t most = slow ? 3'000'000 : 20'000;
  const std::uint64_t pause = most << std::min(slots_[slot].tries, 6);  // as LedgerThread
  around_.clock.after(static_cast<std::int64_t>(500 + around_.dice.below(slow ? most : pause)),
                      [this, slot, incarnation = incarnation_] {
                        if (incarnation != incarnation_) return;
                        if (around_.paused()) return commit_later(slot);
                        commit(slot);
                      });
}

void Commits::commit(std::size_t slot) {
  around_.begins(slots_[slot].operations);
  around_.storage.before_commit();
  Ledger& ledger = *around_.storage.handle(slot);  // which ends with a crash
  auto replies = ledger.apply(slots_[slot].operations, around_.unix_us());
  around_.storage.after_commit();
  const bool failed = !replies && may_try_again(replies.error());
  const int before = std::exchange(slots_[slot].tries, failed ? slots_[slot].tries + 1 : 0);
  if (before > 0 || failed) around_.unknown();
  if (failed) return commit_later(slot);
  if (!replies) return end(replies.error());
  around_.carried_out(slots_[slot].operations, *replies);
  auto done = complete(slot, *std::move(replies));
  schedule();
  around_.done(std::move(done));
  if (const Status rested = ledger.idle(); !rested) end(rested.error());
}

std::vector<Completed> Commits::complete(std::size_t slot, std::vector<Result<Reply>> replies) {
  const LedgerBatch batch = *std::exchange(slots_[slot].batch, std::nullopt);
  std::vector<Completed> done;
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    const Posted& posted = batch.operations[i];
    auto& waiting = waiting_.at(posted.token);
    plant(bug_, slots_[slot].operations[i], replies[i]);
    waiting.replies.at(posted.place) = std::move(replies[i]);
    if (--waiting.left > 0) continue;
    done.push_back({posted.token, std::move(waiting.replies)});
    waiting_.erase(posted.token);
  }
  inbox_.done(batch);
  return done;
}

void Commits::end(const Error& error) {
  const bool expected = around_.storage.may_end() && error.code == Code::io_error;
  if (!expected) around_.violation("the ledger ended: " + error.text());
  around_.ended();
}

void Commits::kill() {
  ++incarnation_;
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!slots_[i].batch && inbox_.ready()) begin(i, inbox_.take({20, UINT64_MAX}));
    if (!slots_[i].batch || around_.dice.chance(0.5)) continue;
    if (around_.storage.outlives_processes() && around_.dice.chance(0.5)) {
      commit_after_all(i);
      continue;
    }
    around_.storage.interrupt();
    (void)around_.storage.handle(i)->apply(slots_[i].operations, around_.unix_us());
  }
  around_.storage.crash();
  clear();
}

void Commits::commit_after_all(std::size_t slot) {
  around_.clock.after(static_cast<std::int64_t>(around_.dice.below(30'000'000)),
                      [this, ledger = around_.storage.handle(slot),
                       operations = slots_[slot].operations, unix_us = around_.unix_us()] {
                        (void)ledger->apply(operations, unix_us);
                        around_.late();
                      });
}

}  // namespace millrace::broker::simulation
