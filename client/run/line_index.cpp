#include "client/run/line_index.hpp"

#include <span>

namespace millrace::client {
namespace {

constexpr std::size_t entry_bytes = 16;
constexpr std::size_t buffer_bytes = 64 * limits::KiB;
constexpr const char* changed_hint = "put the input back as it was, or start over with --restart";

void append_u64(std::string& out, std::uint64_t value) {
  for (unsigned shift = 0; shift < 64; shift += 8) {
    out += static_cast<char>(value >> shift);
  }
}

std::uint64_t read_u64(const char* bytes) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < 8; ++i) {
    value |= std::uint64_t{static_cast<unsigned char>(bytes[i])} << (8 * i);
  }
  return value;
}

}  // namespace

Result<InputSummary> write_line_index(Env& env, File& input, const std::string& path) {
  MILLRACE_ASSIGN(auto file, env.open(path, OpenMode::replace));
  LineReader reader(input);
  InputLine line;
  InputSummary summary;
  Hasher128 hasher;
  std::string buffer;
  const auto flush = [&]() -> Status {
    hasher.update(buffer);
    MILLRACE_TRY(file->append(buffer));
    buffer.clear();
    return {};
  };
  while (true) {
    MILLRACE_ASSIGN(const bool more, reader.next(line));
    if (!more) {
      break;
    }
    ++summary.lines;
    summary.last_number = line.number;
    append_u64(buffer, line.number);
    append_u64(buffer, line.hash);
    if (buffer.size() >= buffer_bytes) {
      MILLRACE_TRY(flush());
    }
  }
  MILLRACE_TRY(flush());
  MILLRACE_TRY(file->sync());
  summary.hash = hasher.digest().hex();
  return summary;
}

Status check_line_index(Env& env, InputFiles& input, const std::string& path,
                        const InputSummary& expected) {
  MILLRACE_ASSIGN(auto file, env.open(path, OpenMode::read));
  MILLRACE_ASSIGN(const std::uint64_t size, file->size());
  if (size != expected.lines * entry_bytes) {
    return fail(Code::ledger_corrupt, path + " does not have the length that the manifest says",
                "start over with --restart");
  }
  LineIndexReader index(std::move(file), input);
  LineReader reader(input);
  InputLine line;
  while (true) {
    MILLRACE_ASSIGN(const bool more, reader.next(line));
    if (!more) {
      return index.expect_end();
    }
    MILLRACE_TRY(index.expect(line));
  }
}

Result<bool> LineIndexReader::next(std::uint64_t& number, std::uint64_t& hash) {
  if (buffer_.size() - begin_ < entry_bytes) {
    buffer_.resize(buffer_bytes);
    auto got = file_->read_at(offset_, std::span(buffer_));
    if (!got) {
      return fail(std::move(got).error());
    }
    buffer_.resize(*got - *got % entry_bytes);
    offset_ += buffer_.size();
    begin_ = 0;
    if (buffer_.empty()) {
      return false;
    }
  }
  number = read_u64(buffer_.data() + begin_);
  hash = read_u64(buffer_.data() + begin_ + 8);
  begin_ += entry_bytes;
  return true;
}

std::string LineIndexReader::place_text(std::uint64_t number) const {
  return input_->place_text(number) + (input_->several() ? "" : " of the input");
}

Status LineIndexReader::expect(const InputLine& line) {
  std::uint64_t number = 0;
  std::uint64_t hash = 0;
  MILLRACE_ASSIGN(const bool more, next(number, hash));
  if (!more) {
    return fail(Code::input_changed, place_text(line.number) + " was added since the run began",
                changed_hint);
  }
  if (number != line.number) {
    const std::uint64_t first = number < line.number ? number : line.number;
    return fail(Code::input_changed,
                place_text(first) + " was added, removed or emptied since the run began",
                changed_hint);
  }
  if (hash != line.hash) {
    return fail(Code::input_changed, place_text(number) + " has changed since the run began",
                changed_hint);
  }
  return {};
}

Status LineIndexReader::expect_end() {
  std::uint64_t number = 0;
  std::uint64_t hash = 0;
  MILLRACE_ASSIGN(const bool more, next(number, hash));
  if (more) {
    return fail(
        Code::input_changed,
        "the input ends before " + input_->place_text(number) + ", which it had when the run began",
        changed_hint);
  }
  return {};
}

}  // namespace millrace::client
