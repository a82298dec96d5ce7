#pragma once
// A store: transactions over records, and the room for new work. A ledger is a store with the rules
// on top (stored_ledger.hpp). A store handle carries out one transaction at a time; where several
// handles may use one store, their transactions must be serializable.
//
// Errors: ledger_unavailable says that the transaction did not take place, or that nobody knows
// (then `took_place` finds out), and that the store may work again: a lost connection, a
// serialization failure. disk_full: the transaction may be tried again with less in it. All others
// end the ledger. Thread safety: one thread at a time for each handle.
#include <cstdint>
#include <span>

#include "broker/ledger/records.hpp"

namespace millrace::broker {

class LedgerStore {
 public:
  virtual ~LedgerStore() = default;

  // The records are usable between `begin` and the end of the transaction only.
  virtual Records& records() = 0;

  // The next transaction will carry these out: a store may take locks and read ahead for all of
  // them. They outlive the transaction.
  virtual void expect(std::span<const Operation>) {}
  // `writes` false: the transaction only reads.
  virtual Status begin(bool writes) = 0;
  // The transaction has carried these out. Where other brokers use the store, it tells them in the
  // same commit what they have to know of it (News). Call it once, before the commit.
  virtual void tell_others(std::span<const Operation>, std::span<const Result<Reply>>) {}
  // Makes the changes durable. The records must not have failed.
  virtual Status commit() = 0;
  // Undoes a transaction that was begun and not committed, also after a `commit` that failed, and
  // clears the records' failure.
  virtual Status roll_back() = 0;
  // Call it after a commit that failed with ledger_unavailable and was rolled back, before the next
  // transaction: did it take place all the same? For stores that always know it did not, the
  // default says so.
  virtual Result<bool> took_place() { return false; }

  // Ok when `bytes` of new work may be accepted. Error: disk_full when they may not.
  virtual Status room_for(std::uint64_t) { return {}; }
  // Gives the space that is kept for results, and what can be spared, to the next transaction.
  virtual Status release_reserve() { return {}; }
  // Carries out one step of a backup, between transactions; short. The errors do not end the
  // ledger.
  virtual Result<BackUpReply> back_up(const BackUp&) {
    return fail(
        Code::usage, "this ledger is not in a file, so it makes no backups",
        "keep the ledger in a folder: --ledger DIR, or back the database up with its tools");
  }
  // Does housekeeping between transactions; short, may be skipped.
  virtual Status idle() { return {}; }
  // As Ledger::sync_us, of the last transaction.
  virtual std::uint64_t sync_us() const { return 0; }
  // As Ledger::give_up_soon. Any thread may call it at any time.
  virtual void give_up_soon() {}
};

}  // namespace millrace::broker
