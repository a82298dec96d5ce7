#include "http/batches/record_folder.hpp"

#include <string_view>
#include <utility>

#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::http {
namespace {

constexpr std::string_view record_end = ".json";

std::string name_of(const std::string& id) {
  return id + std::string(record_end);
}

}  // namespace

Result<std::vector<std::string>> RecordFolder::load(const Take& take) {
  MILLRACE_TRY(env_.make_directories(folder_));
  MILLRACE_ASSIGN(const auto names, env_.list(folder_));
  std::vector<std::string> others;
  for (const std::string& name : names) {
    if (!name.ends_with(record_end)) {
      others.push_back(name);
      continue;
    }
    const auto text = read_file(env_, path_of(name), limits::MiB);
    const Status taken = text ? take(*text) : Status(std::unexpected(text.error()));
    if (!taken) {
      log_error("the record of " + kind_ + " cannot be used: " + path_of(name), taken.error());
    }
  }
  return others;
}

Status RecordFolder::save(const std::string& id, const std::string& text) {
  return write_file_atomically(env_, path_of(name_of(id)), text + "\n");
}

Status RecordFolder::remove(const std::string& id) {
  return env_.remove(path_of(name_of(id)));
}

Result<bool> RecordFolder::has(const std::string& id) const {
  return env_.exists(path_of(name_of(id)));
}

}  // namespace millrace::http
