#include "client/lines/output_file.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <span>
#include <system_error>

#include "client/lines/line_id.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t scan_bytes = limits::MiB;
constexpr std::size_t start_bytes = 128;  // of a line: enough for its id
constexpr std::size_t end_bytes = 16;     // of a line: enough for "error":null
constexpr std::size_t pending_bytes = 256 * limits::KiB;
constexpr std::string_view id_start = "{\"id\":\"";
constexpr std::string_view good_end = "\"error\":null}";

}  // namespace

Result<OutputFile> OutputFile::open(Env& env, const std::string& path, std::uint64_t last_number,
                                    std::uint64_t synced_bytes, const ErrorsFile& errors,
                                    const OutputForm& form) {
  MILLRACE_ASSIGN(auto file, env.open(path, OpenMode::write, form.access));
  OutputFile output(std::move(file), last_number);
  output.form_ = form;
  MILLRACE_TRY(output.scan(output.good_, synced_bytes));
  MILLRACE_TRY(output.open_errors(env, errors));
  return output;
}

Result<OutputFile> OutputFile::begin(Env& env, std::unique_ptr<File> file,
                                     std::uint64_t last_number, const ErrorsFile& errors) {
  OutputFile output(std::move(file), last_number);
  MILLRACE_TRY(output.open_errors(env, errors));
  return output;
}

Status OutputFile::open_errors(Env& env, const ErrorsFile& errors) {
  if (errors.path.empty()) {
    return {};
  }
  MILLRACE_ASSIGN(bad_.file, env.open(errors.path, OpenMode::write, form_.access));
  return scan(bad_, errors.synced_bytes);
}

bool OutputFile::holds(std::uint64_t line_number) const {
  return line_number < held_.size() && held_[line_number];
}

std::unexpected<Error> OutputFile::foreign_line(const Part& part, std::uint64_t at,
                                                bool twice) const {
  return fail(
      Code::conflict,
      part.file->path() + " holds a line at byte " + std::to_string(at) +
          (twice ? " that repeats an earlier one" : " that this run did not write"),
      "move the file away and run again: the run takes finished results from the ledger and "
      "computes none again");
}

Status OutputFile::take_line(const Part& part, std::string_view start, std::uint64_t at) {
  std::optional<LineId> id;
  if (const std::string ours = std::string(id_start) + form_.id_start; start.starts_with(ours)) {
    start.remove_prefix(ours.size());
    id = parse_line_id(start.substr(0, start.find('"')));
  }
  if (!id || id->number >= held_.size() || held_[id->number]) {
    return foreign_line(part, at, id && holds(id->number));
  }
  held_[id->number] = true;
  ++lines_;
  return {};
}

// Keeps only the first and last bytes of a line, which may be too large to hold.
Status OutputFile::scan(Part& part, std::uint64_t synced_bytes) {
  File& file = *part.file;
  MILLRACE_ASSIGN(const std::uint64_t found_size, file.size());
  const std::uint64_t file_size = std::min(found_size, synced_bytes);
  std::string buffer(scan_bytes, '\0');
  std::string start;
  std::string end;
  std::uint64_t line_at = 0;
  for (std::uint64_t offset = 0; offset < file_size;) {
    const std::size_t wanted = std::min<std::uint64_t>(buffer.size(), file_size - offset);
    MILLRACE_ASSIGN(const std::size_t got, file.read_at(offset, std::span(buffer).first(wanted)));
    if (got == 0) {
      break;
    }
    std::string_view rest(buffer.data(), got);
    while (!rest.empty()) {
      const std::size_t newline = rest.find('\n');
      const std::string_view piece = rest.substr(0, newline);
      start += piece.substr(0, start_bytes - std::min(start.size(), start_bytes));
      end += piece.substr(piece.size() - std::min(piece.size(), end_bytes));
      end.erase(0, end.size() - std::min(end.size(), end_bytes));
      if (newline == std::string_view::npos) {
        break;
      }
      MILLRACE_TRY(take_line(part, start, line_at));
      failed_lines_ += end.ends_with(good_end) ? 0 : 1;
      rest.remove_prefix(newline + 1);
      line_at = offset + static_cast<std::uint64_t>(rest.data() - buffer.data());
      start.clear();
      end.clear();
    }
    offset += got;
  }
  if (!start.starts_with(id_start) && !id_start.starts_with(start)) {
    return foreign_line(part, line_at, false);  // cuts only a torn line of ours, never other text
  }
  part.size = line_at;
  if (line_at < found_size) {
    part.cut_bytes = found_size - line_at;
    MILLRACE_TRY(file.truncate(line_at));
    MILLRACE_TRY(file.sync());
  }
  return {};
}

