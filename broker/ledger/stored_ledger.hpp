#pragma once
// A ledger on a store: each batch is one transaction, in which the rules change the records.
// Errors: those of ledger.hpp. An error that may not be tried again is sticky: the ledger answers
// every later call with it. Thread safety: one thread at a time.
#include <memory>

#include "broker/ledger/ledger.hpp"
#include "broker/ledger/ledger_rules.hpp"
#include "broker/ledger/store.hpp"

namespace millrace::broker {

std::unique_ptr<Ledger> make_stored_ledger(std::unique_ptr<LedgerStore> store,
                                           RulesOptions options);

}  // namespace millrace::broker
