// Opens the two places of a copy.
#include <filesystem>

#include "broker/ledger/ledger_copy.hpp"
#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/postgres_copy.hpp"
#include "broker/ledger/sqlite_copy.hpp"

namespace millrace::broker {
namespace {

Result<LedgerPlace> place_of(const std::string& text) {
  MILLRACE_ASSIGN(LedgerPlace place, parse_ledger_place(text));
  if (place.kind != LedgerPlace::Kind::memory) return place;
  return fail(Code::usage, "a ledger in memory ends with its broker and cannot be copied",
              "name a folder, sqlite:///FOLDER or postgresql://USER@HOST/DATABASE");
}

bool same(const LedgerPlace& one, const LedgerPlace& other) {
  if (one.kind != other.kind) return false;
  if (one.kind == LedgerPlace::Kind::postgres) return one.url == other.url;
  std::error_code ignored;
  return one.folder == other.folder ||
         std::filesystem::equivalent(one.folder, other.folder, ignored);
}

}  // namespace

Result<CopyReport> migrate_ledger(const std::string& from, const std::string& to,
                                  const CopyWatch& watch) {
  MILLRACE_ASSIGN(const LedgerPlace source, place_of(from));
  MILLRACE_ASSIGN(const LedgerPlace target, place_of(to));
  if (same(source, target)) {
    return fail(Code::usage, "both places are " + source.shown, "name two places");
  }
  const bool from_file = source.kind == LedgerPlace::Kind::sqlite;
  const bool to_file = target.kind == LedgerPlace::Kind::sqlite;
  MILLRACE_ASSIGN(const auto reading,
                  from_file ? open_sqlite_source(source.folder) : open_postgres_source(source.url));
  MILLRACE_ASSIGN(const auto writing,
                  to_file ? open_sqlite_target(target.folder) : open_postgres_target(target.url));
  return copy_ledger(*reading, *writing, watch);
}

}  // namespace millrace::broker
