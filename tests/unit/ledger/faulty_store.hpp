#pragma once
// A store that becomes unavailable as its plan says, in front of a sound one: as a database across
// a network does that loses connections and refuses transactions. Thread safety: that of the store
// behind it.
#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "tests/unit/ledger/forwarding_store.hpp"

namespace millrace::broker::test {

enum class Fault : std::uint8_t {
  none,
  begin,       // the transaction does not begin
  records,     // an operation on records fails; the transaction is rolled back
  conflict,    // the commit is refused, as by a serialization failure
  lost,        // the connection is lost in the commit, which did not take place
  lost_after,  // the same, but it did
};

struct FaultPlan {
  Fault next = Fault::none;  // of the next transaction
  std::uint64_t after = 0;   // for `records`: operations that still work before
  int unreachable = 0;       // so often nobody can tell whether a lost commit took place
  std::uint64_t provoked = 0;

  // Draws the fault of the next transaction: none in `most` of `of` cases.
  void draw(std::mt19937_64& random, std::uint64_t most, std::uint64_t of) {
    next = random() % of < most ? Fault::none : static_cast<Fault>(1 + random() % 5);
    after = random() % 12;
    unreachable = static_cast<int>(random() % 3);
  }
};

inline std::unexpected<Error> unavailable(const char* what) {
  return fail(Code::ledger_unavailable, what, "wait until the database answers");
}

class FaultyRecords final : public ForwardingRecords {
 public:
  using ForwardingRecords::ForwardingRecords;
  const Status& status() const override { return failed_ ? failure_ : ForwardingRecords::status(); }

  bool armed = false;
  std::uint64_t left = 0;  // operations before the failure
  void heal() { armed = failed_ = false; }

 private:
  bool step() override {
    if (armed && left-- == 0) failed_ = true;
    if (failed_) armed = false;
    return !failed_;
  }

  bool failed_ = false;
  const Status failure_ = unavailable("the connection was lost in an operation");
};

class FaultyStore final : public LedgerStore {
 public:
  FaultyStore(std::unique_ptr<LedgerStore> to, std::shared_ptr<FaultPlan> plan)
      : to_(std::move(to)), plan_(std::move(plan)), records_(to_->records()) {}

  Records& records() override { return records_; }

  void expect(std::span<const Operation> operations) override { to_->expect(operations); }
  Status begin(bool writes) override {
    fault_ = std::exchange(plan_->next, Fault::none);
    if (fault_ != Fault::none) ++plan_->provoked;
    if (fault_ == Fault::begin) return unavailable("the connection was refused");
    MILLRACE_TRY(to_->begin(writes));
    open_ = true;
    took_place_ = false;
    records_.armed = fault_ == Fault::records;
    records_.left = plan_->after;
    return {};
  }
  void tell_others(std::span<const Operation> operations,
                   std::span<const Result<Reply>> replies) override {
    to_->tell_others(operations, replies);
  }
  Status commit() override {
    records_.heal();
    if (fault_ == Fault::conflict || fault_ == Fault::lost) return unavailable("no commit");
    MILLRACE_TRY(to_->commit());
    open_ = false;
    took_place_ = true;
    if (fault_ == Fault::lost_after) return unavailable("the connection was lost in the commit");
    return {};
  }
  Status roll_back() override {
    records_.heal();
    if (!std::exchange(open_, false)) return {};
    return to_->roll_back();
  }
  Result<bool> took_place() override {
    if (fault_ == Fault::conflict) return false;
    if (plan_->unreachable-- > 0) return unavailable("the connection was refused");
    return took_place_;
  }
  Status room_for(std::uint64_t bytes) override { return to_->room_for(bytes); }
  Status release_reserve() override { return to_->release_reserve(); }
  Status idle() override { return to_->idle(); }

 private:
  std::unique_ptr<LedgerStore> to_;
  std::shared_ptr<FaultPlan> plan_;
  FaultyRecords records_;
  Fault fault_ = Fault::none;
  bool open_ = false, took_place_ = false;
};

}  // namespace millrace::broker::test
