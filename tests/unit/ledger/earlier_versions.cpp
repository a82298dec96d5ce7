#include "tests/unit/ledger/earlier_versions.hpp"

#include <sqlite3.h>

namespace millrace::broker::test {

void change(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* message = nullptr;
  ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_close(db);
}

}  // namespace millrace::broker::test
