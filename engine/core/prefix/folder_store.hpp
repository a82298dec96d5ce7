#pragma once
// A store in a folder that several engines may use at once, also over NFS. A file is written under
// a name of its own, synced, and renamed; a use is its time of change. What an engine that died has
// left half written counts like any other file, and is removed when it is the oldest.
//
// The folder must exist: where a file system is not mounted, an engine must not fill the folder
// below. Errors as SegmentStore. Thread safety: one thread.
#include <memory>
#include <string>

#include "engine/core/prefix/segment_store.hpp"
#include "schemas/base/env.hpp"

namespace millrace::engine {

class FolderStore final : public SegmentStore {
 public:
  explicit FolderStore(std::string folder);

  Result<std::vector<StoredFile>> list() override;
  Result<std::size_t> read(const std::string& name, std::uint64_t offset,
                           std::span<char> into) override;
  Status write(const std::string& name, std::string_view content) override;
  Status remove(const std::string& name) override;
  Status touch(const std::string& name) override;
  std::string place(const std::string& name) const override { return folder_ + "/" + name; }
  std::string place() const override { return folder_; }

 private:
  std::string folder_;
  std::unique_ptr<Env> env_;
};

}  // namespace millrace::engine
