#include "broker/ledger/postgres_connection.hpp"

#include <libpq-fe.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <utility>

#include "broker/ledger/postgres_errors.hpp"

namespace millrace::broker {
namespace {

constexpr int binary = 1;
constexpr int look_again_ms = 250;  // whether a silent server is still to be waited for

struct Freed {
  void operator()(PGresult* result) const { PQclear(result); }
};
using Answer = std::unique_ptr<PGresult, Freed>;

}  // namespace

Result<std::string> postgres_place(const std::string& url) {
  std::string host, port, database, user;
  char* error = nullptr;
  PQconninfoOption* const options = PQconninfoParse(url.c_str(), &error);
  std::string why = error != nullptr ? error : "";
  if (error != nullptr) PQfreemem(error);
  if (options == nullptr) {
    // Without what libpq quotes, unless it is a parameter's name: it may be the password, or the
    // whole URL.
    const bool names_one = why.starts_with("invalid URI query parameter");
    why.resize(std::min(why.size(), why.find_first_of(names_one ? "\n" : ":\"\n")));
    while (why.ends_with(' ')) why.pop_back();
    return fail(Code::usage, "the ledger's URL cannot be read: " + why,
                "write postgresql://USER@HOST/DATABASE, with libpq's parameters after a ?, and in "
                "a user or password %25 for %, %40 for @, %3A for :, %2F for /");
  }
  for (const PQconninfoOption* one = options; one->keyword != nullptr; ++one) {
    if (one->val == nullptr) continue;
    const std::string_view name = one->keyword;
    if (name == "host") host = one->val;
    if (name == "port") port = one->val;
    if (name == "dbname") database = one->val;
    if (name == "user") user = one->val;
  }
  PQconninfoFree(options);
  std::string out = "postgresql://";
  if (!user.empty()) out.append(user).append("@");
  out.append(host);
  if (!port.empty()) out.append(":").append(port);
  return out.append("/").append(database);
}

// ---- rows

PostgresRows::PostgresRows(pg_result* result) : result_(result, PQclear) {}

int PostgresRows::size() const {
  return result_ ? PQntuples(result_.get()) : 0;
}
bool PostgresRows::null(int row, int column) const {
  return PQgetisnull(result_.get(), row, column) != 0;
}
std::string_view PostgresRows::bytes(int row, int column) const {
  return {PQgetvalue(result_.get(), row, column),
          static_cast<std::size_t>(PQgetlength(result_.get(), row, column))};
}
std::int64_t PostgresRows::integer(int row, int column) const {
  return postgres_integer(bytes(row, column));
}
std::optional<std::int64_t> PostgresRows::optional_integer(int row, int column) const {
  if (null(row, column)) return std::nullopt;
  return integer(row, column);
}

// ---- connection

PostgresConnection::PostgresConnection(std::string url, const std::string& schema)
    : url_(std::move(url)),
      schema_(quoted_identifier(schema)),
      place_(postgres_place(url_).value_or("PostgreSQL")) {}

PostgresConnection::~PostgresConnection() {
  close();
}

void PostgresConnection::close() {
  if (connection_ != nullptr) PQfinish(std::exchange(connection_, nullptr));
  sent_ = 0;
}

// The URL's own parameters come later and count before these. Where a primary's machine vanishes
// without a word, the connection is lost after 6 s, and with several hosts the next one is asked
// after 3 s more.
Result<pg_conn*> connect_to_postgres(const std::string& url, const std::string& place) {
  const bool several_hosts = place.find(',') != std::string::npos;
  constexpr auto names = std::to_array<const char*>(
      {"connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count",
       "tcp_user_timeout", "fallback_application_name", "dbname", nullptr});
  const auto values = std::to_array<const char*>(
      {several_hosts ? "3" : "10", "3", "1", "3", "6000", "millrace-broker", url.c_str(), nullptr});
  pg_conn* const made = PQconnectdbParams(names.data(), values.data(), 1);
  if (made == nullptr) return fail(Code::out_of_memory, place + ": no memory for a connection");
  if (PQstatus(made) != CONNECTION_OK) {
    Error error = connect_error(place, PQerrorMessage(made));
    PQfinish(made);
    return fail(std::move(error));
  }
  PQsetNoticeProcessor(
      made, [](void*, const char*) {}, nullptr);
  return made;
}

Status PostgresConnection::connect() {
  close();
  status_ = {};
  MILLRACE_ASSIGN(pg_conn* const made, connect_to_postgres(url_, place_));
  connection_ = made;
  if (PQsetnonblocking(made, 1) == 0 && PQenterPipelineMode(made) == 1) return {};
  Error error = connect_error(place_, PQerrorMessage(made));
  close();
  return fail(std::move(error));
}

void PostgresConnection::note_failure(Error error) {
  if (status_) status_ = fail(std::move(error));
}

void PostgresConnection::lose(const std::string& what) {
  note_failure(lost_connection(place_, what));
  close();
}

std::string with_schema(std::string_view sql, std::string_view schema) {
  std::string out;
  out.reserve(sql.size() + 64);
  for (std::size_t i = 0; i < sql.size(); ++i) {
    if (sql.substr(i, 2) == "@.") {
      out.append(schema).push_back('.');
      ++i;
    } else {
      out.push_back(sql[i]);
    }
  }
  return out;
}

void PostgresConnection::send_with(std::string_view sql, const PostgresParameters& parameters) {
  if (!status_) return;
  if (connection_ == nullptr) return lose("it is closed");
  const std::string text = with_schema(sql, schema_);
  const auto values = parameters.values();
  const auto lengths = parameters.lengths();
  const std::vector<int> formats(values.size(), binary);
  if (PQsendQueryParams(connection_, text.c_str(), parameters.size(), parameters.types(),
                        values.data(), lengths.data(), formats.data(), binary) != 1) {
    return lose(PQerrorMessage(connection_));
  }
  ++sent_;
  ++statements_;
}

// Waits until the server sends something, or takes something where `events` has POLLOUT, and reads
// what it sent. False: the connection is lost.
bool PostgresConnection::wait_for(short events) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> since;  // when the silence began to count
  while (true) {
    pollfd socket{PQsocket(connection_), events, 0};
    const int ready = poll(&socket, 1, look_again_ms);
    if (ready < 0 && errno != EINTR) return false;
    if (ready > 0) return (socket.revents & ~POLLOUT) == 0 || PQconsumeInput(connection_) == 1;
    const std::chrono::milliseconds most(silence_ms_);
    if (most.count() == 0) continue;
    if (!since) since = Clock::now();
    if (Clock::now() - *since < most) continue;
    lose("the server has said nothing for " + std::to_string(most.count()) + " ms");
    return false;
  }
}

