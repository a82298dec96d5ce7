#include "engine/core/device/completed_text.hpp"

#include <algorithm>

namespace millrace::engine {
namespace {

constexpr std::string_view target = ".target sm_90";

std::unexpected<Error> refuse(std::string what) {
  return fail(
      Code::kernel_build, "the text of a program from the driver's compiler " + std::move(what),
      "this driver's text was not foreseen; the program is not needed, others stand for it");
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (std::size_t at = text.find(what); at != text.npos; at = text.find(what)) {
    out.append(text.substr(0, at)).append(by);
    text.remove_prefix(at + what.size());
  }
  return out.append(text);
}

}  // namespace

Result<std::string> completed_text(std::string_view text) {
  while (text.ends_with('\0')) text.remove_suffix(1);
  if (text.contains('\0')) return refuse("is no text");
  const std::size_t at = text.find(target);
  if (at == text.npos) return refuse("has no line '" + std::string(target) + "'");
  const std::size_t end = std::min(text.find_first_of("\r\n", at), text.size());
  const std::string_view line = text.substr(at, end - at);
  if (line != target && line.substr(0, target.size() + 1) != std::string(target) + ",") {
    return refuse("has the line '" + std::string(line) + "' in place of '" + std::string(target) +
                  "'");
  }
  if (!text.contains(completed_mark)) {
    return refuse("lost the marked instructions '" + std::string(completed_mark) + "...'");
  }
  std::string out(text.substr(0, at + target.size()));
  out += 'a';
  return out + replaced(text.substr(at + target.size()), completed_mark, "");
}

}  // namespace millrace::engine
