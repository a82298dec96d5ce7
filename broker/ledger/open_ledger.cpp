#include "broker/ledger/open_ledger.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "broker/ledger/memory_ledger.hpp"
#include "broker/ledger/postgres_connection.hpp"
#include "broker/ledger/postgres_ledger.hpp"
#include "broker/ledger/sqlite_ledger.hpp"
#include "broker/ledger/stored_ledger.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

constexpr std::size_t memory_handles = 2, postgres_handles = 2;
constexpr std::string_view sqlite_scheme = "sqlite:", memory_scheme = "memory:";
constexpr const char* places =
    "name a folder, sqlite:///FOLDER, postgresql://USER@HOST/DATABASE, or memory:";

// The scheme of a URL with its colon. Empty: the text is a plain folder.
std::string_view scheme_of(std::string_view text) {
  for (const std::string_view known : {sqlite_scheme, memory_scheme}) {
    if (text.starts_with(known)) return known;
  }
  const auto end = text.find("://");
  if (end == std::string_view::npos || end == 0) return {};
  const bool word = std::ranges::all_of(text.substr(0, end), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '+' || c == '-' || c == '.';
  });
  return word ? text.substr(0, end + 1) : std::string_view();
}

std::unexpected<Error> bad_place(const std::string& text, const std::string& why,
                                 const char* hint) {
  return fail(Code::usage, "ledger '" + text + "': " + why, hint);
}

Result<LedgerPlace> sqlite_place(const std::string& text) {
  const std::string rest = text.substr(sqlite_scheme.size());
  if (!rest.starts_with("///")) {
    return bad_place(text, "an sqlite URL has three slashes and then the folder",
                     "write sqlite:///var/lib/millrace; name a relative folder without sqlite:");
  }
  if (rest.find_first_of("?#%") != std::string::npos) {
    return bad_place(text, "an sqlite URL has no parameters and no escapes",
                     "name a folder with ?, # or % without sqlite://");
  }
  return LedgerPlace{LedgerPlace::Kind::sqlite, rest.substr(2), {}, text};
}

// SQLite would create the database with the mode that the umask allows, and gives its log the mode
// of the database. Opening the file beforehand creates it for its owner only, and withdraws the
// access of others to one that is there.
Status make_private_file(Env& env, const std::string& path) {
  MILLRACE_TRY(env.open(path, OpenMode::write));
  for (const char* const log : {"-wal", "-shm"}) {
    MILLRACE_ASSIGN(const bool left_over, env.exists(path + log));
    if (left_over) MILLRACE_TRY(env.open(path + log, OpenMode::write));
  }
  return {};
}

// SQLite makes its log beside the database, and would only say that some statement failed.
Status check_writable(Env& env, const std::string& folder) {
  const std::string trial = folder + "/.writable";
  const auto file = env.open(trial, OpenMode::replace);
  const Status done = file ? env.remove(trial) : fail(file.error());
  if (done) return {};
  Error error = done.error();
  error.message = "the ledger's folder " + folder + " cannot be written to: " + error.message;
  error.hint = "give the user of the broker the right to write to it, or name another --ledger";
  return fail(std::move(error));
}

Result<std::unique_ptr<Ledger>> open_in_folder(const std::string& folder,
                                               OpenLedgerOptions options) {
  const std::string path = folder + "/" + ledger_file;
  MILLRACE_TRY(options.env->make_directories(folder));
  MILLRACE_TRY(check_writable(*options.env, folder));
  MILLRACE_TRY(make_private_file(*options.env, path));
  SqliteLedgerOptions with;
  with.publish = std::move(options.publish);
  with.read_columns = std::move(options.read_columns);
  with.env = options.env;
  with.disk_marks = std::move(options.disk_marks);
  with.backups = std::move(options.backups);
  return open_sqlite_ledger(path, std::move(with));
}

}  // namespace

Result<LedgerPlace> parse_ledger_place(const std::string& text) {
  if (text.empty()) return fail(Code::usage, "the ledger has no place", places);
  const std::string_view scheme = scheme_of(text);
  if (scheme.empty()) return LedgerPlace{LedgerPlace::Kind::sqlite, text, {}, text};
  if (scheme == sqlite_scheme) return sqlite_place(text);
  if (scheme == memory_scheme) {
    if (text == memory_scheme) return LedgerPlace{LedgerPlace::Kind::memory, {}, {}, text};
    return bad_place(
        text, "nothing follows memory:", "write memory: alone, or ./ before a folder of this name");
  }
  if (scheme == "postgresql:" || scheme == "postgres:") {
    MILLRACE_ASSIGN(std::string shown, postgres_place(text));
    return LedgerPlace{LedgerPlace::Kind::postgres, {}, text, std::move(shown)};
  }
  return bad_place(text, "the scheme '" + std::string(scheme) + "' is not known", places);
}

Result<std::vector<std::unique_ptr<Ledger>>> open_ledger(const LedgerPlace& place,
                                                         OpenLedgerOptions options) {
  std::vector<std::unique_ptr<Ledger>> handles;
  if (place.kind == LedgerPlace::Kind::postgres) {
    PostgresLedgerOptions with;
    with.broker = options.broker.empty() ? random_id() : options.broker;
    for (std::size_t i = 0; i < postgres_handles; ++i) {
      MILLRACE_ASSIGN(auto store, open_postgres_store(place.url, with));
      handles.push_back(make_stored_ledger(std::move(store), {options.publish}));
    }
    return handles;
  }
  if (place.kind == LedgerPlace::Kind::sqlite) {
    MILLRACE_ASSIGN(auto ledger, open_in_folder(place.folder, std::move(options)));
    handles.push_back(std::move(ledger));
    return handles;
  }
  const auto store = make_memory_store({std::move(options.publish), ""});
  for (std::size_t i = 0; i < memory_handles; ++i) handles.push_back(make_memory_ledger(store));
  return handles;
}

}  // namespace millrace::broker
