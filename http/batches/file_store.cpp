#include "http/batches/file_store.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::http {
namespace {

constexpr std::int64_t us_per_s = 1'000 * us_per_ms;
constexpr std::string_view data_end = ".data";

Result<StoredFile> read_record(const std::string& text) {
  try {
    const auto value = nlohmann::json::parse(text);
    StoredFile file;
    value.at("tenant").get_to(file.tenant);
    value.at("created_us").get_to(file.created_us);
    value.at("hidden").get_to(file.hidden);
    MILLRACE_ASSIGN(file.object, openai::read_file_object(value.at("file").dump()));
    return file;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::ledger_corrupt, std::string("it is no record: ") + error.what());
  }
}

}  // namespace

Result<std::unique_ptr<FileStore>> FileStore::open(Env& env, const Clock& clock, std::string folder,
                                                   const std::set<std::string>& expected,
                                                   FileLimits limits) {
  std::unique_ptr<FileStore> store(new FileStore(env, clock, std::move(folder), limits));
  MILLRACE_TRY(env.make_directories(store->folder_ + "/parts"));
  MILLRACE_TRY(store->load(expected));
  return store;
}

Status FileStore::load(const std::set<std::string>& expected) {
  MILLRACE_ASSIGN(const auto parts, env_.list(folder_ + "/parts"));
  for (const auto& name : parts) MILLRACE_TRY(env_.drop(folder_ + "/parts/" + name));
  const auto take = [this](const std::string& text) -> Status {
    MILLRACE_ASSIGN(StoredFile file, read_record(text));
    count(file);
    std::string id = file.object.id;
    files_.emplace(std::move(id), std::move(file));
    return {};
  };
  MILLRACE_ASSIGN(const auto others, records_.load(take));
  for (const std::string& name : others) {
    if (name.ends_with(data_end)) {
      const std::string id = name.substr(0, name.size() - data_end.size());
      // What belongs to a record that cannot be read stays.
      MILLRACE_ASSIGN(const bool has_record, records_.has(id));
      if (has_record || expected.contains(id)) continue;
    }
    MILLRACE_TRY(env_.remove(records_.path_of(name)));
  }
  return {};
}

std::string FileStore::new_id() {
  return "file-" + random_id();
}

void FileStore::count(const StoredFile& file) {
  Holding& holding = holdings_[file.tenant];
  ++holding.files;
  holding.bytes += file.object.bytes;
}

// The caller has the lock of the list.
Status FileStore::check_holding(const std::string& tenant, std::uint64_t more_bytes) {
  const Holding& holding = holdings_[tenant];
  if (holding.files >= files_per_tenant) {
    return fail(Code::limit_exceeded,
                "the server keeps " + std::to_string(files_per_tenant) +
                    " files for you, and takes no more",
                "delete files that are not needed");
  }
  const std::uint64_t most = limits_.tenant_bytes, bytes = holding.bytes + holding.coming;
  if (most == 0 || (bytes < most && most - bytes >= more_bytes)) return {};
  return fail(Code::limit_exceeded,
              "file: the server keeps at most " + size_text(most) +
                  " of files for you, uploads and results of batches together, and this one goes "
                  "beyond that",
              "delete files that are not needed; --http-files-size is the server's limit");
}

Status FileStore::check_room(const std::string& tenant) {
  {
    const std::scoped_lock lock(mutex_);
    MILLRACE_TRY(check_holding(tenant, 0));
  }
  return check_disk(0);
}

Status FileStore::check_disk(std::uint64_t bytes) {
  MILLRACE_ASSIGN(const std::uint64_t free, env_.free_bytes(folder_));
  const std::uint64_t taken = limits_.spare_bytes + promised_;
  if (free >= taken && free - taken >= bytes) return {};
  return fail(Error{Code::disk_full, "the server's disk has no room for the file",
                    "make room on the server's disk, or delete files", limits::retry_room_ms});
}

Status FileStore::promise(std::uint64_t bytes) {
  MILLRACE_TRY(check_disk(bytes));
  promised_ += bytes;
  return {};
}

Status FileStore::expect(const std::string& tenant, std::uint64_t bytes) {
  if (bytes == 0) return {};
  const std::scoped_lock lock(mutex_);
  MILLRACE_TRY(check_holding(tenant, bytes));
  holdings_[tenant].coming += bytes;
  return {};
}

void FileStore::forget(const std::string& tenant, std::uint64_t bytes) {
  if (bytes == 0) return;
  const std::scoped_lock lock(mutex_);
  holdings_[tenant].coming -= bytes;
}

Result<std::unique_ptr<File>> FileStore::begin_part(const std::string& id) {
  return env_.open(part_path(id), OpenMode::temporary);
}

