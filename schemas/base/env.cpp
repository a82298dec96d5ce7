#include "schemas/base/env.hpp"

namespace millrace {

std::string parent_directory(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') path.remove_suffix(1);
  const std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return ".";
  if (slash == 0) return "/";
  return std::string(path.substr(0, slash));
}

Result<std::string> read_file(Env& env, const std::string& path, std::uint64_t max_bytes) {
  MILLRACE_ASSIGN(const auto file, env.open(path, OpenMode::read));
  MILLRACE_ASSIGN(const std::uint64_t size, file->size());
  if (size > max_bytes) {
    return fail(Code::too_large, path + " has " + std::to_string(size) + " bytes, more than " +
                                     std::to_string(max_bytes));
  }
  std::string content(size, '\0');
  MILLRACE_ASSIGN(const std::size_t got, file->read_at(0, content));
  content.resize(got);
  return content;
}

namespace {

Status write_and_sync(File& file, std::string_view content) {
  MILLRACE_TRY(file.append(content));
  return file.sync();
}

}  // namespace

Status write_file_atomically(Env& env, const std::string& path, std::string_view content,
                             Access access) {
  const std::string beside = path + ".new";
  MILLRACE_ASSIGN(const auto file, env.open(beside, OpenMode::replace, access));
  Status written = write_and_sync(*file, content);
  if (written) written = env.rename(beside, path);
  if (!written) static_cast<void>(env.remove(beside));
  return written;
}

}  // namespace millrace
