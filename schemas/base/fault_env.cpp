#include "schemas/base/fault_env.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <variant>

#include "schemas/base/philox.hpp"

namespace millrace {
namespace {

struct Write {
  std::uint64_t offset;
  std::string bytes;
};
struct Resize {
  std::uint64_t size;
};
using Change = std::variant<Write, Resize>;

void carry_out(std::string& content, const Change& change) {
  if (const auto* resize = std::get_if<Resize>(&change)) {
    content.resize(resize->size);
    return;
  }
  const auto& [offset, bytes] = std::get<Write>(change);
  if (content.size() < offset + bytes.size()) content.resize(offset + bytes.size());
  content.replace(offset, bytes.size(), bytes);
}

struct Inode {
  std::string content;           // the content that a reader sees
  std::string durable;           // the content that a power cut leaves for certain
  std::vector<Change> unsynced;  // the changes from the latter to the former
};
using Names = std::map<std::string, std::shared_ptr<Inode>>;

// A name that was added (inode set) or removed, and is not yet synced.
struct NameChange {
  std::string path;
  std::shared_ptr<Inode> inode;
};

void carry_out(Names& names, const NameChange& change) {
  if (change.inode) {
    names[change.path] = change.inode;
  } else {
    names.erase(change.path);
  }
}

// A sequence of pseudo-random numbers from a seed.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : key_(philox_key(seed)) {}
  std::uint32_t next() { return philox4x32({counter_++, 0, 0, 0}, key_)[0]; }

 private:
  PhiloxKey key_;
  std::uint32_t counter_ = 0;
};

std::unexpected<Error> no_power(const std::string& path) {
  return fail(Code::io_error, path + ": the power is off");
}

}  // namespace

struct FaultEnv::Disk {
  std::mutex mutex;
  Names names, durable_names;
  std::set<std::string> folders{"/", "."};
  std::vector<NameChange> unsynced_names;
  std::set<std::string> locks;
  std::uint64_t operations = 0;
  std::uint64_t cut_at = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t incarnation = 0;  // counts restarts; files and locks from before one are dead
  bool cut = false;
  std::uint64_t capacity = std::numeric_limits<std::uint64_t>::max();
  Hook hook;

  // Call this at the start of a changing operation.
  Status begin(std::string_view operation, const std::string& path) {
    if (cut) return no_power(path);
    if (hook) MILLRACE_TRY(hook(operation, path));
    ++operations;
    return {};
  }
  // Call this at its end. The operation at which the power fails has been done in memory, so that a
  // restart with a seed may keep it, but its caller sees it fail.
  Status end(const std::string& path) {
    if (operations < cut_at) return {};
    cut = true;
    return no_power(path);
  }
  bool power_goes_now() const { return operations >= cut_at; }

  std::uint64_t used() const {
    std::uint64_t sum = 0;
    for (const auto& [path, inode] : names) sum += inode->content.size();
    return sum;
  }
  Status reserve(const Inode& inode, std::uint64_t new_size, const std::string& path) const {
    if (new_size <= inode.content.size()) return {};
    if (new_size - inode.content.size() > capacity - std::min(capacity, used())) {
      return fail(Code::disk_full, "cannot write " + path + ": no space is left");
    }
    return {};
  }
  void change(Inode& inode, Change change) {
    carry_out(inode.content, change);
    inode.unsynced.push_back(std::move(change));
  }
  void change_name(const std::string& path, std::shared_ptr<Inode> inode) {
    NameChange change{path, std::move(inode)};
    carry_out(names, change);
    unsynced_names.push_back(std::move(change));
  }
  void sync_names(const std::string& folder) {
    std::erase_if(unsynced_names, [&](const NameChange& change) {
      if (parent_directory(change.path) != folder) return false;
      carry_out(durable_names, change);
      return true;
    });
  }
  static void sync(Inode& inode) {
    inode.durable = inode.content;
    inode.unsynced.clear();
  }

  void survive(Inode& inode, Draw* draw) {
    std::string content = inode.durable;
    for (Change& change : inode.unsynced) {
      if (draw == nullptr || draw->next() % 2 == 0) continue;
      if (auto* write = std::get_if<Write>(&change); write != nullptr && draw->next() % 4 == 0) {
        write->bytes.resize(draw->next() % (write->bytes.size() + 1));  // torn
      }
      carry_out(content, change);
    }
    inode.content = inode.durable = std::move(content);
    inode.unsynced.clear();
  }
};

namespace {

class FaultFile final : public File {
 public:
  FaultFile(std::shared_ptr<FaultEnv::Disk> disk, std::shared_ptr<Inode> inode, std::string path,
            bool writable)
      : disk_(std::move(disk)),
        inode_(std::move(inode)),
        path_(std::move(path)),
        incarnation_(disk_->incarnation),
        writable_(writable) {}

