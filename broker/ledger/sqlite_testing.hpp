#pragma once
// The SQLite store without the rules, so that tests can stand between both, and a ledger whose
// durability is weakened on purpose, so that the crash points can show that they notice. Only the
// ledger's own tests and sqlite_ledger.cpp may include this.
#include "broker/ledger/sqlite_ledger.hpp"
#include "broker/ledger/sqlite_schema.hpp"
#include "broker/ledger/store.hpp"

namespace millrace::broker {

Result<std::unique_ptr<LedgerStore>> open_sqlite_store(const std::string& path,
                                                       SqliteLedgerOptions options,
                                                       const DurabilitySettings& settings = {});

Result<std::unique_ptr<Ledger>> open_weakened_sqlite_ledger(const std::string& path,
                                                            SqliteLedgerOptions options,
                                                            const DurabilitySettings& settings);

}  // namespace millrace::broker
