#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <system_error>

#include "schemas/base/env.hpp"

namespace millrace {
namespace {

std::unexpected<Error> system_failure(const char* what, const std::string& path, int error) {
  const std::string message =
      std::string(what) + " " + path + ": " + std::generic_category().message(error);
  if (error == ENOSPC || error == EDQUOT) {
    return fail(Code::disk_full, message, "free some space on that file system");
  }
  // Over NFS another machine may have removed a file that is open here: its handle is stale.
  if (error == ENOENT || error == ESTALE) return fail(Code::not_found, message, "check the path");
  if (error == ENOTDIR)
    return fail(Code::io_error, message, "check the path: a part of it is a file and no folder");
  if (error == EACCES || error == EPERM || error == EROFS) {
    return fail(Code::io_error, message, "check the permissions of the path");
  }
  return fail(Code::io_error, message);
}

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

template <class Call>
auto retry(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

Status sync_folder(const std::string& folder) {
  const Descriptor fd(
      retry([&] { return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (fd.get() < 0) return system_failure("cannot open folder", folder, errno);
  if (retry([&] { return ::fsync(fd.get()); }) != 0) {
    // Some file systems have no such operation for folders and say so.
    if (errno != EINVAL) return system_failure("cannot sync folder", folder, errno);
  }
  return {};
}

class PosixFile final : public File {
 public:
  PosixFile(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  Status append(std::string_view bytes) override {
    MILLRACE_ASSIGN(const std::uint64_t end, size());
    return write_at(end, bytes);
  }

  Status write_at(std::uint64_t offset, std::string_view bytes) override {
    if (offset > max_offset - std::min<std::uint64_t>(bytes.size(), max_offset)) {
      return system_failure("cannot write", path_, EFBIG);
    }
    while (!bytes.empty()) {
      const ssize_t written = retry([&] {
        return ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      });
      if (written < 0) return system_failure("cannot write", path_, errno);
      offset += static_cast<std::uint64_t>(written);
      bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
  }

  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override {
    std::size_t got = 0;
    while (got < into.size()) {
      if (offset + got > max_offset) break;
      const ssize_t read = retry([&] {
        return ::pread(fd_.get(), into.data() + got, into.size() - got,
                       static_cast<off_t>(offset + got));
      });
      if (read < 0) return system_failure("cannot read", path_, errno);
      if (read == 0) break;
      got += static_cast<std::size_t>(read);
    }
    return got;
  }

  Result<std::uint64_t> size() override {
    struct stat info {};
    if (::fstat(fd_.get(), &info) != 0) return system_failure("cannot examine", path_, errno);
    return static_cast<std::uint64_t>(info.st_size);
  }

  Status truncate(std::uint64_t size) override {
    if (size > max_offset) return system_failure("cannot resize", path_, EFBIG);
    if (retry([&] { return ::ftruncate(fd_.get(), static_cast<off_t>(size)); }) != 0) {
      return system_failure("cannot resize", path_, errno);
    }
    return {};
  }

  Status sync() override {
    if (::fsync(fd_.get()) != 0) return system_failure("cannot sync", path_, errno);
    return {};
  }
  Status sync_data() override {
    if (::fdatasync(fd_.get()) != 0) return system_failure("cannot sync", path_, errno);
    return {};
  }
  const std::string& path() const override { return path_; }

 private:
  static constexpr std::uint64_t max_offset = std::numeric_limits<off_t>::max();
  Descriptor fd_;
  std::string path_;
};

class PosixLock final : public FileLock {
 public:
  explicit PosixLock(int fd) : fd_(fd) {}

 private:
  Descriptor fd_;  // closing gives the lock up
};

class PosixEnv final : public Env {
 public:
  Result<std::unique_ptr<FileLock>> lock(const std::string& path) override {
    while (true) {
      Descriptor fd(
          retry([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600); }));
      if (fd.get() < 0) return system_failure("cannot open", path, errno);
      if (retry([&] { return ::flock(fd.get(), LOCK_EX | LOCK_NB); }) != 0) {
        if (errno == EWOULDBLOCK) {
          return fail(Code::output_in_use, "another process holds " + path,
                      "wait for it to end, or choose another path");
        }
        return system_failure("cannot lock", path, errno);
      }
      // Its holder may have removed the file meanwhile: then it is another's to make and lock.
      struct stat held {
      }, named{};
      if (::fstat(fd.get(), &held) != 0) return system_failure("cannot examine", path, errno);
      const bool there = ::stat(path.c_str(), &named) == 0;
      if (there && held.st_dev == named.st_dev && held.st_ino == named.st_ino) {
        return std::make_unique<PosixLock>(fd.release());
      }
    }
  }

  Result<bool> exists(const std::string& path) override {
    struct stat info {};
    if (::stat(path.c_str(), &info) == 0) return true;
    if (errno == ENOENT || errno == ENOTDIR) return false;
    return system_failure("cannot examine", path, errno);
  }

  Result<std::vector<std::string>> list(const std::string& folder) override {
    DIR* const dir = ::opendir(folder.c_str());
    if (dir == nullptr) return system_failure("cannot list", folder, errno);
    std::vector<std::string> names;
    errno = 0;
    while (const dirent* entry = ::readdir(dir)) {
      const std::string_view name = entry->d_name;
      if (name != "." && name != "..") names.emplace_back(name);
    }
    const int error = errno;
    ::closedir(dir);
    if (error != 0) return system_failure("cannot list", folder, error);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status make_directories(const std::string& folder) override {
    struct stat info {};
    if (::stat(folder.c_str(), &info) == 0) {
      if (S_ISDIR(info.st_mode)) return {};
      return system_failure("cannot make folder", folder, ENOTDIR);
    }
    if (errno != ENOENT) return system_failure("cannot make folder", folder, errno);
    const std::string parent = parent_directory(folder);
    if (parent != folder) MILLRACE_TRY(make_directories(parent));
    if (::mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) {
      return system_failure("cannot make folder", folder, errno);
    }
    return sync_folder(parent);
  }

  Status rename(const std::string& from, const std::string& to) override {
    if (::rename(from.c_str(), to.c_str()) != 0) {
      return system_failure("cannot rename", from + " to " + to, errno);
    }
    MILLRACE_TRY(sync_folder(parent_directory(to)));
    if (parent_directory(from) == parent_directory(to)) return {};
    return sync_folder(parent_directory(from));
  }

  Status remove(const std::string& path) override {
    MILLRACE_TRY(drop(path));
    return sync_folder(parent_directory(path));
  }

  Status drop(const std::string& path) override {
    if (::unlink(path.c_str()) != 0) return system_failure("cannot remove", path, errno);
    return {};
  }

  Status sync_directory(const std::string& folder) override { return sync_folder(folder); }

  Result<std::uint64_t> free_bytes(const std::string& folder) override {
    struct statvfs info {};
    if (::statvfs(folder.c_str(), &info) != 0) {
      return system_failure("cannot examine", folder, errno);
    }
    return static_cast<std::uint64_t>(info.f_bavail) * info.f_frsize;
  }

 private:
  Result<std::unique_ptr<File>> open_file(const std::string& path, OpenMode mode,
                                          Access access) override {
    const mode_t permissions = access == Access::owner ? 0600 : 0666;
    int flags = O_CLOEXEC | (mode == OpenMode::read ? O_RDONLY : O_RDWR);
    bool created = false;
    if (mode == OpenMode::create_new || mode == OpenMode::temporary) {
      flags |= O_CREAT | O_EXCL;
      created = mode == OpenMode::create_new;
    }
    if (mode == OpenMode::replace) flags |= O_TRUNC;
    int fd = retry([&] { return ::open(path.c_str(), flags, permissions); });
    if (fd < 0 && errno == ENOENT && (mode == OpenMode::write || mode == OpenMode::replace)) {
      fd = retry([&] { return ::open(path.c_str(), flags | O_CREAT, permissions); });
      created = true;
    }
    if (fd < 0) return system_failure("cannot open", path, errno);
    auto file = std::make_unique<PosixFile>(fd, path);
    struct stat info {};
    if (::fstat(fd, &info) != 0) return system_failure("cannot examine", path, errno);
    if (S_ISDIR(info.st_mode)) return system_failure("cannot open", path, EISDIR);
    // An older program, or a copy, may have left a file of ours open to others.
    const bool wider = access == Access::owner && (info.st_mode & 0077) != 0;
    if (wider && mode != OpenMode::read && info.st_uid == ::geteuid() &&
        ::fchmod(fd, info.st_mode & 0700) != 0) {
      return system_failure("cannot withdraw other users' access to", path, errno);
    }
    if (created) MILLRACE_TRY(sync_folder(parent_directory(path)));
    return file;
  }
};

}  // namespace

std::unique_ptr<Env> posix_env() {
  return std::make_unique<PosixEnv>();
}

}  // namespace millrace
