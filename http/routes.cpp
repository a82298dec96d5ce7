#include "http/routes.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "schemas/base/utf8.hpp"

namespace millrace::http {
namespace {

std::vector<std::string> segments_of(std::string_view path) {
  std::vector<std::string> segments;
  while (!path.empty()) {
    path.remove_prefix(1);  // the slash
    const auto end = std::min(path.find('/'), path.size());
    segments.emplace_back(path.substr(0, end));
    path.remove_prefix(end);
  }
  return segments;
}

bool is_name(std::string_view segment) {
  return segment.starts_with('{');
}
bool takes_all(std::string_view segment) {
  return segment.ends_with("*}");
}
std::string name_of(std::string_view segment) {
  return std::string(segment.substr(1, segment.size() - (takes_all(segment) ? 3 : 2)));
}

std::optional<Routes::Parts> match(const std::vector<std::string>& pattern,
                                   const std::vector<std::string>& path) {
  Routes::Parts parts;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (i >= path.size()) return std::nullopt;
    if (!is_name(pattern[i])) {
      if (pattern[i] != path[i]) return std::nullopt;
      continue;
    }
    std::string value = path[i];
    if (takes_all(pattern[i])) {
      for (std::size_t next = i + 1; next < path.size(); ++next) value += "/" + path[next];
    }
    if (value.empty()) return std::nullopt;
    parts[name_of(pattern[i])] = std::move(value);
    if (takes_all(pattern[i])) return parts;
  }
  if (path.size() != pattern.size()) return std::nullopt;
  return parts;
}

std::string written(const std::vector<std::string>& pattern) {
  std::string path;
  for (const std::string& segment : pattern) {
    path += "/" + (takes_all(segment) ? "{" + name_of(segment) + "}" : segment);
  }
  return path;
}

std::optional<int> digit(char letter) {
  if (letter >= '0' && letter <= '9') return letter - '0';
  if (letter >= 'a' && letter <= 'f') return letter - 'a' + 10;
  if (letter >= 'A' && letter <= 'F') return letter - 'A' + 10;
  return std::nullopt;
}

}  // namespace

void Routes::add(std::string_view method, std::string_view pattern, Handler handler,
                 std::uint64_t body_bytes) {
  routes_.push_back({std::string(method), segments_of(pattern), std::move(handler), body_bytes});
}

void Routes::add_form(std::string_view method, std::string_view pattern, FormMaker make_form,
                      Handler handler, std::uint64_t body_bytes, std::uint32_t body_ms) {
  routes_.push_back({std::string(method), segments_of(pattern), std::move(handler), body_bytes,
                     std::move(make_form), body_ms});
}

Routes::Match Routes::find(std::string_view method, const std::vector<std::string>& path) const {
  Match found;
  for (const Route& route : routes_) {
    auto parts = match(route.pattern, path);
    if (!parts) continue;
    if (route.method == method || (route.method == "GET" && method == "HEAD")) {
      found.route = &route;
      found.parts = *std::move(parts);
      return found;
    }
    found.allowed.push_back(route.method);
    if (route.method == "GET") found.allowed.emplace_back("HEAD");
  }
  return found;
}

std::string Routes::hint_for(const std::vector<std::string>& path) const {
  const auto ends_with = [](const auto& whole, const auto& end) {
    return !end.empty() && end.size() < whole.size() &&
           std::equal(end.rbegin(), end.rend(), whole.rbegin());
  };
  std::vector<std::string> plural = path;  // llama-server has /completion
  if (!plural.empty() && !plural.back().empty()) plural.back() += 's';
  const Route *moved = nullptr, *of_plural = nullptr;  // the shortest: /v1/completions, no chat
  const auto shorter = [](const Route& route, const Route* than) {
    return than == nullptr || route.pattern.size() < than->pattern.size();
  };
  for (const Route& route : routes_) {
    const bool fits = ends_with(route.pattern, path) || ends_with(path, route.pattern);
    if (fits && shorter(route, moved)) moved = &route;
    const bool as_plural = route.pattern == plural || ends_with(route.pattern, plural);
    if (as_plural && shorter(route, of_plural)) of_plural = &route;
  }
  if (moved != nullptr) {
    return "the address is " + written(moved->pattern) +
           "; look at the base URL that the client was given";
  }
  if (of_plural != nullptr) return "the address is " + written(of_plural->pattern);
  const std::string beside = list_beside(path.empty() ? "" : path[0]);
  const std::string listed = beside.empty() ? list_beside({}) : beside;
  return listed.empty() ? "check the address" : "there are " + listed;
}

// The routes that begin with a segment, or with any, but for the page and its files, which have
// dots in their names.
std::string Routes::list_beside(std::string_view first) const {
  std::vector<std::string> found;
  for (const Route& route : routes_) {
    const std::string its = written(route.pattern);
    const bool near = first.empty() || (route.pattern.size() > 1 && route.pattern[0] == first);
    if (near && its != "/" && !route.pattern.back().contains('.') &&
        std::ranges::find(found, its) == found.end()) {
      found.push_back(its);
    }
  }
  std::string list;
  for (const std::string& one : found) list += (list.empty() ? "" : ", ") + one;
  return list;
}

Result<std::string> unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    char letter = text[i];
    if (letter == '%') {
      const auto high = i + 2 < text.size() ? digit(text[i + 1]) : std::nullopt;
      const auto low = high ? digit(text[i + 2]) : std::nullopt;
      if (!low) return fail(Code::invalid_value, "the address has a broken escape after %");
      letter = static_cast<char>(*high * 16 + *low);
      i += 2;
    }
    const auto value = static_cast<unsigned char>(letter);
    if (value < 0x20 || value == 0x7f) {
      return fail(Code::invalid_value, "the address has a control character");
    }
    plain += letter;
  }
  if (!utf8_valid(plain)) return fail(Code::invalid_utf8, "the address is not UTF-8");
  return plain;
}

Result<std::vector<std::string>> split_path(std::string_view path) {
  if (!path.starts_with('/')) {
    return fail(Code::invalid_value, "the address does not begin with a slash");
  }
  std::vector<std::string> segments = segments_of(path);
  for (std::string& segment : segments) {
    MILLRACE_ASSIGN(segment, unescape(segment));
    if (segment == "." || segment == "..") {
      return fail(Code::invalid_value, "the address has a segment of dots");
    }
  }
  return segments;
}

}  // namespace millrace::http
