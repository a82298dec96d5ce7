#pragma once
// The tables of a ledger in PostgreSQL, their migrations, and the settings of the server under
// which an acknowledged job is on its disk.
//
// Migrations are numbered, forward only, and each broker that opens the ledger carries out those
// that are missing: in one transaction that holds the lock of the table `meta`, so that brokers
// which start together wait for each other and half of a migration cannot exist.
//
// A negative version is that of tables which a copy has not filled completely (postgres_copy.hpp).
//
// Errors: ledger_newer, ledger_corrupt (such tables), ledger_settings, and those of the connection.
// Thread safety: none.
#include <cstdint>
#include <string>

#include "broker/ledger/postgres_connection.hpp"

namespace millrace::broker {

inline constexpr int postgres_version = 2;  // of the tables

// What each transaction reads back, so that nothing is acknowledged under other settings, whoever
// changed them meanwhile.
struct PostgresState {
  int version = 0;
  std::string epoch;
  std::string fsync, full_page_writes, synchronous_commit;
  bool others_live = false;  // brokers other than this one
};

Status migrate_postgres(PostgresConnection& connection);

// The settings of the server and of this session, with the plan settings for the transaction that
// is open; $1 is the time in milliseconds after which the server ends the transaction when it hears
// nothing, and $2 this broker. It is the question; `read_state` reads its answer.
extern const char* const state_question;
PostgresState read_state(const PostgresRows& rows);
Status check_state(const PostgresState& state, const std::string& place);

// Whether the settings of the server are such, where it may have no tables yet.
Status check_settings(PostgresConnection& connection);

}  // namespace millrace::broker
