#include "schemas/keys/keyring.hpp"

#include <sys/stat.h>

#include <utility>

namespace millrace {

Result<Keyring> Keyring::open(const std::string& folder) {
  Keyring keyring(folder);
  MILLRACE_ASSIGN(keyring.own_, read_key_file(folder + "/" + broker_key_file));
  keyring.read_at_ = keyring.stamp();
  MILLRACE_TRY(keyring.read());
  return keyring;
}

Keyring::Stamp Keyring::stamp() const {
  struct stat info {};
  if (::stat((folder_ + "/" + allowed_file).c_str(), &info) != 0) return {};
  return {info.st_ino, info.st_ctim.tv_sec, info.st_ctim.tv_nsec, info.st_size};
}

Status Keyring::read() {
  MILLRACE_ASSIGN(const std::string text, read_allowed(folder_));
  auto grants = parse_grants(text);
  if (!grants) {
    Error error = grants.error();
    error.message = folder_ + "/" + allowed_file + ": " + error.message;
    return fail(std::move(error));
  }
  grants_ = *std::move(grants);
  return {};
}

Result<bool> Keyring::refresh(bool anyway) {
  const Stamp now = stamp();
  if (now == read_at_ && !anyway) return false;
  read_at_ = now;
  MILLRACE_TRY(read());
  return true;
}

}  // namespace millrace
