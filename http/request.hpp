#pragma once
// A request as it was read, and the answer to it. Thread safety: plain values.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace {
class File;
}

namespace millrace::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;
  std::string path;  // without the query, its escapes resolved
  Headers headers;
  Headers query;  // escapes resolved
  std::map<std::string, std::string, std::less<>>
      parts;  // of the path, by their names in the route
  std::string body;
  std::string peer;  // the client's address, without its port

  // Each returns the first value, or an empty text where there is none. Headers' names have no
  // case.
  std::string_view header(std::string_view name) const;
  std::string_view argument(std::string_view name) const;
  std::string_view part(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string body;
  std::string type = "application/json";
  Headers headers;
  // In place of the body: the first bytes of a file, which are read as the client takes them.
  std::shared_ptr<File> file{};
  std::uint64_t file_bytes = 0;
};

// Whether two names of headers, hosts or schemes are the same but for the case of ASCII letters.
bool same_name(std::string_view one, std::string_view other);

}  // namespace millrace::http
