#pragma once
// A private folder under TMPDIR that is removed with all it holds. Errors: io_error.
// Thread safety: plain value.
#include <string>
#include <utility>

#include "schemas/base/error.hpp"

namespace millrace::client {

class TemporaryPlace {
 public:
  // The folder's name begins with "millrace-" and `what`.
  static Result<TemporaryPlace> make(const std::string& what);
  TemporaryPlace() = default;  // none
  TemporaryPlace(TemporaryPlace&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryPlace& operator=(TemporaryPlace&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~TemporaryPlace();
  const std::string& path() const { return path_; }

 private:
  explicit TemporaryPlace(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace millrace::client
