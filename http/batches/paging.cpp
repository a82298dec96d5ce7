#include "http/batches/paging.hpp"

#include <charconv>

namespace millrace::http {

Result<Page> parse_page(const Request& request, std::size_t usual, std::size_t most) {
  Page page{.after = std::string(request.argument("after")), .limit = usual};
  if (const std::string_view text = request.argument("limit"); !text.empty()) {
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), page.limit);
    if (error != std::errc() || rest != end || page.limit == 0 || page.limit > most) {
      return fail(Code::invalid_value, "limit: it is no number from 1 to " + std::to_string(most));
    }
  }
  const std::string_view order = request.argument("order");
  if (!order.empty() && order != "asc" && order != "desc") {
    return fail(Code::invalid_value, "order: it is neither asc nor desc");
  }
  page.newest_first = order != "asc";
  return page;
}

}  // namespace millrace::http
