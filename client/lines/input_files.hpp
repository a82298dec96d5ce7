#pragma once
// Several input files that are read as one, in the order in which they were named: each file begins
// on a line of its own, whether or not the one before it ended with a newline. Line numbers count
// through all files; place() tells the file and the line in it. A single file keeps its bytes.
// Errors: those of Env. Thread safety: one thread.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "schemas/base/env.hpp"

namespace millrace::client {

struct InputPlace {
  std::string file;
  std::uint64_t line = 0;  // in this file, from 1
};

class InputFiles final : public File {
 public:
  // Reads all but the last of several files once, to count their lines. `names` are those for
  // people, where they differ from the paths.
  static Result<std::unique_ptr<InputFiles>> open(Env& env, const std::vector<std::string>& paths,
                                                  std::vector<std::string> names = {});

  bool several() const { return parts_.size() > 1; }
  InputPlace place(std::uint64_t line) const;
  // "line 7", of several files "b.jsonl line 2".
  std::string place_text(std::uint64_t line) const;

  Result<std::size_t> read_at(std::uint64_t offset, std::span<char> into) override;
  Result<std::uint64_t> size() override { return size_; }
  const std::string& path() const override { return name_; }
  // Inputs are never written.
  Status append(std::string_view bytes) override;
  Status write_at(std::uint64_t offset, std::string_view bytes) override;
  Status truncate(std::uint64_t size) override;
  Status sync() override { return {}; }
  Status sync_data() override { return {}; }

 private:
  struct Part {
    std::unique_ptr<File> file;
    std::string name;
    std::uint64_t skipped = 0;      // bytes of a byte order mark that is left out
    std::uint64_t begin = 0;        // offset of its first byte in the whole
    std::uint64_t bytes = 0;        // that are read of it, without an added newline
    std::uint64_t lines_ahead = 0;  // lines of the files before it
  };
  InputFiles() = default;
  Status add(Part part, bool is_last);

  std::vector<Part> parts_;
  std::string name_;
  std::uint64_t size_ = 0, lines_ = 0;
};

}  // namespace millrace::client
