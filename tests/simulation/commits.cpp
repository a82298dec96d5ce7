#include "tests/simulation/commits.hpp"

#include <utility>

#include "broker/ledger/stored_ledger.hpp"

namespace millrace::broker::simulation {

Commits::Commits(std::shared_ptr<MemoryStore> store, Publish publish, Surroundings around, Bug bug)
    : store_(std::move(store)),
      publish_(std::move(publish)),
      around_(std::move(around)),
      faulty_(around_.dice.chance(0.5)),
      fault_dice_(around_.dice.below(1u << 31)),
      bug_(bug) {}

void Commits::connect() {
  ++incarnation_;
  inbox_ = {};
  waiting_.clear();
  for (Handle& handle : handles_) {
    handle.batch.reset();
    handle.plan = std::make_shared<test::FaultPlan>();
    handle.ledger = make_stored_ledger(
        std::make_unique<test::FaultyStore>(plant(bug_, make_memory_handle(store_)), handle.plan),
        {publish_});
  }
}

void Commits::push(LedgerRequest request) {
  auto& waiting = waiting_[request.ticket];
  waiting.left = request.operations.size();
  waiting.replies.resize(waiting.left, fail(Code::internal, "no reply yet"));
  inbox_.push(request.ticket, std::move(request.operations), {});
}

void Commits::schedule() {
  for (Handle& handle : handles_) {
    if (handle.batch || !inbox_.ready()) continue;
    begin(handle, inbox_.take({1 + around_.dice.below(20), UINT64_MAX}));
    commit_later(handle);
  }
}

void Commits::begin(Handle& handle, LedgerBatch batch) {
  for (Posted& read : batch.reads) batch.operations.push_back(std::move(read));
  handle.operations.clear();
  for (Posted& one : batch.operations) {
    if (const auto* give = std::get_if<GiveBack>(&one.operation)) {
      excused_ += static_cast<int>(give->waiting.size());
    }
    plant(bug_, one.operation);
    handle.operations.push_back(std::move(one.operation));
  }
  handle.batch = std::move(batch);
}

void Commits::commit_later(Handle& handle) {
  const bool slow = around_.dice.chance(0.02);  // a disk that stalls
  const std::uint64_t most = slow ? 3'000'000 : 20'000;
  around_.clock.after(static_cast<std::int64_t>(500 + around_.dice.below(most)),
                      [this, &handle, incarnation = incarnation_] {
                        if (incarnation == incarnation_) commit(handle);
                      });
}

void Commits::commit(Handle& handle) {
  if (faulty_ && !around_.calm()) handle.plan->draw(fault_dice_, 19, 20);
  auto replies = handle.ledger->apply(handle.operations, around_.unix_us());
  if (!replies && may_try_again(replies.error())) {
    ++faults_;
    return commit_later(handle);
  }
  if (!replies) return around_.violation("the ledger ended: " + replies.error().text());
  std::vector<Completed> done;
  const LedgerBatch batch = *std::exchange(handle.batch, std::nullopt);
  for (std::size_t i = 0; i < batch.operations.size(); ++i) {
    const Posted& posted = batch.operations[i];
    auto& waiting = waiting_.at(posted.token);
    plant(bug_, (*replies)[i]);
    waiting.replies.at(posted.place) = std::move((*replies)[i]);
    if (--waiting.left > 0) continue;
    done.push_back({posted.token, std::move(waiting.replies)});
    waiting_.erase(posted.token);
  }
  inbox_.done(batch);
  schedule();
  around_.done(std::move(done));
}

void Commits::kill() {
  ++incarnation_;
  for (Handle& handle : handles_) {
    if (!handle.batch && inbox_.ready()) begin(handle, inbox_.take({20, UINT64_MAX}));
    if (!handle.batch || around_.dice.chance(0.5)) continue;
    (void)handle.ledger->apply(handle.operations, around_.unix_us());
  }
  connect();
}

}  // namespace millrace::broker::simulation
