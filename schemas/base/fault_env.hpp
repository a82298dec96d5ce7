#pragma once
// A file system in memory that fails on purpose. It knows what a power cut would leave: of each
// file what was synced, of each folder the names that were synced. Operations that change anything
// are counted; at a chosen one the power goes, and everything fails until restart().
//
// After restart() the files hold either only what was synced, or, with a seed, also some of the
// unsynced writes, whole or torn, and some of the unsynced names: what real disks do. Locks are
// given up. Files opened before a restart stay dead. Only single writes are torn; a folder's names
// are lost or kept one by one, in order, as a journal would.
// Thread safety: any thread; one lock.
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

  // The power goes at the n-th changing operation from now (1 is the next), which is carried out
  // or not as `restart` decides for unsynced writes: its caller sees a failure either way.
  void cut_after(std::uint64_t operations);
  void cut_now();
  bool is_cut() const;
  std::uint64_t operations() const;  // changing ones so far
  // Brings the machine up again. Without a seed nothing unsynced is left.
  void restart(std::optional<std::uint64_t> seed = std::nullopt);

  void set_capacity(std::uint64_t bytes);  // disk_full when file contents would pass this
  // Called before each changing operation; an error is given to the caller instead of doing it.
  // It must not use the Env.
  using Hook = std::function<Status(std::string_view operation, const std::string& path)>;
  void set_hook(Hook hook);

  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override;
  Result<bool> exists(const std::string& path) override;
  Result<std::vector<std::string>> list(const std::string& folder) override;
  Status make_directories(const std::string& folder) override;
  Status rename(const std::string& from, const std::string& to) override;
  Status remove(const std::string& path) override;
  Status sync_directory(const std::string& folder) override;
  Result<std::uint64_t> free_bytes(const std::string& folder) override;

  struct Disk;

 private:
  Result<std::unique_ptr<File>> open_file(const std::string& path, OpenMode mode,
                                          Access access) override;
  std::shared_ptr<Disk> disk_;
};

}  // namespace millrace
