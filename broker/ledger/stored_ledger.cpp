#include "broker/ledger/stored_ledger.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace millrace::broker {
namespace {

class StoredLedger final : public Ledger {
 public:
  StoredLedger(std::unique_ptr<LedgerStore> store, RulesOptions options)
      : store_(std::move(store)), rules_(store_->records(), std::move(options)) {}

  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override;
  Status idle() override;
  std::uint64_t sync_us() const override { return store_->sync_us(); }
  void give_up_soon() override { store_->give_up_soon(); }

 private:
  using Replies = std::vector<Result<Reply>>;
  Result<std::optional<Replies>> resolve(std::size_t operations);
  Result<Replies> attempt(std::span<const Operation> operations, std::int64_t now_us,
                          const Refusals& refusals);
  Result<Replies> attempt_on_a_full_disk(std::span<const Operation> operations, std::int64_t now_us,
                                         Error full);
  std::unexpected<Error> failed(Error error);

  const std::unique_ptr<LedgerStore> store_;
  LedgerRules rules_;
  std::optional<Error> broken_;
  std::optional<Replies> unresolved_;  // of a commit whose outcome is not known
};

std::unexpected<Error> StoredLedger::failed(Error error) {
  if (!may_try_again(error)) broken_ = error;
  return fail(std::move(error));
}

// After a commit whose outcome was not known: the replies of that commit, where it took place.
Result<std::optional<StoredLedger::Replies>> StoredLedger::resolve(std::size_t operations) {
  if (!unresolved_) return std::optional<Replies>();
  MILLRACE_ASSIGN(const bool took_place, store_->took_place());
  auto replies = std::exchange(unresolved_, std::nullopt);
  if (!took_place) return std::optional<Replies>();
  if (replies->size() != operations) {
    return fail(Code::internal, "after a commit of " + std::to_string(replies->size()) +
                                    " operations that was to be tried again came one of " +
                                    std::to_string(operations));
  }
  return replies;
}

Result<StoredLedger::Replies> StoredLedger::apply(std::span<const Operation> operations,
                                                  std::int64_t now_us) {
  if (broken_) return fail(*broken_);
  auto before = resolve(operations.size());
  if (!before) return failed(std::move(before.error()));
  if (*before) return **std::move(before);
  Refusals refusals;
  std::uint64_t new_bytes = 0;
  for (const Operation& op : operations) new_bytes += work_bytes(op);
  if (std::any_of(operations.begin(), operations.end(), brings_work)) {
    const Status room = store_->room_for(new_bytes);
    if (!room && room.error().code != Code::disk_full) return failed(room.error());
    if (!room) refusals.work = room.error();
  }
  auto replies = attempt(operations, now_us, refusals);
  if (!replies && replies.error().code == Code::disk_full) {
    replies = attempt_on_a_full_disk(operations, now_us, replies.error());
  }
  if (!replies) return failed(replies.error());
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (const auto* op = std::get_if<BackUp>(&operations[i])) {
      (*replies)[i] = store_->back_up(*op);
    }
  }
  return replies;
}

// The disk filled up during the commit. Without the new work, and with the space of the reserve,
// the results still commit; when that is used up as well, nothing is written.
Result<StoredLedger::Replies> StoredLedger::attempt_on_a_full_disk(
    std::span<const Operation> operations, std::int64_t now_us, Error full) {
  Refusals refusals;
  refusals.work = std::move(full);
  MILLRACE_TRY(store_->release_reserve());
  auto replies = attempt(operations, now_us, refusals);
  if (replies || replies.error().code != Code::disk_full) return replies;
  refusals.writes = replies.error();
  return attempt(operations, now_us, refusals);
}

Result<StoredLedger::Replies> StoredLedger::attempt(std::span<const Operation> operations,
                                                    std::int64_t now_us, const Refusals& refusals) {
  const bool writes =
      !refusals.writes && !std::all_of(operations.begin(), operations.end(), only_reads);
  store_->expect(operations);
  MILLRACE_TRY(store_->begin(writes));
  Replies replies = rules_.carry_out(operations, now_us, refusals);
  Status done = store_->records().status();
  const bool asked = done.has_value();
  if (asked && writes) store_->tell_others(operations, replies);
  if (asked) done = store_->commit();
  if (done) return replies;
  const Error error = done.error();
  if (asked && writes && may_try_again(error)) unresolved_ = std::move(replies);
  if (const Status undone = store_->roll_back(); !undone && !may_try_again(undone.error())) {
    return fail(undone.error());
  }
  return fail(error);
}

Status StoredLedger::idle() {
  if (broken_) return fail(*broken_);
  const Status done = store_->idle();
  if (!done) return failed(done.error());
  return {};
}

}  // namespace

std::unique_ptr<Ledger> make_stored_ledger(std::unique_ptr<LedgerStore> store,
                                           RulesOptions options) {
  return std::make_unique<StoredLedger>(std::move(store), std::move(options));
}

}  // namespace millrace::broker
