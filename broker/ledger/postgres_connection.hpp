#pragma once
// A connection to PostgreSQL, through libpq in pipeline mode: statements are sent without waiting
// for their answers, and the answers of all are read together, one round trip for as many
// statements as were sent. Statements have parameters and no names, so that a pooler which hands
// out another server connection for each transaction (PgBouncer) does no harm.
//
// Everything that libpq reads counts: the parameters of the URL (sslmode, sslrootcert,
// target_session_attrs, several hosts), the environment, the service and the password file.
//
// Errors are sticky, as in records.hpp: after the first one every statement does nothing, until
// `recover`. ledger_unavailable: the connection was lost or refused, the server is starting,
// stopping or a standby, has no connection or memory left, or gave up a transaction (a deadlock, a
// serialization failure, a time limit). disk_full: the server has no room. ledger_corrupt: the
// server reports damage, or rows that contradict each other. unauthorized: the user may not do it.
// internal: everything else. Messages never hold a password.
// Thread safety: one thread at a time, and any for `give_up_after`.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "broker/ledger/postgres_values.hpp"
#include "schemas/base/error.hpp"

struct pg_conn;
struct pg_result;

namespace millrace::broker {

// The rows that a statement returned. A failed statement has none.
class PostgresRows {
 public:
  PostgresRows() = default;
  explicit PostgresRows(pg_result* result);

  int size() const;
  bool null(int row, int column) const;
  std::int64_t integer(int row, int column) const;
  std::uint64_t number(int row, int column) const {
    return static_cast<std::uint64_t>(integer(row, column));
  }
  std::optional<std::int64_t> optional_integer(int row, int column) const;
  std::string_view bytes(int row, int column) const;  // valid as long as these rows
  std::string text(int row, int column) const { return std::string(bytes(row, column)); }

 private:
  std::shared_ptr<pg_result> result_;
};

class PostgresConnection {
 public:
  // In statements "@." stands for the schema of the ledger's tables.
  PostgresConnection(std::string url, const std::string& schema);
  ~PostgresConnection();
  PostgresConnection(const PostgresConnection&) = delete;
  PostgresConnection& operator=(const PostgresConnection&) = delete;

  Status connect();  // anew
  bool connected() const { return connection_ != nullptr; }
  void close();

  // Sends a statement. Its answer is read with the next ones.
  template <class... Values>
  void send(std::string_view sql, const Values&... values) {
    send_with(sql, PostgresParameters::of(values...));
  }
  // Sends it and reads all answers; returns the rows of this one.
  template <class... Values>
  PostgresRows ask(std::string_view sql, const Values&... values) {
    send_with(sql, PostgresParameters::of(values...));
    auto rows = settle();
    return rows.empty() ? PostgresRows() : std::move(rows.back());
  }
  void send_with(std::string_view sql, const PostgresParameters& parameters);
  // Reads the answers of all statements that were sent since the last call, in order. Empty where
  // one failed.
  std::vector<PostgresRows> settle();

  const Status& status() const { return status_; }
  void note_failure(Error error);
  // Forgets the failure and ends a transaction that is open. Where that cannot be done, the
  // connection is closed.
  void recover();

  const std::string& place() const { return place_; }    // for messages
  const std::string& schema() const { return schema_; }  // as in statements
  std::uint64_t round_trips() const { return round_trips_; }
  std::uint64_t statements() const { return statements_; }

  // From now on a server that says nothing for so long is a lost connection. Before that it is
  // waited for without end: a statement may take its time, and wait for locks.
  void give_up_after(std::chrono::milliseconds silence) { silence_ms_ = silence.count(); }

 private:
  void note_result(const pg_result* result);
  void lose(const std::string& what);
  bool wait_for(short events);
  bool flush();
  pg_result* next_answer();

  const std::string url_, schema_;
  std::string place_;
  pg_conn* connection_ = nullptr;
  Status status_;
  std::size_t sent_ = 0;  // statements whose answers were not read
  std::uint64_t round_trips_ = 0, statements_ = 0;
  std::atomic<std::int64_t> silence_ms_ = 0;  // before the connection counts as lost; 0: no limit
};

// What the URL names, without the password. Error: usage.
Result<std::string> postgres_place(const std::string& url);

// A connection with the settings of the ledger's own, for its owner to end. Errors: as `connect`.
Result<pg_conn*> connect_to_postgres(const std::string& url, const std::string& place);

// The statement with the schema, an identifier in quotes, for "@.".
std::string with_schema(std::string_view sql, std::string_view schema);

// An SQL identifier in quotes.
std::string quoted_identifier(std::string_view name);

}  // namespace millrace::broker