// Sends what waits, and reads meanwhile: a server that cannot get rid of its answers would stop to
// read.
bool PostgresConnection::flush() {
  while (true) {
    const int left = PQflush(connection_);
    if (left == 0) return true;
    if (left < 0 || !wait_for(POLLIN | POLLOUT)) return false;
  }
}

// The next answer, once it is there. Null: the answers of one statement have ended, or the
// connection is lost.
pg_result* PostgresConnection::next_answer() {
  while (PQisBusy(connection_) == 1) {
    if (wait_for(POLLIN)) continue;
    if (connection_ == nullptr) return nullptr;
    break;  // libpq has the server's last words
  }
  return PQgetResult(connection_);
}

void PostgresConnection::note_result(const pg_result* result) {
  const char* const state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  const char* const message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
  const std::string what = message != nullptr ? message : PQresultErrorMessage(result);
  note_failure(state == nullptr ? lost_connection(place_, what)
                                : postgres_error(place_, state, what));
}

std::vector<PostgresRows> PostgresConnection::settle() {
  std::vector<PostgresRows> out;
  if (sent_ == 0 || connection_ == nullptr) return out;
  ++round_trips_;
  if (PQpipelineSync(connection_) != 1 || !flush()) {
    if (connection_ != nullptr) lose(PQerrorMessage(connection_));
    return out;
  }
  // Each statement has one answer and a null after it; the end of the pipeline has no null. After
  // a write that failed, libpq may give nulls for ever and call the connection sound.
  bool was_null = false;
  while (true) {
    Answer answer(next_answer());
    if (connection_ == nullptr) break;
    if (answer == nullptr) {
      if (PQstatus(connection_) == CONNECTION_OK && !std::exchange(was_null, true)) continue;
      lose(PQerrorMessage(connection_));
      break;
    }
    was_null = false;
    const ExecStatusType kind = PQresultStatus(answer.get());
    if (kind == PGRES_PIPELINE_SYNC) break;
    if (kind == PGRES_TUPLES_OK || kind == PGRES_COMMAND_OK) {
      out.emplace_back(answer.release());
    } else if (kind != PGRES_PIPELINE_ABORTED) {
      note_result(answer.get());
    }
    if (PQstatus(connection_) == CONNECTION_BAD) {
      lose(PQerrorMessage(connection_));
      break;
    }
  }
  sent_ = 0;
  if (!status_) out.clear();
  return out;
}

void PostgresConnection::recover() {
  if (connection_ != nullptr && sent_ != 0) settle();
  status_ = {};
  if (connection_ == nullptr) return;
  if (PQtransactionStatus(connection_) == PQTRANS_IDLE) return;
  ask("ROLLBACK");
  if (!status_) close();
  status_ = {};
}

std::string quoted_identifier(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) {
    if (c == '"') out.push_back('"');
    out.push_back(c);
  }
  out.push_back('"');
  return out;
}

}  // namespace millrace::broker
