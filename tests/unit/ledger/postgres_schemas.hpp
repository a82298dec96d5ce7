#pragma once
// Schemas for the ledgers of tests on one PostgreSQL server. Making tables takes longer than a
// test, so a schema that a test has left is emptied and used again. Thread safety: none.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "broker/ledger/postgres_connection.hpp"
#include "schemas/base/random_id.hpp"
#include "tests/support/postgres_server.hpp"

namespace millrace::broker::test {

// The schema of one ledger, for as long as this lives.
class PostgresSchema {
 public:
  PostgresSchema() {
    if (left().empty()) {
      name_ = "ledger_" + random_id();
      return;
    }
    name_ = left().back();
    left().pop_back();
    PostgresConnection connection(millrace::test::postgres_url(), name_);
    EXPECT_TRUE(connection.connect());
    connection.ask(
        "DO $$ DECLARE t name; BEGIN FOR t IN SELECT tablename FROM pg_tables WHERE "
        "schemaname = '" +
        name_ +
        "' AND tablename NOT IN ('meta', 'migrations') LOOP EXECUTE "
        "format('DELETE FROM @.%I', t); END LOOP; END $$");
    connection.send("UPDATE @.meta SET version = abs(version)");  // the mark of a copy
    connection.send("ALTER SEQUENCE @.job_sequence RESTART");
    connection.ask("ALTER SEQUENCE @.lease_sequence RESTART");
    EXPECT_TRUE(connection.status()) << connection.status().error().text();
  }
  ~PostgresSchema() { left().push_back(name_); }
  PostgresSchema(const PostgresSchema&) = delete;
  PostgresSchema& operator=(const PostgresSchema&) = delete;
  const std::string& name() const { return name_; }

 private:
  static std::vector<std::string>& left() {
    static std::vector<std::string> names;
    return names;
  }
  std::string name_;
};

}  // namespace millrace::broker::test
