#include "engine/core/prefix/folder_store.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "schemas/base/random_id.hpp"

namespace millrace::engine {
namespace {

constexpr std::string_view half_written = ".new";  // NAME.RANDOM.new

bool is_ours(std::string_view name) {
  if (is_segment_name(name)) return true;
  return name.ends_with(half_written) && is_segment_name(name.substr(0, name.find(".kv.") + 3));
}

}  // namespace

FolderStore::FolderStore(std::string folder) : folder_(std::move(folder)), env_(posix_env()) {
  while (folder_.size() > 1 && folder_.ends_with('/')) folder_.pop_back();
}

Result<std::vector<StoredFile>> FolderStore::list() {
  auto names = env_->list(folder_);
  if (!names) {
    Error error = std::move(names).error();
    if (error.code == Code::not_found) {
      error.hint = "make this folder, or mount the file system that it is on";
    }
    return fail(std::move(error));
  }
  std::vector<StoredFile> out;
  for (std::string& name : *names) {
    struct stat info {};
    // Another engine may have removed or renamed it since.
    if (!is_ours(name) || ::stat(place(name).c_str(), &info) != 0) continue;
    out.push_back({std::move(name), static_cast<std::uint64_t>(info.st_size), info.st_mtim.tv_sec});
  }
  return out;
}

Result<std::size_t> FolderStore::read(const std::string& name, std::uint64_t offset,
                                      std::span<char> into) {
  MILLRACE_ASSIGN(const std::unique_ptr<File> file, env_->open(place(name), OpenMode::read));
  return file->read_at(offset, into);
}

Status FolderStore::write(const std::string& name, std::string_view content) {
  const std::string part = place(name) + "." + random_id() + std::string(half_written);
  const auto write_whole = [&]() -> Status {
    MILLRACE_ASSIGN(const std::unique_ptr<File> file, env_->open(part, OpenMode::temporary));
    MILLRACE_TRY(file->append(content));
    return file->sync();
  };
  Status status = write_whole();
  if (status) status = env_->rename(part, place(name));
  if (!status) static_cast<void>(env_->drop(part));
  return status;
}

Status FolderStore::remove(const std::string& name) {
  return env_->drop(place(name));
}

Status FolderStore::touch(const std::string& name) {
  const std::string path = place(name);
  if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) == 0) return {};  // the server's time
  const int reason = errno;
  return fail(reason == ENOENT || reason == ESTALE ? Code::not_found : Code::io_error,
              "cannot set the time of " + path + ": " + std::generic_category().message(reason));
}

}  // namespace millrace::engine
