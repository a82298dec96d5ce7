#pragma once
// The source of a model file's bytes: a mapped file in production, a buffer in tests.
// Thread safety: immutable after construction.
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::engine {

class Bytes {
 public:
  virtual ~Bytes() = default;
  virtual std::span<const std::byte> view() const = 0;
};

// Maps a regular file for reading. Processes that map the same file share its pages. If the file is
// shortened while it is mapped, SIGBUS ends the process, as with every mapped file; so replace
// model files by renaming. Errors: gguf_unreadable.
Result<std::unique_ptr<Bytes>> map_file(const std::string& path);

// Asks the system to read these bytes of a mapped file soon; it does not wait for them. Other
// memory is left alone.
void will_read(std::span<const std::byte> bytes);

std::unique_ptr<Bytes> bytes_of(std::vector<std::byte> content);

}  // namespace millrace::engine
