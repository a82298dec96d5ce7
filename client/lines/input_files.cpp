#include "client/lines/input_files.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "client/lines/line_reader.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

std::unexpected<Error> read_only() {
  return fail(Code::internal, "an input was to be written", "report it");
}

struct Ends {
  std::uint64_t newlines = 0;
  bool with_newline = true;  // also of an empty file, which needs none
};

Result<Ends> count_lines(File& file, std::uint64_t from) {
  Ends ends;
  std::string buffer(limits::MiB, '\0');
  for (std::uint64_t offset = from;;) {
    MILLRACE_ASSIGN(const std::size_t got, file.read_at(offset, std::span(buffer)));
    if (got == 0) {
      return ends;
    }
    const std::string_view piece(buffer.data(), got);
    ends.newlines += static_cast<std::uint64_t>(std::ranges::count(piece, '\n'));
    ends.with_newline = piece.ends_with('\n');
    offset += got;
  }
}

}  // namespace

Result<std::unique_ptr<InputFiles>> InputFiles::open(Env& env,
                                                     const std::vector<std::string>& paths,
                                                     std::vector<std::string> names) {
  std::unique_ptr<InputFiles> all(new InputFiles());
  for (std::size_t i = 0; i < paths.size(); ++i) {
    Part part;
    MILLRACE_ASSIGN(part.file, env.open(paths[i], OpenMode::read));
    part.name = i < names.size() ? names[i] : paths[i];
    all->name_ += (i == 0 ? "" : ", ") + part.name;
    MILLRACE_TRY(all->add(std::move(part), i + 1 == paths.size()));
  }
  return all;
}

// The reader of the whole skips the byte order mark at its beginning only.
Status InputFiles::add(Part part, bool is_last) {
  MILLRACE_ASSIGN(part.bytes, part.file->size());
  if (!parts_.empty()) {
    std::array<char, byte_order_mark.size()> begins{};
    MILLRACE_ASSIGN(const std::size_t got, part.file->read_at(0, begins));
    const bool marked = std::string_view(begins.data(), got) == byte_order_mark;
    part.skipped = marked ? byte_order_mark.size() : 0;
    part.bytes -= part.skipped;
  }
  part.begin = size_;
  part.lines_ahead = lines_;
  size_ += part.bytes;
  if (!is_last) {
    MILLRACE_ASSIGN(const Ends ends, count_lines(*part.file, part.skipped));
    size_ += ends.with_newline ? 0 : 1;
    lines_ += ends.newlines + (ends.with_newline ? 0 : 1);
  }
  parts_.push_back(std::move(part));
  return {};
}

InputPlace InputFiles::place(std::uint64_t line) const {
  const auto after =
      std::ranges::find_if(parts_, [line](const Part& part) { return part.lines_ahead >= line; });
  const Part& part = after == parts_.begin() ? parts_.front() : *std::prev(after);
  return {part.name, line - part.lines_ahead};
}

std::string InputFiles::place_text(std::uint64_t line) const {
  const InputPlace found = place(line);
  return (several() ? found.file + " line " : "line ") + std::to_string(found.line);
}

// A file that has grown meanwhile is read no further than it was at first, so that the places of
// the next ones hold. The last one is read to its end.
Result<std::size_t> InputFiles::read_at(std::uint64_t offset, std::span<char> into) {
  std::size_t filled = 0;
  for (std::size_t i = 0; i < parts_.size() && filled < into.size(); ++i) {
    Part& part = parts_[i];
    const bool is_last = i + 1 == parts_.size();
    const std::uint64_t end = is_last ? UINT64_MAX : parts_[i + 1].begin;
    const std::uint64_t at = offset + filled;
    if (at >= end) {
      continue;
    }
    const auto wanted =
        static_cast<std::size_t>(std::min<std::uint64_t>(into.size() - filled, end - at));
    const std::uint64_t held = is_last ? end : part.begin + part.bytes;
    const std::span<char> piece = into.subspan(filled, wanted);
    const auto from_file =
        static_cast<std::size_t>(std::min<std::uint64_t>(wanted, held - std::min(held, at)));
    MILLRACE_ASSIGN(const std::size_t got,
                    part.file->read_at(part.skipped + (at - part.begin), piece.first(from_file)));
    if (is_last) {
      return filled + got;
    }
    // The added newline, or a file that was cut meanwhile, whose missing lines are then blank.
    std::ranges::fill(piece.subspan(got), '\n');
    filled += wanted;
  }
  return filled;
}

Status InputFiles::append(std::string_view) {
  return read_only();
}

Status InputFiles::write_at(std::uint64_t, std::string_view) {
  return read_only();
}

Status InputFiles::truncate(std::uint64_t) {
  return read_only();
}

}  // namespace millrace::client
