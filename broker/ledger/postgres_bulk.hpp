#pragma once
// A connection to PostgreSQL for one long transaction of bulk work: plain statements with their
// answers as text, and COPY in both directions, which the pipeline of PostgresConnection has not.
// "@." stands for the schema. Errors: as in postgres_connection.hpp, not sticky.
// Thread safety: one thread at a time.
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

struct pg_conn;
struct pg_result;

namespace millrace::broker {

class PostgresBulk {
 public:
  PostgresBulk(std::string url, const std::string& schema);
  ~PostgresBulk();
  PostgresBulk(const PostgresBulk&) = delete;
  PostgresBulk& operator=(const PostgresBulk&) = delete;

  Status connect();
  // One statement or several; the rows of the last one, as text. A null is an empty text.
  using TextRows = std::vector<std::vector<std::string>>;
  Result<TextRows> ask(std::string_view sql);
  Status execute(std::string_view sql);
  // Begins a transaction in which no limit of the server's user ends long work; a lock is waited
  // for at most 10 s. Names without a schema are those of the ledger's.
  Status begin(std::string_view isolation);

  // COPY ... FROM STDIN and COPY ... TO STDOUT, in the binary format. A row is as in
  // copied_tables.hpp.
  Status begin_copy_in(std::string_view sql);
  Status put_row(std::string_view row);
  Status end_copy_in();
  Status begin_copy_out(std::string_view sql);
  Result<bool> take_row(std::string& row);  // false: there are no more
  void end_copy_out();                      // also before the last row was taken

  const std::string& place() const { return place_; }

 private:
  Error error(const pg_result* result) const;
  Error lost() const;
  Status begin_copy(std::string_view sql, int direction);
  Status flush_rows();
  Status read_end();

  const std::string url_, schema_, place_;
  pg_conn* connection_ = nullptr;
  std::string waiting_;  // rows that were put and not sent
  bool header_read_ = false, copying_out_ = false;
};

}  // namespace millrace::broker
