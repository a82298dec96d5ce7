#include "broker/ledger/postgres_bulk.hpp"

#include <libpq-fe.h>

#include <memory>
#include <utility>

#include "broker/ledger/postgres_connection.hpp"
#include "broker/ledger/postgres_errors.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::broker {
namespace {

struct ClearedResult {
  void operator()(PGresult* result) const { PQclear(result); }
};
using BulkAnswer = std::unique_ptr<PGresult, ClearedResult>;

// The signature, flags, and the length of an extension that is empty.
constexpr std::string_view copy_header("PGCOPY\n\377\r\n\0\0\0\0\0\0\0\0\0", 19);
constexpr std::string_view copy_trailer("\377\377", 2);
constexpr std::size_t message_bytes = 256 * limits::KiB;

}  // namespace

PostgresBulk::PostgresBulk(std::string url, const std::string& schema)
    : url_(std::move(url)),
      schema_(quoted_identifier(schema)),
      place_(postgres_place(url_).value_or("PostgreSQL")) {}

PostgresBulk::~PostgresBulk() {
  if (connection_ != nullptr) PQfinish(connection_);
}

Status PostgresBulk::connect() {
  MILLRACE_ASSIGN(connection_, connect_to_postgres(url_, place_));
  return {};
}

Error PostgresBulk::lost() const {
  return lost_connection(place_, PQerrorMessage(connection_));
}

Error PostgresBulk::error(const pg_result* result) const {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  if (state == nullptr || message == nullptr) return lost();
  return postgres_error(place_, state, message);
}

Result<PostgresBulk::TextRows> PostgresBulk::ask(std::string_view sql) {
  const BulkAnswer answer(PQexec(connection_, with_schema(sql, schema_).c_str()));
  if (answer == nullptr) return fail(lost());
  const ExecStatusType kind = PQresultStatus(answer.get());
  if (kind != PGRES_TUPLES_OK && kind != PGRES_COMMAND_OK) return fail(error(answer.get()));
  TextRows rows;
  for (int row = 0; row < PQntuples(answer.get()); ++row) {
    auto& columns = rows.emplace_back();
    for (int column = 0; column < PQnfields(answer.get()); ++column) {
      columns.emplace_back(PQgetvalue(answer.get(), row, column));
    }
  }
  return rows;
}

Status PostgresBulk::execute(std::string_view sql) {
  MILLRACE_TRY(ask(sql));
  return {};
}

Status PostgresBulk::begin(std::string_view isolation) {
  return execute("BEGIN ISOLATION LEVEL " + std::string(isolation) +
                 "; SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '10s'; "
                 "SET LOCAL idle_in_transaction_session_timeout = 0; "
                 "SET LOCAL bytea_output = 'escape'; SET LOCAL search_path = " +
                 schema_);
}

Status PostgresBulk::begin_copy(std::string_view sql, int direction) {
  const BulkAnswer answer(PQexec(connection_, with_schema(sql, schema_).c_str()));
  if (answer == nullptr) return fail(lost());
  if (PQresultStatus(answer.get()) != direction) return fail(error(answer.get()));
  return {};
}

// Each command ends with an answer and a null.
Status PostgresBulk::read_end() {
  Status done;
  while (const BulkAnswer answer{PQgetResult(connection_)}) {
    if (PQresultStatus(answer.get()) != PGRES_COMMAND_OK && done) done = fail(error(answer.get()));
    if (PQstatus(connection_) == CONNECTION_BAD) break;
  }
  return done;
}

Status PostgresBulk::begin_copy_in(std::string_view sql) {
  MILLRACE_TRY(begin_copy(sql, PGRES_COPY_IN));
  waiting_ = copy_header;
  return {};
}

Status PostgresBulk::flush_rows() {
  const bool sent =
      PQputCopyData(connection_, waiting_.data(), static_cast<int>(waiting_.size())) == 1;
  waiting_.clear();
  return sent ? Status() : fail(lost());
}

Status PostgresBulk::put_row(std::string_view row) {
  waiting_.append(row);
  return waiting_.size() < message_bytes ? Status() : flush_rows();
}

Status PostgresBulk::end_copy_in() {
  waiting_.append(copy_trailer);
  MILLRACE_TRY(flush_rows());
  if (PQputCopyEnd(connection_, nullptr) != 1) return fail(lost());
  return read_end();
}

Status PostgresBulk::begin_copy_out(std::string_view sql) {
  header_read_ = false;
  MILLRACE_TRY(begin_copy(sql, PGRES_COPY_OUT));
  copying_out_ = true;
  return {};
}

// The header may come alone or with the first row; the trailer is a row without fields.
Result<bool> PostgresBulk::take_row(std::string& row) {
  while (copying_out_) {
    char* data = nullptr;
    const int size = PQgetCopyData(connection_, &data, 0);
    if (size < 0) {
      copying_out_ = false;
      if (size == -2) return fail(lost());
      MILLRACE_TRY(read_end());
      break;
    }
    row.assign(data, static_cast<std::size_t>(size));
    PQfreemem(data);
    if (!header_read_) {
      if (!row.starts_with(copy_header)) {
        return fail(Code::internal, place_ + ": COPY has another format than is known");
      }
      header_read_ = true;
      row.erase(0, copy_header.size());
    }
    if (!row.empty() && row != copy_trailer) return true;
  }
  return false;
}

void PostgresBulk::end_copy_out() {
  std::string row;
  while (copying_out_) {
    const auto more = take_row(row);
    if (!more || !*more) copying_out_ = false;
  }
}

}  // namespace millrace::broker