void FileStore::drop_part(const std::string& id) {
  if (const Status gone = env_.drop(part_path(id)); !gone) {
    log_warn("the rest of an upload was not removed", gone.error());
  }
}

Status FileStore::save(const StoredFile& file) {
  std::string text;
  JsonWriter json(text);
  json.begin_object()
      .field("tenant", file.tenant)
      .field("created_us", file.created_us)
      .field("hidden", file.hidden)
      .key("file");
  openai::write_file(json, file.object);
  json.end_object();
  return records_.save(file.object.id, text);
}

// Without a record there is no file: the data goes back to whom it came from, who may try again.
void FileStore::give_back(const std::string& id, const std::string& from) {
  Status done = records_.remove(id);  // it may be there, and not be durable
  if (done || done.error().code == Code::not_found) done = env_.rename(data_path(id), from);
  if (!done) log_warn("the data of a file without a record stays", done.error());
}

Status FileStore::add(StoredFile file, const std::string& from) {
  const std::scoped_lock change(change_mutex_);
  const std::string& id = file.object.id;
  MILLRACE_ASSIGN(const bool there, env_.exists(from));
  if (there) MILLRACE_TRY(env_.rename(from, data_path(id)));
  if (const Status saved = save(file); !saved) {
    if (there) give_back(id, from);
    return saved;
  }
  const std::scoped_lock lock(mutex_);
  if (const auto [at, fresh] = files_.emplace(id, std::move(file)); fresh) count(at->second);
  return {};
}

bool FileStore::is_visible(const StoredFile& file) const {
  return !file.hidden &&
         (!file.object.expires_s || *file.object.expires_s > clock_.wall_us() / us_per_s);
}

std::optional<StoredFile> FileStore::find(const std::string& tenant, const std::string& id) {
  const std::scoped_lock lock(mutex_);
  const auto found = files_.find(id);
  if (found == files_.end() || found->second.tenant != tenant || !is_visible(found->second)) {
    return std::nullopt;
  }
  return found->second;
}

std::vector<StoredFile> FileStore::list(const std::string& tenant) {
  std::vector<StoredFile> files;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, file] : files_) {
      if (file.tenant == tenant && is_visible(file)) files.push_back(file);
    }
  }
  std::ranges::sort(files, {}, place_of<StoredFile>);
  return files;
}

std::optional<Place> FileStore::place(const std::string& tenant, const std::string& id) {
  const std::scoped_lock lock(mutex_);
  if (const auto found = files_.find(id); found != files_.end()) {
    return found->second.tenant == tenant ? std::optional(place_of(found->second)) : std::nullopt;
  }
  const auto removed = std::ranges::find_if(
      removed_, [&](const auto& one) { return one.first == tenant && one.second.second == id; });
  return removed == removed_.end() ? std::nullopt : std::optional(removed->second);
}

Result<std::unique_ptr<File>> FileStore::open_data(const std::string& id) {
  return env_.open(data_path(id), OpenMode::read);
}

// The record goes first. What a crash leaves then is data without a record, which load() removes.
Status FileStore::erase(const std::string& id) {
  MILLRACE_TRY(records_.remove(id));
  {
    const std::scoped_lock lock(mutex_);
    const auto found = files_.find(id);
    Holding& holding = holdings_[found->second.tenant];
    --holding.files;
    holding.bytes -= found->second.object.bytes;
    removed_.emplace_back(found->second.tenant, place_of(found->second));
    if (removed_.size() > removed_kept) removed_.pop_front();
    files_.erase(found);
  }
  const Status removed = env_.remove(data_path(id));
  return removed || removed.error().code != Code::not_found ? removed : Status();
}

Status FileStore::remove(const std::string& tenant, const std::string& id, const InUse& in_use) {
  const std::scoped_lock change(change_mutex_);
  auto file = find(tenant, id);
  if (!file) return fail(Code::not_found, "there is no file " + id, "GET /v1/files lists yours");
  if (!in_use(id)) return erase(id);
  file->hidden = true;
  MILLRACE_TRY(save(*file));
  const std::scoped_lock lock(mutex_);
  files_[id] = *std::move(file);
  return {};
}

void FileStore::sweep(const InUse& in_use) {
  std::vector<std::string> gone;
  {
    const std::scoped_lock lock(mutex_);
    for (const auto& [id, file] : files_) {
      if (!is_visible(file)) gone.push_back(id);
    }
  }
  const std::scoped_lock change(change_mutex_);
  for (const std::string& id : gone) {
    if (in_use(id)) continue;
    if (const Status erased = erase(id); !erased) {
      log_warn("a file that has expired was not removed", erased.error());
    }
  }
}

}  // namespace millrace::http
