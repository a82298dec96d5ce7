#include "broker/ledger/postgres_errors.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace millrace::broker {
namespace {

struct Meaning {
  std::string_view state;  // begins so
  Code code;
  const char* hint;
};

constexpr const char* again = "nothing needs to be done: it is tried again";

// The first one that fits counts.
constexpr auto meanings = std::to_array<Meaning>({
    {"40", Code::ledger_unavailable, again},     // a deadlock, a serialization failure
    {"55P03", Code::ledger_unavailable, again},  // a lock was not to be had in time
    {"57014", Code::ledger_unavailable,
     "it is tried again; if this repeats, raise statement_timeout and lock_timeout for the "
     "broker's user"},
    {"25P03", Code::ledger_unavailable,
     "it is tried again; if this repeats, raise idle_in_transaction_session_timeout for the "
     "broker's user"},
    {"57P", Code::ledger_unavailable, "wait until the server has started again"},
    {"08", Code::ledger_unavailable, "wait until the server can be reached again"},
    {"53300", Code::ledger_unavailable,
     "raise max_connections, end other clients, or put a pooler in front"},
    {"53100", Code::disk_full, "make room on the disk of the PostgreSQL server"},
    {"53", Code::ledger_unavailable, "give the PostgreSQL server more memory"},
    {"25006", Code::ledger_unavailable,
     "this server takes no writes: name the primary, or add target_session_attrs=read-write and "
     "all hosts to the URL"},
    {"28", Code::unauthorized, "check the user and its password in the URL or the password file"},
    {"3D000", Code::not_found, "create the database first: createdb"},
    {"42501", Code::unauthorized,
     "give the broker's user the rights: it must own the ledger's schema, or be allowed to create "
     "it in the database"},
    {"42P01", Code::ledger_corrupt, "restore the database from a backup"},
    {"XX", Code::ledger_corrupt, "restore the database from a backup"},
    {"23", Code::ledger_corrupt, "restore the database from a backup"},
    {"58030", Code::io_error, "check the disk of the PostgreSQL server"},
});

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  std::ranges::replace(text, '\t', ' ');
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) {
    text.pop_back();
  }
  return text;
}

// Without the names in quotes: a host, a database or a user may be called anything.
std::string without_names(std::string_view text) {
  std::string out;
  bool in_name = false;
  for (const char c : text) {
    if (c == '"') in_name = !in_name;
    if (!in_name || c == '"') out.push_back(c);
  }
  return out;
}

}  // namespace

Error postgres_error(const std::string& place, std::string_view state, const std::string& message) {
  const std::string what = place + ": " + one_line(message) + " [" + std::string(state) + "]";
  const auto meaning = std::ranges::find_if(
      meanings, [state](const Meaning& one) { return state.starts_with(one.state); });
  if (meaning != meanings.end()) return {meaning->code, what, meaning->hint};
  return {Code::internal, what, "look at the log of the PostgreSQL server"};
}

Error connect_error(const std::string& place, const std::string& message) {
  struct Words {
    const char* say;
    Code code;
    const char* hint;
  };
  static constexpr auto known = std::to_array<Words>({
      {"password", Code::unauthorized,
       "check the user and its password in the URL or the password file (~/.pgpass)"},
      {"authentication failed", Code::unauthorized,
       "check the user in the URL, and the server's pg_hba.conf"},
      {"no pg_hba.conf entry", Code::unauthorized,
       "allow the broker's user and address in the server's pg_hba.conf"},
      {"database \"\" does not exist", Code::not_found, "create the database first: createdb"},
      {"role \"\" does not exist", Code::unauthorized, "create the user first: createuser"},
      {"is not permitted to log in", Code::unauthorized,
       "let the broker's user log in: ALTER ROLE ... LOGIN"},
      {"permission denied for database", Code::unauthorized,
       "let the broker's user connect: GRANT CONNECT ON DATABASE ..."},
      {"too many connections for", Code::ledger_unavailable,
       "raise the CONNECTION LIMIT of the user or the database, or end other clients"},
      {"too many clients", Code::ledger_unavailable,
       "raise max_connections, end other clients, or put a pooler in front"},
      {"remaining connection slots", Code::ledger_unavailable,
       "raise max_connections, end other clients, or put a pooler in front"},
      {"read-only", Code::ledger_unavailable,
       "none of the hosts takes writes: name the primary among them"},
      {"certificate", Code::unauthorized,
       "check sslmode and sslrootcert in the URL, and the server's certificate"},
  });
  const std::string what = place + ": " + one_line(message), words = without_names(message);
  for (const Words& one : known) {
    if (words.find(one.say) != std::string::npos) return {one.code, what, one.hint};
  }
  return {Code::ledger_unavailable, what,
          "check that the server runs, and the host and port in the URL"};
}

Error lost_connection(const std::string& place, const std::string& message) {
  return {Code::ledger_unavailable, place + ": the connection was lost: " + one_line(message),
          "wait until the server can be reached again"};
}

}  // namespace millrace::broker
