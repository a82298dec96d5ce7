#include "client/commands/text_input.hpp"

#include <cerrno>
#include <iostream>
#include <system_error>

#include "schemas/base/utf8.hpp"

namespace millrace::client {
namespace {

std::unexpected<Error> cannot_read(const std::string& name) {
  return fail(Code::io_error, "cannot read " + name + ": " + std::generic_category().message(errno),
              "check that it is a file you may read");
}

}  // namespace

Result<TextInput> TextInput::open(const std::string& path) {
  TextInput input(path.empty() ? "standard input" : path);
  if (!path.empty()) {
    errno = 0;
    input.file_ = std::make_unique<std::ifstream>(path, std::ios::binary);
    if (!*input.file_) {
      return cannot_read(path);
    }
  }
  return input;
}

Result<bool> TextInput::next(std::string& line) {
  std::istream& stream = file_ ? static_cast<std::istream&>(*file_) : std::cin;
  errno = 0;
  if (std::getline(stream, line)) {
    ++number_;
    return true;
  }
  if (stream.bad()) {  // a folder, for example, can be opened but not read
    return cannot_read(name_);
  }
  return false;
}

Status check_text(const std::string& line) {
  if (utf8_valid(line)) {
    return {};
  }
  return fail(Code::invalid_utf8,
              "invalid UTF-8 at byte " + std::to_string(utf8_valid_prefix(line) + 1),
              "save the text as UTF-8");
}

}  // namespace millrace::client
