#include "tests/unit/ledger/power_cut_disk.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "schemas/base/random_id.hpp"

namespace millrace::broker::test {
namespace {

constexpr std::size_t sector_bytes = 512;

void change(std::string& content, const PowerCutDisk::Change& c) {
  if (c.truncation) {
    content.resize(c.offset, '\0');
    return;
  }
  content.resize(std::max<std::size_t>(content.size(), c.offset + c.bytes.size()), '\0');
  content.replace(c.offset, c.bytes.size(), c.bytes);
}

struct OpenFile {
  sqlite3_file base;
  PowerCutDisk* disk;
  PowerCutDisk::File* file;
  bool syncs_folder;  // SQLite's Unix VFS syncs the folder with the first sync of a log or journal
  const std::string* temporary;  // the name of a file that goes when it is closed; null: it stays
  std::shared_ptr<PowerCutDisk::LogIndex> index;  // null: this connection has not opened it
  unsigned shared, exclusive;  // bits: the locks of the index that this connection holds
};

OpenFile& as_open(sqlite3_file* file) {
  return *reinterpret_cast<OpenFile*>(file);
}

int close_file(sqlite3_file* file) {
  OpenFile& f = as_open(file);
  if (f.temporary != nullptr) {
    f.disk->forget(*f.temporary);
    delete f.temporary;
  }
  f.~OpenFile();
  return SQLITE_OK;
}

int read_file_at(sqlite3_file* file, void* into, int amount, sqlite3_int64 offset) {
  const OpenFile& f = as_open(file);
  if (!f.disk->step_read()) return SQLITE_IOERR_READ;
  const std::string& content = f.file->content;
  const auto at = static_cast<std::size_t>(offset), wanted = static_cast<std::size_t>(amount);
  const std::size_t have = at < content.size() ? std::min(wanted, content.size() - at) : 0;
  std::memset(into, 0, wanted);
  std::memcpy(into, content.data() + (have == 0 ? 0 : at), have);
  return have == wanted ? SQLITE_OK : SQLITE_IOERR_SHORT_READ;
}

int write_file_at(sqlite3_file* file, const void* from, int amount, sqlite3_int64 offset) {
  const OpenFile& f = as_open(file);
  if (!f.disk->step()) return SQLITE_IOERR_WRITE;
  const auto end = static_cast<std::size_t>(offset) + static_cast<std::size_t>(amount);
  const std::size_t size = f.file->content.size();
  if (end > size && !f.disk->room_for(end - size)) return SQLITE_FULL;
  PowerCutDisk::Change c{static_cast<std::uint64_t>(offset),
                         {static_cast<const char*>(from), static_cast<std::size_t>(amount)}};
  change(f.file->content, c);
  ++f.file->writes;
  f.file->unsynced.push_back(std::move(c));
  return SQLITE_OK;
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  const OpenFile& f = as_open(file);
  if (!f.disk->step()) return SQLITE_IOERR_TRUNCATE;
  PowerCutDisk::Change c{static_cast<std::uint64_t>(size), {}, true};
  f.file->cuts += c.offset < f.file->content.size() ? 1 : 0;
  change(f.file->content, c);
  f.file->unsynced.push_back(std::move(c));
  return SQLITE_OK;
}

int sync_file(sqlite3_file* file, int) {
  const OpenFile& f = as_open(file);
  if (!f.disk->step()) {
    if (!f.disk->is_cut()) f.file->unsynced.clear();
    return SQLITE_IOERR_FSYNC;
  }
  f.disk->sync(*f.file);
  if (f.syncs_folder) f.disk->sync_names();
  return SQLITE_OK;
}

int size_of_file(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(as_open(file).file->content.size());
  return SQLITE_OK;
}
int lock_file(sqlite3_file*, int) {
  return SQLITE_OK;
}
int check_lock(sqlite3_file*, int* held) {
  *held = 0;
  return SQLITE_OK;
}
int control_file(sqlite3_file*, int, void*) {
  return SQLITE_NOTFOUND;
}
int sector_size(sqlite3_file*) {
  return 4096;
}
int device_promises(sqlite3_file*) {
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

// The index of the log that the connections of a process share. It is memory, and no part of the
// disk: a crash loses it.
int map_index(sqlite3_file* file, int region, int size, int extend, void volatile** at) {
  OpenFile& f = as_open(file);
  if (f.index == nullptr) f.index = f.file->index.lock();
  if (f.index == nullptr) {
    f.index = std::make_shared<PowerCutDisk::LogIndex>();
    f.file->index = f.index;
  }
  auto& regions = f.index->regions;
  const auto wanted = static_cast<std::size_t>(region);
  while (regions.size() <= wanted && extend != 0) {
    regions.push_back(std::make_unique<char[]>(static_cast<std::size_t>(size)));
  }
  *at = regions.size() > wanted ? regions[wanted].get() : nullptr;
  return SQLITE_OK;
}

int lock_index(sqlite3_file* file, int offset, int count, int flags) {
  OpenFile& f = as_open(file);
  const unsigned wanted = ((1U << count) - 1U) << offset;
  auto& index = *f.index;
  const auto others_share = [&](unsigned bit) {
    const int mine = (f.shared & bit) != 0 ? 1 : 0;
    return index.shared[static_cast<std::size_t>(std::countr_zero(bit))] > mine;
  };
  for (unsigned bit = 1U << offset; bit <= wanted; bit <<= 1U) {
    if ((flags & SQLITE_SHM_LOCK) == 0 || (wanted & bit) == 0) continue;
    const bool refused = (index.exclusive & ~f.exclusive & bit) != 0 ||
                         ((flags & SQLITE_SHM_EXCLUSIVE) != 0 && others_share(bit));
    if (refused) return SQLITE_BUSY;
  }
  for (std::size_t i = 0; i < index.shared.size(); ++i) {
    const unsigned bit = 1U << i;
    if ((wanted & bit) == 0 || (flags & SQLITE_SHM_SHARED) == 0) continue;
    const bool takes = (flags & SQLITE_SHM_LOCK) != 0;
    if (takes != ((f.shared & bit) != 0)) index.shared[i] += takes ? 1 : -1;
    f.shared = takes ? f.shared | bit : f.shared & ~bit;
  }
  if ((flags & SQLITE_SHM_EXCLUSIVE) != 0) {
    const bool takes = (flags & SQLITE_SHM_LOCK) != 0;
    index.exclusive = takes ? index.exclusive | wanted : index.exclusive & ~wanted;
    f.exclusive = takes ? f.exclusive | wanted : f.exclusive & ~wanted;
  }
  return SQLITE_OK;
}

void fence_index(sqlite3_file*) {}

int unmap_index(sqlite3_file* file, int) {
  as_open(file).index.reset();
  return SQLITE_OK;
}

const sqlite3_io_methods methods = {2,
                                    close_file,
                                    read_file_at,
                                    write_file_at,
                                    truncate_file,
                                    sync_file,
                                    size_of_file,
                                    lock_file,
                                    lock_file,
                                    check_lock,
                                    control_file,
                                    sector_size,
                                    device_promises,
                                    map_index,
                                    lock_index,
                                    fence_index,
                                    unmap_index,
                                    nullptr,
                                    nullptr};

PowerCutDisk& disk_of(sqlite3_vfs* vfs) {
  return *static_cast<PowerCutDisk*>(vfs->pAppData);
}

int open_path(sqlite3_vfs* vfs, const char* path, sqlite3_file* file, int flags, int* out_flags) {
  PowerCutDisk& disk = disk_of(vfs);
  file->pMethods = nullptr;
  const std::string* temporary = path == nullptr ? new std::string(disk.new_name()) : nullptr;
  PowerCutDisk::File& f = disk.file(temporary == nullptr ? path : *temporary);
  if (!f.exists) {
    if ((flags & SQLITE_OPEN_CREATE) == 0 || !disk.step()) {
      delete temporary;
      return SQLITE_CANTOPEN;
    }
    f.exists = true;
    f.content.clear();
    f.unsynced.push_back({0, {}, true});
  }
  const bool log = (flags & (SQLITE_OPEN_WAL | SQLITE_OPEN_MAIN_JOURNAL)) != 0;
  new (file) OpenFile{{&methods}, &disk, &f, log, temporary, nullptr, 0, 0};
  if (out_flags != nullptr) *out_flags = flags;
  return SQLITE_OK;
}

int delete_path(sqlite3_vfs* vfs, const char* path, int sync_folder) {
  PowerCutDisk& disk = disk_of(vfs);
  if (!disk.step()) return SQLITE_IOERR_DELETE;
  PowerCutDisk::File& f = disk.file(path);
  if (!f.exists) return SQLITE_IOERR_DELETE_NOENT;
  f.exists = false;
  if (sync_folder != 0) disk.sync_names();
  return SQLITE_OK;
}

int access_path(sqlite3_vfs* vfs, const char* path, int, int* answer) {
  *answer = disk_of(vfs).file(path).exists ? 1 : 0;
  return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* path, int size, char* out) {
  sqlite3_snprintf(size, out, "%s", path);
  return SQLITE_OK;
}

int randomness(sqlite3_vfs*, int size, char* out) {
  sqlite3_vfs* real = sqlite3_vfs_find(nullptr);
  return real->xRandomness(real, size, out);
}
int sleep_us(sqlite3_vfs*, int us) {
  return us;
}
int current_time(sqlite3_vfs*, double* days) {
  *days = 2460000.5;
  return SQLITE_OK;
}

// The file operations of the ledger beside SQLite's: the sync of the folder, and the free space.
class DiskEnv final : public Env {
 public:
  explicit DiskEnv(PowerCutDisk& disk) : disk_(disk) {}
  Result<std::unique_ptr<FileLock>> lock(const std::string&) override {
    return std::make_unique<FileLock>();
  }
  Result<bool> exists(const std::string& path) override { return disk_.file(path).exists; }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>{};
  }
  Status make_directories(const std::string&) override { return {}; }
  Status rename(const std::string& from, const std::string&) override {
    return fail(Code::internal, "the test's disk renames nothing: " + from);
  }
  Status remove(const std::string& path) override {
    return fail(Code::internal, "the test's disk removes nothing: " + path);
  }
  Status sync_directory(const std::string& folder) override {
    if (!disk_.step()) return fail(Code::io_error, "no power: " + folder);
    disk_.sync_names();
    return {};
  }
  Result<std::uint64_t> free_bytes(const std::string&) override { return disk_.free_bytes(); }

 private:
  Result<std::unique_ptr<File>> open_file(const std::string& path, OpenMode,
                                          millrace::Access) override {
    return fail(Code::internal, "the test's disk holds no plain files: " + path);
  }

  PowerCutDisk& disk_;
};

}  // namespace

PowerCutDisk::PowerCutDisk()
    : name_("power-cut-" + random_id()),
      env_(std::make_unique<DiskEnv>(*this)),
      vfs_(std::make_unique<sqlite3_vfs>()) {
  vfs_->iVersion = 1;
  vfs_->szOsFile = sizeof(OpenFile);
  vfs_->mxPathname = 512;
  vfs_->zName = name_.c_str();
  vfs_->pAppData = this;
  vfs_->xOpen = open_path;
  vfs_->xDelete = delete_path;
  vfs_->xAccess = access_path;
  vfs_->xFullPathname = full_path;
  vfs_->xRandomness = randomness;
  vfs_->xSleep = sleep_us;
  vfs_->xCurrentTime = current_time;
  sqlite3_vfs_register(vfs_.get(), 0);
}

PowerCutDisk::~PowerCutDisk() {
  sqlite3_vfs_unregister(vfs_.get());
}

bool PowerCutDisk::step() {
  if (!cut_ && look_) look_();
  if (cut_) return false;
  ++calls_;
  cut_ = calls_ == cut_at_;
  if (calls_ != fail_at_) return !cut_;
  failed_ = true;
  return false;
}

bool PowerCutDisk::step_read() {
  if (cut_) return false;
  if (++reads_ != fail_read_at_) return true;
  failed_ = true;
  return false;
}

std::uint64_t PowerCutDisk::used() const {
  std::uint64_t bytes = 0;
  for (const auto& [path, file] : files_) bytes += file.exists ? file.content.size() : 0;
  return bytes;
}

std::uint64_t PowerCutDisk::free_bytes() const {
  if (capacity_ == 0) return UINT64_MAX;
  return capacity_ - std::min(capacity_, used());
}

void PowerCutDisk::sync(File& file) {
  ++syncs_;
  for (const Change& c : file.unsynced) change(file.durable, c);
  file.unsynced.clear();
}

void PowerCutDisk::sync_names() {
  for (auto& [path, file] : files_) file.existed = file.exists;
}

// What a file holds when the power is back: its synced content, and a part of the changes since.
PowerCutDisk::File PowerCutDisk::left_of(const File& file, std::mt19937_64& random, Kept kept) {
  const auto heads = [&](unsigned percent) { return random() % 100 < percent; };
  File left;
  left.exists = file.exists;
  if (file.exists != file.existed && kept != Kept::everything) {
    if (kept == Kept::nothing || heads(50)) left.exists = file.existed;
  }
  left.existed = left.exists;
  if (!left.exists) return left;
  // From disks that kept everything to disks that kept nothing.
  const auto kept_percent = static_cast<unsigned>(random() % 5 * 25);
  left.content = kept == Kept::everything ? file.content : file.durable;
  for (const Change& c : file.unsynced) {
    if (kept != Kept::some || !heads(kept_percent)) continue;
    if (c.truncation || heads(70)) {
      change(left.content, c);
      continue;
    }
    for (std::size_t at = 0; at < c.bytes.size(); at += sector_bytes) {
      if (heads(50)) change(left.content, {c.offset + at, c.bytes.substr(at, sector_bytes)});
    }
  }
  left.durable = left.content;
  return left;
}

void PowerCutDisk::restore(std::uint64_t seed, Kept kept) {
  take(*this, seed, kept);
}

void PowerCutDisk::take(const PowerCutDisk& other, std::uint64_t seed, Kept kept) {
  std::mt19937_64 random(seed);
  // Files keep their addresses, because a ledger that nobody has closed yet knows them.
  for (auto& [path, file] : files_) {
    if (!other.files_.contains(path)) file = {};
  }
  for (const auto& [path, file] : other.files_) files_[path] = left_of(file, random, kept);
  cut_ = false;
  cut_at_ = fail_at_ = fail_read_at_ = 0;
}

}  // namespace millrace::broker::test
