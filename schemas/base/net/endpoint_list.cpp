#include "schemas/base/net/endpoint_list.hpp"

#include <array>

namespace millrace::net {

bool begins_endpoint(std::string_view text) {
  constexpr std::array<std::string_view, 3> schemes{"tcp://", "ipc://", "inproc://"};
  for (const std::string_view scheme : schemes) {
    if (text.starts_with(scheme)) return true;
  }
  return false;
}

EndpointList::EndpointList(std::string_view text) {
  std::size_t begin = 0;
  for (std::size_t comma = text.find(','); comma != std::string_view::npos;
       comma = text.find(',', comma + 1)) {
    if (!begins_endpoint(text.substr(comma + 1))) continue;
    endpoints_.emplace_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  endpoints_.emplace_back(text.substr(begin));
}

}  // namespace millrace::net
