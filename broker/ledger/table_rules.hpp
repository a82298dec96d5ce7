#pragma once
// What holds between the tables of a ledger at each commit, whatever happened to the ledger:
// counts are the sums of the jobs, the queue and the leases are those of the jobs, bodies and
// results are where they belong. README.md describes the tables.
// Thread safety: that of the database.
#include <string>
#include <vector>

#include "broker/ledger/sqlite_database.hpp"

namespace millrace::broker {

struct TableRule {
  const char* what;
  const char* sql;  // returns rows that name the places where the rule is broken
};

// The rules that each store with SQL has.
std::vector<TableRule> table_rules();

// Those, and the rules of the file's own tables. Reads all tables, which must be of version
// `ledger_version`, and changes nothing. Returns one text for each rule that they break, with the
// first place where they do. It takes some seconds for a million jobs. Errors: those of the
// database.
Result<std::vector<std::string>> broken_table_rules(Database& database);

}  // namespace millrace::broker
