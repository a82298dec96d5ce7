#include "client/lines/line_reader.hpp"

#include <algorithm>
#include <span>

#include "schemas/base/hash.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t read_bytes = 256 * limits::KiB;

bool is_blank(std::string_view text) {
  return text.find_first_not_of(" \t\r\v\f") == std::string_view::npos;
}

}  // namespace

LineReader::LineReader(File& file, std::uint64_t max_line_bytes)
    : file_(file), max_line_bytes_(max_line_bytes) {}

// Reads more of the file into the buffer; false at the end of the file.
Result<bool> LineReader::fill() {
  if (at_end_) {
    return false;
  }
  if (begin_ > 0) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  const std::size_t held = buffer_.size();
  buffer_.resize(held + read_bytes);
  auto got = file_.read_at(offset_, std::span(buffer_).subspan(held));
  if (!got) {
    return fail(std::move(got).error());
  }
  buffer_.resize(held + *got);
  offset_ += *got;
  at_end_ = *got < read_bytes;
  if (!started_) {
    started_ = true;
    if (buffer_.starts_with(byte_order_mark)) {
      begin_ = byte_order_mark.size();
    }
  }
  return *got > 0;
}

Result<bool> LineReader::next(InputLine& line) {
  std::size_t scanned = 0;  // bytes after begin_ that are known to hold no newline
  while (true) {
    const std::size_t newline = buffer_.find('\n', begin_ + scanned);
    if (newline != std::string::npos) {
      const std::size_t length = newline - begin_;
      finish_line(length, true, line);
    } else {
      scanned = buffer_.size() - begin_;
      if (scanned > max_line_bytes_) {
        return pass_long_line(scanned, line);
      }
      MILLRACE_ASSIGN(const bool more, fill());
      if (more) {
        continue;
      }
      scanned = buffer_.size() - begin_;
      if (scanned == 0) {
        return false;
      }
      finish_line(scanned, false, line);
    }
    scanned = 0;
    if (line.too_long || !is_blank(line.text)) {
      return true;
    }
  }
}

void LineReader::finish_line(std::size_t length, bool newline, InputLine& line) {
  std::string_view text(buffer_.data() + begin_, length);
  if (text.ends_with('\r')) {
    text.remove_suffix(1);
  }
  line = {.number = ++number_,
          .text = text,
          .bytes = text.size(),
          .offset = offset_ - (buffer_.size() - begin_),
          .hash = hash64(text),
          .too_long = text.size() > max_line_bytes_};
  if (line.too_long) {
    line.text = {};
    line.offset = 0;
    line.hash = hash128(text).low;
  }
  begin_ += length + (newline ? 1 : 0);
}

// Hashes the line and drops it piece by piece.
Result<bool> LineReader::pass_long_line(std::size_t scanned, InputLine& line) {
  Hasher128 hasher;
  std::uint64_t bytes = 0;
  bool ended = false;
  bool carriage_return = false;  // held back: it may belong to the line's end
  const auto take = [&](std::string_view piece) {
    if (piece.empty()) {
      return;
    }
    if (carriage_return) {
      hasher.update("\r");
      ++bytes;
    }
    carriage_return = piece.ends_with('\r');
    piece.remove_suffix(carriage_return ? 1 : 0);
    hasher.update(piece);
    bytes += piece.size();
  };
  take(std::string_view(buffer_).substr(begin_, scanned));
  begin_ += scanned;
  while (!ended) {
    MILLRACE_ASSIGN(const bool more, fill());
    if (!more) {
      break;
    }
    const std::size_t newline = buffer_.find('\n', begin_);
    ended = newline != std::string::npos;
    const std::size_t end = ended ? newline : buffer_.size();
    take(std::string_view(buffer_).substr(begin_, end - begin_));
    begin_ = end + (ended ? 1 : 0);
  }
  line = {.number = ++number_,
          .text = {},
          .bytes = bytes,
          .hash = hasher.digest().low,
          .too_long = true};
  return true;
}

}  // namespace millrace::client
