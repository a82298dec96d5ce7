#pragma once
// Lists in pages, as OpenAI's API has them: `limit` and `order`, and `after`, the id of the last
// object of the page before, which may be gone by now. Errors: invalid_value. Thread safety: pure
// functions.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "http/request.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::http {

// Where an object stands in its list: the time of its making, and its id.
using Place = std::pair<std::int64_t, std::string>;

template <class T>
Place place_of(const T& stored) {
  return {stored.created_us, stored.object.id};
}

struct Page {
  std::string after;
  std::size_t limit = 0;
  bool newest_first = true;
};

// A limit that is not given is `usual`.
Result<Page> parse_page(const Request& request, std::size_t usual, std::size_t most);

// The page of objects of which the oldest comes first. `after` is the place of the object with that
// id, which need not be among them; nothing where there has been none.
template <class T, class Write>
Result<std::string> page_json(std::vector<T> all, const Page& page,
                              const std::optional<Place>& after, const Write& write) {
  if (page.newest_first) std::ranges::reverse(all);
  auto from = all.begin();
  if (!page.after.empty()) {
    if (!after) {
      return fail(Code::invalid_value, "after: the list has no " + page.after,
                  "give the id of the last object of the page before, or begin again without "
                  "after");
    }
    from = std::ranges::find_if(all, [&](const T& one) {
      return page.newest_first ? place_of(one) < *after : place_of(one) > *after;
    });
  }
  const auto left = static_cast<std::size_t>(all.end() - from);
  const auto to = from + static_cast<std::ptrdiff_t>(std::min(left, page.limit));
  std::string out;
  JsonWriter json(out);
  json.begin_object().field("object", "list").key("data").begin_array();
  for (auto one = from; one != to; ++one) write(json, one->object);
  json.end_array().key("first_id");
  from == to ? json.null() : json.value(from->object.id);
  json.key("last_id");
  from == to ? json.null() : json.value(std::prev(to)->object.id);
  json.field("has_more", to != all.end()).end_object();
  return out;
}

}  // namespace millrace::http