  Status append(std::string_view bytes) override {
    const std::lock_guard lock(disk_->mutex);
    return write(inode_->content.size(), bytes);
  }
  Status write_at(std::uint64_t offset, std::string_view bytes) override {
    const std::lock_guard lock(disk_->mutex);
    return write(offset, bytes);
  }
  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
    const std::lock_guard lock(disk_->mutex);
    if (dead()) return no_power(path_);
    const std::string& content = inode_->content;
    if (offset >= content.size()) return std::size_t{0};
    return content.copy(into.data(), into.size(), offset);
  }
  Result<std::uint64_t> size() override {
    const std::lock_guard lock(disk_->mutex);
    if (dead()) return no_power(path_);
    return inode_->content.size();
  }
  Status truncate(std::uint64_t size) override {
    const std::lock_guard lock(disk_->mutex);
    MILLRACE_TRY(begin("truncate"));
    MILLRACE_TRY(disk_->reserve(*inode_, size, path_));
    disk_->change(*inode_, Resize{size});
    return disk_->end(path_);
  }
  Status sync() override { return sync_as("sync"); }
  Status sync_data() override { return sync_as("sync_data"); }
  const std::string& path() const override { return path_; }

 private:
  bool dead() const { return disk_->cut || disk_->incarnation != incarnation_; }
  Status begin(std::string_view operation) {
    if (dead()) return no_power(path_);
    if (!writable_) return fail(Code::io_error, "cannot write " + path_ + ": opened for reading");
    return disk_->begin(operation, path_);
  }
  Status write(std::uint64_t offset, std::string_view bytes) {
    MILLRACE_TRY(begin("write"));
    MILLRACE_TRY(disk_->reserve(*inode_, offset + bytes.size(), path_));
    disk_->change(*inode_, Write{offset, std::string(bytes)});
    return disk_->end(path_);
  }
  Status sync_as(std::string_view operation) {
    const std::lock_guard lock(disk_->mutex);
    MILLRACE_TRY(begin(operation));
    // A sync that the power cut interrupts guarantees nothing.
    if (!disk_->power_goes_now()) FaultEnv::Disk::sync(*inode_);
    return disk_->end(path_);
  }

  std::shared_ptr<FaultEnv::Disk> disk_;
  std::shared_ptr<Inode> inode_;
  std::string path_;
  std::uint64_t incarnation_;
  bool writable_;
};

class FaultLock final : public FileLock {
 public:
  FaultLock(std::shared_ptr<FaultEnv::Disk> disk, std::string path)
      : disk_(std::move(disk)), path_(std::move(path)), incarnation_(disk_->incarnation) {}
  ~FaultLock() override {
    const std::lock_guard lock(disk_->mutex);
    if (disk_->incarnation == incarnation_) disk_->locks.erase(path_);
  }

 private:
  std::shared_ptr<FaultEnv::Disk> disk_;
  std::string path_;
  std::uint64_t incarnation_;
};

}  // namespace

FaultEnv::FaultEnv() : disk_(std::make_shared<Disk>()) {}
FaultEnv::~FaultEnv() = default;

void FaultEnv::cut_after(std::uint64_t operations) {
  const std::lock_guard lock(disk_->mutex);
  disk_->cut_at = disk_->operations + operations;
}
void FaultEnv::cut_now() {
  const std::lock_guard lock(disk_->mutex);
  disk_->cut = true;
}
bool FaultEnv::is_cut() const {
  const std::lock_guard lock(disk_->mutex);
  return disk_->cut;
}
std::uint64_t FaultEnv::operations() const {
  const std::lock_guard lock(disk_->mutex);
  return disk_->operations;
}

void FaultEnv::restart(std::optional<std::uint64_t> seed) {
  const std::lock_guard lock(disk_->mutex);
  Draw draw(seed.value_or(0));
  if (seed) {
    // A journal keeps changes of names in order: the first few survive.
    const std::size_t kept = draw.next() % (disk_->unsynced_names.size() + 1);
    for (std::size_t i = 0; i < kept; ++i)
      carry_out(disk_->durable_names, disk_->unsynced_names[i]);
  }
  disk_->unsynced_names.clear();
  disk_->names = disk_->durable_names;
  std::set<Inode*> done;  // a file may have two names during a rename
  for (auto& [path, inode] : disk_->names) {
    if (done.insert(inode.get()).second) disk_->survive(*inode, seed ? &draw : nullptr);
  }
  disk_->locks.clear();
  ++disk_->incarnation;
  disk_->cut = false;
  disk_->cut_at = std::numeric_limits<std::uint64_t>::max();
}

void FaultEnv::set_capacity(std::uint64_t bytes) {
  const std::lock_guard lock(disk_->mutex);
  disk_->capacity = bytes;
}
void FaultEnv::set_hook(Hook hook) {
  const std::lock_guard lock(disk_->mutex);
  disk_->hook = std::move(hook);
}

