#pragma once
// The files of the ballast on a PowerCutDisk of a chosen size, which also holds the ledger: what a
// file system without room does to both. Errors: disk_full where the disk has no room. Thread
// safety: one thread.
#include <memory>
#include <string>
#include <vector>

#include "schemas/base/env.hpp"
#include "tests/unit/ledger/power_cut_disk.hpp"

namespace millrace::broker::test {

class FullDiskEnv final : public Env {
 public:
  explicit FullDiskEnv(PowerCutDisk& disk) : disk_(disk) {}
  Result<std::unique_ptr<FileLock>> lock(const std::string&) override {
    return std::make_unique<FileLock>();
  }
  Result<bool> exists(const std::string& path) override { return disk_.file(path).exists; }
  Result<std::vector<std::string>> list(const std::string&) override {
    return std::vector<std::string>{};
  }
  Status make_directories(const std::string&) override { return {}; }
  Status rename(const std::string&, const std::string&) override { return {}; }
  Status remove(const std::string& path) override {
    disk_.file(path).exists = false;
    return {};
  }
  Status sync_directory(const std::string&) override { return {}; }
  Result<std::uint64_t> free_bytes(const std::string&) override { return disk_.free_bytes(); }

 private:
  Result<std::unique_ptr<millrace::File>> open_file(const std::string& path, OpenMode,
                                                    millrace::Access) override {
    return std::unique_ptr<millrace::File>(new BallastFile(disk_, path));
  }
  class BallastFile final : public millrace::File {
   public:
    BallastFile(PowerCutDisk& disk, std::string path) : disk_(disk), path_(std::move(path)) {
      PowerCutDisk::File& f = disk_.file(path_);
      if (!f.exists) f.content.clear();
      f.exists = true;
    }
    Status append(std::string_view bytes) override {
      return write_at(disk_.file(path_).content.size(), bytes);
    }
    Status write_at(std::uint64_t offset, std::string_view bytes) override {
      if (!disk_.room_for(bytes.size())) return fail(Code::disk_full, path_);
      std::string& content = disk_.file(path_).content;
      content.resize(offset);
      content.append(bytes);
      return {};
    }
    Result<std::size_t> read_at(std::uint64_t, std::span<char>) override {
      return fail(Code::internal, path_);
    }
    Result<std::uint64_t> size() override { return disk_.file(path_).content.size(); }
    Status truncate(std::uint64_t size) override {
      disk_.file(path_).content.resize(size);
      return {};
    }
    Status sync() override { return {}; }
    Status sync_data() override { return {}; }
    const std::string& path() const override { return path_; }

   private:
    PowerCutDisk& disk_;
    std::string path_;
  };

  PowerCutDisk& disk_;
};

}  // namespace millrace::broker::test
