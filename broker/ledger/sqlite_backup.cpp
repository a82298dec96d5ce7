#include "broker/ledger/sqlite_backup.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <utility>

#include "broker/ledger/open_ledger.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::broker {
namespace {

constexpr std::chrono::milliseconds step_time{2};
constexpr int pages_at_once = 16;

Status check_name(const std::string& name) {
  const bool good = std::ranges::all_of(name, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
  if (good && !name.empty() && name.front() != '.' && name.size() <= limits::id_bytes / 2) {
    return {};
  }
  return fail(Code::usage, "a backup cannot be named '" + name + "'",
              "use letters, digits, -, _ and ., the last not first");
}

}  // namespace

struct SqliteBackup::Copy {
  std::string name, folder, final_folder;
  Database to;
  sqlite3_backup* handle = nullptr;
  std::string file() const { return folder + "/" + ledger_file; }
  ~Copy() {
    if (handle != nullptr) sqlite3_backup_finish(handle);
  }
};

SqliteBackup::SqliteBackup(Database& from, Env& env, std::string folder)
    : from_(from), env_(env), folder_(std::move(folder)) {}

SqliteBackup::~SqliteBackup() {
  drop();
}

// Removes what was copied so far.
void SqliteBackup::drop() {
  if (!copy_) return;
  const std::string file = copy_->file();
  copy_.reset();
  for (const char* const suffix : {"", "-journal", "-wal"}) {
    (void)env_.remove(file + suffix);  // a rest is removed when a copy of this name begins
  }
}

Status SqliteBackup::begin(const std::string& name) {
  MILLRACE_TRY(check_name(name));
  auto copy = std::make_unique<Copy>();
  copy->name = name;
  copy->folder = folder_ + "/." + name;
  copy->final_folder = folder_ + "/" + name;
  MILLRACE_ASSIGN(const bool there, env_.exists(copy->final_folder));
  if (there) {
    return fail(Code::conflict,
                "there is a backup named " + name + " already: " + copy->final_folder,
                "choose another name, or remove it");
  }
  MILLRACE_TRY(env_.make_directories(copy->folder));
  MILLRACE_TRY(env_.open(copy->file(), OpenMode::replace));
  MILLRACE_TRY(copy->to.open(copy->file(), ""));
  copy->handle = sqlite3_backup_init(copy->to.handle(), "main", from_.handle(), "main");
  if (copy->handle == nullptr) return fail(copy->to.error("beginning the backup"));
  copy_ = std::move(copy);
  return {};
}

// The copy says, like its source, that it has a write-ahead log. Without one it is a single file.
Status SqliteBackup::finish() {
  sqlite3_backup_finish(std::exchange(copy_->handle, nullptr));
  MILLRACE_TRY(copy_->to.execute("PRAGMA journal_mode=DELETE"));
  const std::string file = copy_->file(), from = copy_->folder, to = copy_->final_folder;
  copy_.reset();
  MILLRACE_ASSIGN(const auto whole, env_.open(file, OpenMode::write));
  MILLRACE_TRY(whole->sync());
  MILLRACE_TRY(env_.sync_directory(from));
  return env_.rename(from, to);
}

Result<BackUpReply> SqliteBackup::step(const BackUp& op) {
  if (copy_ && copy_->name != op.name) {
    return fail(Code::conflict, "the backup " + copy_->name + " is under way",
                "wait until it is done");
  }
  if (op.cancel) {
    drop();
    return BackUpReply{};
  }
  if (!copy_) MILLRACE_TRY(begin(op.name));
  const auto end = std::chrono::steady_clock::now() + step_time;
  int rc = SQLITE_OK;
  while (rc == SQLITE_OK && std::chrono::steady_clock::now() < end) {
    rc = sqlite3_backup_step(copy_->handle, pages_at_once);
  }
  if (rc != SQLITE_OK && rc != SQLITE_DONE) {
    Error failure{(rc & 0xff) == SQLITE_FULL ? Code::disk_full : Code::io_error,
                  "the backup " + op.name + " failed: " + sqlite3_errstr(rc),
                  "look at the disk of " + folder_ + " and begin again"};
    drop();
    return fail(std::move(failure));
  }
  const auto pages = static_cast<std::uint64_t>(sqlite3_backup_pagecount(copy_->handle));
  const auto left = static_cast<std::uint64_t>(sqlite3_backup_remaining(copy_->handle));
  BackUpReply reply{copy_->final_folder, pages * page_bytes, (pages - left) * page_bytes, false};
  if (rc == SQLITE_DONE) {
    if (const Status done = finish(); !done) {
      drop();
      return fail(done.error());
    }
    reply.done = true;
  }
  return reply;
}

}  // namespace millrace::broker
