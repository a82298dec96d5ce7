#include "engine/core/gguf/bytes.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>

namespace millrace::engine {
namespace {

class MappedFile final : public Bytes {
 public:
  MappedFile(void* address, std::size_t size) : address_(address), size_(size) {}
  ~MappedFile() override { ::munmap(address_, size_); }
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  std::span<const std::byte> view() const override {
    return {static_cast<const std::byte*>(address_), size_};
  }

 private:
  void* address_;
  std::size_t size_;
};

class OwnedBytes final : public Bytes {
 public:
  explicit OwnedBytes(std::vector<std::byte> content) : content_(std::move(content)) {}
  std::span<const std::byte> view() const override { return content_; }

 private:
  std::vector<std::byte> content_;
};

struct Descriptor {
  int number;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

std::unexpected<Error> unreadable(const std::string& path, const char* what, int error) {
  return fail(Code::gguf_unreadable,
              path + ": " + what + ": " + std::generic_category().message(error),
              "check the path and the file's permissions");
}

}  // namespace

Result<std::unique_ptr<Bytes>> map_file(const std::string& path) {
  // O_NONBLOCK: opening a named pipe must not wait for its writer before we can refuse it.
  Descriptor file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.number < 0) return unreadable(path, "cannot open the model file", errno);
  struct stat status {};
  if (::fstat(file.number, &status) != 0)
    return unreadable(path, "cannot examine the model file", errno);
  if (!S_ISREG(status.st_mode))
    return fail(Code::gguf_unreadable, path + ": not a regular file", "give a .gguf file's path");
  if (status.st_size == 0)
    return fail(Code::gguf_unreadable, path + ": the file is empty", "download the model again");
  const auto size = static_cast<std::size_t>(status.st_size);
  void* address = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, file.number, 0);
  if (address == MAP_FAILED) return unreadable(path, "cannot map the model file", errno);
  return std::make_unique<MappedFile>(address, size);
}

void will_read(std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  // From the beginning of the first byte's page.
  const std::size_t before = reinterpret_cast<std::uintptr_t>(bytes.data()) % page;
  auto* const begin = const_cast<std::byte*>(bytes.data()) - before;
  // A failure changes nothing but the time.
  static_cast<void>(::madvise(begin, before + bytes.size(), MADV_WILLNEED));
}

std::unique_ptr<Bytes> bytes_of(std::vector<std::byte> content) {
  return std::make_unique<OwnedBytes>(std::move(content));
}

}  // namespace millrace::engine