// Files here have no owners, so `Access` has no effect.
Result<std::unique_ptr<File>> FaultEnv::open_file(const std::string& path, OpenMode mode, Access) {
  const std::lock_guard lock(disk_->mutex);
  if (disk_->cut) return no_power(path);
  const auto found = disk_->names.find(path);
  const bool there = found != disk_->names.end();
  if (disk_->folders.contains(path)) return fail(Code::io_error, path + " is a folder");
  const bool is_new = mode == OpenMode::create_new || mode == OpenMode::temporary;
  if (is_new && there) return fail(Code::io_error, path + " exists");
  std::shared_ptr<Inode> inode = there ? found->second : nullptr;
  if (!there) {
    if (mode == OpenMode::read || !disk_->folders.contains(parent_directory(path))) {
      return fail(Code::not_found, "cannot open " + path + ": there is no such file");
    }
    MILLRACE_TRY(disk_->begin(mode == OpenMode::temporary ? "create temporary" : "create", path));
    inode = std::make_shared<Inode>();
    disk_->change_name(path, inode);
    const bool synced = mode != OpenMode::temporary && !disk_->power_goes_now();
    if (synced) disk_->sync_names(parent_directory(path));
    MILLRACE_TRY(disk_->end(path));
  } else if (mode == OpenMode::replace && !inode->content.empty()) {
    MILLRACE_TRY(disk_->begin("truncate", path));
    disk_->change(*inode, Resize{0});
    MILLRACE_TRY(disk_->end(path));
  }
  return std::make_unique<FaultFile>(disk_, inode, path, mode != OpenMode::read);
}

Result<std::unique_ptr<FileLock>> FaultEnv::lock(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  if (disk_->cut) return no_power(path);
  if (!disk_->locks.insert(path).second) {
    return fail(Code::output_in_use, "another process holds " + path);
  }
  if (!disk_->names.contains(path)) disk_->change_name(path, std::make_shared<Inode>());
  return std::make_unique<FaultLock>(disk_, path);
}

Result<bool> FaultEnv::exists(const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  if (disk_->cut) return no_power(path);
  return disk_->names.contains(path) || disk_->folders.contains(path);
}

Result<std::vector<std::string>> FaultEnv::list(const std::string& folder) {
  const std::lock_guard lock(disk_->mutex);
  if (disk_->cut) return no_power(folder);
  if (!disk_->folders.contains(folder)) return fail(Code::not_found, "no folder " + folder);
  std::set<std::string> inside;
  const auto add = [&](const std::string& path) {
    if (path != folder && parent_directory(path) == folder) {
      inside.insert(path.substr(path.rfind('/') + 1));
    }
  };
  for (const auto& [path, inode] : disk_->names) add(path);
  for (const std::string& path : disk_->folders) add(path);
  return std::vector<std::string>(inside.begin(), inside.end());
}

// Folders are durable at once: no caller relies on the loss of one.
Status FaultEnv::make_directories(const std::string& folder) {
  const std::lock_guard lock(disk_->mutex);
  MILLRACE_TRY(disk_->begin("make_directories", folder));
  for (std::string at = folder;; at = parent_directory(at)) {
    if (disk_->names.contains(at)) return fail(Code::io_error, at + " is a file");
    if (!disk_->folders.insert(at).second) break;
  }
  return disk_->end(folder);
}

Status FaultEnv::rename(const std::string& from, const std::string& to) {
  const std::lock_guard lock(disk_->mutex);
  MILLRACE_TRY(disk_->begin("rename", from));
  const auto found = disk_->names.find(from);
  if (found == disk_->names.end()) return fail(Code::not_found, "cannot rename " + from);
  const std::shared_ptr<Inode> inode = found->second;
  disk_->change_name(to, inode);
  disk_->change_name(from, nullptr);
  if (!disk_->power_goes_now()) {
    disk_->sync_names(parent_directory(to));
    disk_->sync_names(parent_directory(from));
  }
  return disk_->end(from);
}

Status FaultEnv::remove_as(std::string_view operation, const std::string& path) {
  const std::lock_guard lock(disk_->mutex);
  MILLRACE_TRY(disk_->begin(operation, path));
  if (!disk_->names.contains(path)) return fail(Code::not_found, "cannot remove " + path);
  disk_->change_name(path, nullptr);
  if (operation == "remove" && !disk_->power_goes_now()) disk_->sync_names(parent_directory(path));
  return disk_->end(path);
}

Status FaultEnv::sync_directory(const std::string& folder) {
  const std::lock_guard lock(disk_->mutex);
  MILLRACE_TRY(disk_->begin("sync_directory", folder));
  if (!disk_->power_goes_now()) disk_->sync_names(folder);
  return disk_->end(folder);
}

Result<std::uint64_t> FaultEnv::free_bytes(const std::string& folder) {
  const std::lock_guard lock(disk_->mutex);
  if (disk_->cut) return no_power(folder);
  return disk_->capacity - std::min(disk_->capacity, disk_->used());
}

}  // namespace millrace
