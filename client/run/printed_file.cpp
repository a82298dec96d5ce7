#include "client/run/printed_file.hpp"

#include <string>
#include <utility>

namespace millrace::client {
namespace {

class PrintedFile final : public File {
 public:
  explicit PrintedFile(std::function<Status(std::string_view)> print) : print_(std::move(print)) {}

  Status append(std::string_view bytes) override {
    MILLRACE_TRY(print_(bytes));
    size_ += bytes.size();
    return {};
  }
  Status write_at(std::uint64_t offset, std::string_view bytes) override {
    return offset == size_
               ? append(bytes)
               : Status(fail(Code::internal, "printed text was to be overwritten", "report it"));
  }
  Result<std::size_t> read_at(std::uint64_t, std::span<char>) override { return 0; }
  Result<std::uint64_t> size() override { return size_; }
  Status truncate(std::uint64_t) override {
    return fail(Code::internal, "printed text was to be cut", "report it");
  }
  Status sync() override { return {}; }
  Status sync_data() override { return {}; }
  const std::string& path() const override { return path_; }

 private:
  std::function<Status(std::string_view)> print_;
  std::string path_ = "standard output";
  std::uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<File> printed_file(std::function<Status(std::string_view)> print) {
  return std::make_unique<PrintedFile>(std::move(print));
}

}  // namespace millrace::client
