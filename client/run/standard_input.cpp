#include "client/run/standard_input.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <span>
#include <system_error>

#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t piece_bytes = limits::MiB;

// Signals interrupt a read, because their handlers are installed without SA_RESTART.
Result<std::uint64_t> copy_standard_input(File& to, const std::function<bool()>& interrupted) {
  std::string buffer(piece_bytes, '\0');
  for (std::uint64_t all = 0;;) {
    const ::ssize_t got = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (got == 0) {
      return all;
    }
    if (interrupted && interrupted()) {
      return fail(Code::interrupted, "interrupted while it read standard input", "");
    }
    if (got < 0 && errno != EINTR) {
      return fail(Code::io_error,
                  "cannot read standard input: " + std::generic_category().message(errno),
                  "pipe the jobs in, or name a file");
    }
    if (got > 0) {
      MILLRACE_TRY(to.append(std::string_view(buffer.data(), static_cast<std::size_t>(got))));
      all += static_cast<std::uint64_t>(got);
    }
  }
}

Status copy_file(Env& env, const std::string& from, File& to) {
  MILLRACE_ASSIGN(const auto file, env.open(from, OpenMode::read));
  std::string buffer(piece_bytes, '\0');
  for (std::uint64_t offset = 0;;) {
    MILLRACE_ASSIGN(const std::size_t got, file->read_at(offset, std::span(buffer)));
    if (got == 0) {
      return {};
    }
    MILLRACE_TRY(to.append(std::string_view(buffer).substr(0, got)));
    offset += got;
  }
}

}  // namespace

Status keep_standard_input(Env& env, const std::string& path, const std::string& earlier,
                           const std::function<bool()>& interrupted) {
  bool is_kept = false;
  if (!earlier.empty()) {
    MILLRACE_ASSIGN(is_kept, env.exists(earlier));
  }
  MILLRACE_ASSIGN(const auto file, env.open(path, OpenMode::replace));
  std::uint64_t bytes = 0;
  if (!is_kept || ::isatty(STDIN_FILENO) == 0) {
    MILLRACE_ASSIGN(bytes, copy_standard_input(*file, interrupted));
  }
  if (bytes == 0 && is_kept) {
    MILLRACE_TRY(copy_file(env, earlier, *file));
  }
  return file->sync();
}

}  // namespace millrace::client
