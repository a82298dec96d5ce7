#include "engine/supervise/device_list.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "engine/supervise/child_process.hpp"
#include "engine/supervise/last_words.hpp"

namespace millrace::supervise {
namespace {

constexpr auto pause_between_looks = std::chrono::milliseconds(5);
constexpr auto patience = std::chrono::seconds(120);  // a driver's start may take long

// Cuts the first word off.
std::string_view take_word(std::string_view& line) {
  const std::size_t space = std::min(line.find(' '), line.size());
  const std::string_view word = line.substr(0, space);
  line.remove_prefix(std::min(space + 1, line.size()));
  return word;
}

// Parses "0:1 UUID NAME", where UUID may be "-"; nothing: a line of the log.
std::optional<NamedDevice> parse_line(std::string_view line) {
  const std::string_view id = take_word(line);
  const std::size_t colon = id.find(':');
  const auto is_number = [](std::string_view text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
  };
  if (colon == std::string_view::npos || !is_number(id.substr(0, colon)) ||
      !is_number(id.substr(colon + 1))) {
    return std::nullopt;
  }
  const std::string_view uuid = take_word(line);
  return NamedDevice{std::string(id), std::string(uuid == "-" ? id : uuid), std::string(line)};
}

}  // namespace

Result<std::vector<NamedDevice>> list_devices(const std::string& program,
                                              std::vector<std::string> arguments) {
  arguments.emplace_back("--print-devices");
  ChildProcess child;
  MILLRACE_TRY(child.start(program, arguments));
  const auto end = std::chrono::steady_clock::now() + patience;
  std::string said;
  std::optional<ChildProcess::Ended> ended;
  while (!ended) {
    if (std::chrono::steady_clock::now() > end) {
      return fail(Code::engine_failed, "the devices could not be listed: no answer for 120 s",
                  "name one device with --device; millrace doctor lists them");
    }
    std::this_thread::sleep_for(pause_between_looks);
    ended = child.reap();
    said += child.read_output();
  }
  if (ended->exit_status != 0) {
    if (auto own = own_error(said)) return fail(*std::move(own));
    return fail(Code::engine_failed, "the devices could not be listed: " + program +
                                         " ended with " + ended->how + "; its last words:\n" +
                                         last_lines_of(said));
  }
  std::vector<NamedDevice> devices;
  for (std::size_t at = 0; at < said.size();) {
    const std::size_t line_end = std::min(said.find('\n', at), said.size());
    if (auto device = parse_line(std::string_view(said).substr(at, line_end - at))) {
      devices.push_back(*std::move(device));
    }
    at = line_end + 1;
  }
  if (!devices.empty()) return devices;
  return fail(Code::engine_failed, "the devices could not be listed: " + program + " named none",
              "the program may be older than this one: give one of the same version");
}

}  // namespace millrace::supervise
