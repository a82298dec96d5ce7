#pragma once
// A file system in memory that fails on purpose. It knows what a power cut would leave: the synced
// content of each file and the synced names of each folder. It counts the operations that change
// something; at a chosen one the power fails, and everything fails until restart().
//
// After restart() the files hold only what was synced or, with a seed, also some of the unsynced
// writes, whole or torn, and some of the unsynced names, as on real disks. Locks are released.
// Files opened before a restart stay unusable. Only single writes are torn; the changes of names
// are kept up to some point in their order and lost after it, as a journal would. Thread safety:
// any thread; one lock.
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "schemas/base/env.hpp"

namespace millrace {

class FaultEnv final : public Env {
 public:
  FaultEnv();
  ~FaultEnv() override;

  // The power fails at the n-th changing operation from now (1 is the next). Its caller sees a
  // failure; whether it has an effect is decided by `restart`, as for unsynced writes.
  void cut_after(std::uint64_t operations);
  void cut_now();
  bool is_cut() const;
  std::uint64_t operations() const;  // number of changing operations so far
  // Starts the machine again. Without a seed nothing unsynced is left.
  void restart(std::optional<std::uint64_t> seed = std::nullopt);

  void set_capacity(std::uint64_t bytes);  // disk_full when file contents would exceed this
  // Called before each changing operation. If it returns an error, the operation is not done and
  // its caller gets the error. The hook must not use the Env.
  using Hook = std::function<Status(std::string_view operation, const std::string& path)>;
  void set_hook(Hook hook);

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
  Status make_directories(const std::string& folder) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override { return remove_as("remove", path); }
  Status drop(const std::string& path) override { return remove_as("drop", path); }
  Status sync_directory(const std::string& folder) override;
  Result<std::uint64_t> free_bytes(const std::string& folder) override;

  struct Disk;

 private:
  Result<std::unique_ptr<File>> open_file(const std::string& path, OpenMode mode,
                                          Access access) override;
  Status remove_as(std::string_view operation, const std::string& path);
  std::shared_ptr<Disk> disk_;
};

}  // namespace millrace