namespace {

// Copies the lines that did not fail to the end of `to`.
Status copy_good_lines(File& from, File& to) {
  std::string buffer(scan_bytes, '\0');
  std::string line, good;
  for (std::uint64_t offset = 0;;) {
    MILLRACE_ASSIGN(const std::size_t got, from.read_at(offset, std::span(buffer)));
    if (got == 0) {
      return to.append(good);
    }
    offset += got;
    std::string_view rest(buffer.data(), got);
    for (std::size_t newline = 0; newline != std::string_view::npos && !rest.empty();) {
      newline = rest.find('\n');
      line += rest.substr(0, newline);
      if (newline == std::string_view::npos) {
        break;
      }
      if (line.ends_with(good_end)) {
        good += line + "\n";
      }
      line.clear();
      rest.remove_prefix(newline + 1);
    }
    if (good.size() >= pending_bytes) {
      MILLRACE_TRY(to.append(good));
      good.clear();
    }
  }
}

}  // namespace

Status OutputFile::drop_failed(Env& env, const std::string& path, const ErrorsFile& errors) {
  if (!errors.path.empty()) {
    MILLRACE_ASSIGN(const auto file, env.open(errors.path, OpenMode::write, Access::by_umask));
    MILLRACE_TRY(file->truncate(0));
    return file->sync();
  }
  const std::string fresh = path + ".new";
  MILLRACE_ASSIGN(const auto from, env.open(path, OpenMode::read));
  MILLRACE_ASSIGN(const auto to, env.open(fresh, OpenMode::replace, Access::by_umask));
  MILLRACE_TRY(copy_good_lines(*from, *to));
  MILLRACE_TRY(to->sync());
  std::error_code error;
  const auto before = std::filesystem::status(path, error);
  std::filesystem::permissions(fresh, before.permissions(), error);  // keeps who may read it
  MILLRACE_TRY(env.rename(fresh, path));
  return env.sync_directory(parent_directory(path));
}

Status OutputFile::append(std::uint64_t line_number, std::string_view text, bool failed) {
  if (line_number >= held_.size() || held_[line_number]) {
    return fail(Code::internal,
                "the output of line " + std::to_string(line_number) + " was to be written twice",
                "report it");
  }
  held_[line_number] = true;
  ++lines_;
  failed_lines_ += failed ? 1 : 0;
  Part& part = failed && bad_.file ? bad_ : good_;
  part.pending += text;
  part.dirty = true;
  return part.pending.size() >= pending_bytes ? part.flush() : Status();
}

Status OutputFile::Part::flush() {
  if (pending.empty()) {
    return {};
  }
  MILLRACE_TRY(file->write_at(size, pending));
  size += pending.size();
  pending.clear();
  return {};
}

Status OutputFile::Part::sync() {
  MILLRACE_TRY(flush());
  if (dirty) {
    MILLRACE_TRY(file->sync());
    dirty = false;
  }
  return {};
}

Status OutputFile::flush() {
  MILLRACE_TRY(good_.flush());
  return bad_.flush();
}

Status OutputFile::sync() {
  MILLRACE_TRY(good_.sync());
  return bad_.sync();
}

}  // namespace millrace::client
