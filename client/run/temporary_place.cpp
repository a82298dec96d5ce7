#include "client/run/temporary_place.hpp"

#include <stdlib.h>

#include <filesystem>
#include <system_error>

namespace millrace::client {

Result<TemporaryPlace> TemporaryPlace::make(const std::string& what) {
  std::error_code error;
  std::string pattern =
      (std::filesystem::temp_directory_path(error) / ("millrace-" + what + "-XXXXXX")).string();
  if (error || ::mkdtemp(pattern.data()) == nullptr) {
    return fail(Code::io_error, "cannot make a folder at " + pattern,
                "set TMPDIR to a folder that you may write to");
  }
  return TemporaryPlace(std::move(pattern));
}

TemporaryPlace::~TemporaryPlace() {
  std::error_code ignored;
  if (!path_.empty()) {
    std::filesystem::remove_all(path_, ignored);
  }
}

}  // namespace millrace::client
