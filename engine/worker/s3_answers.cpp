#include "engine/worker/s3_answers.hpp"

#include <charconv>
#include <chrono>
#include <utility>

namespace millrace::worker {
namespace {

// The text of the first element of a name, and what comes after it.
struct Element {
  std::string_view text, rest;
};
std::optional<Element> element(std::string_view xml, std::string_view name) {
  const std::string open = "<" + std::string(name) + ">", close = "</" + std::string(name) + ">";
  const std::size_t from = xml.find(open);
  if (from == xml.npos) return std::nullopt;
  xml.remove_prefix(from + open.size());
  const std::size_t to = xml.find(close);
  if (to == xml.npos) return std::nullopt;
  return Element{xml.substr(0, to), xml.substr(to + close.size())};
}

std::string text_of(std::string_view xml, std::string_view name) {
  const auto found = element(xml, name);
  if (!found) return {};
  std::string out;
  for (std::string_view rest = found->text; !rest.empty();) {
    constexpr std::pair<std::string_view, char> escapes[] = {
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&#34;", '"'}};
    std::size_t size = 1;
    char c = rest.front();
    for (const auto& [escape, meant] : escapes) {
      if (!rest.starts_with(escape)) continue;
      size = escape.size();
      c = meant;
    }
    out += c;
    rest.remove_prefix(size);
  }
  return out;
}

template <class Number>
std::optional<Number> number_of(std::string_view text) {
  Number out{};
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), out);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return out;
}

// "2026-01-02T03:04:05.678Z", in seconds.
std::optional<std::int64_t> time_of(std::string_view text) {
  if (text.size() < 20 || text[4] != '-' || text[10] != 'T') return std::nullopt;
  const auto year = number_of<int>(text.substr(0, 4));
  const auto month = number_of<unsigned>(text.substr(5, 2));
  const auto day = number_of<unsigned>(text.substr(8, 2));
  const auto hour = number_of<int>(text.substr(11, 2));
  const auto minute = number_of<int>(text.substr(14, 2));
  const auto second = number_of<int>(text.substr(17, 2));
  if (!year || !month || !day || !hour || !minute || !second) return std::nullopt;
  using std::chrono::sys_days;
  const std::chrono::year_month_day date{std::chrono::year(*year), std::chrono::month(*month),
                                         std::chrono::day(*day)};
  const std::chrono::sys_seconds time = sys_days(date) + std::chrono::hours(*hour) +
                                        std::chrono::minutes(*minute) +
                                        std::chrono::seconds(*second);
  return time.time_since_epoch().count();
}

}  // namespace

std::optional<S3Listing> parse_s3_listing(std::string_view xml) {
  if (xml.find("<ListBucketResult") == xml.npos) return std::nullopt;
  S3Listing out;
  if (text_of(xml, "IsTruncated") == "true") {
    out.next = text_of(xml, "NextContinuationToken");
    out.cut_off = out.next.empty();
  }
  while (const auto contents = element(xml, "Contents")) {
    const auto bytes = number_of<std::uint64_t>(text_of(contents->text, "Size"));
    const auto modified_s = time_of(text_of(contents->text, "LastModified"));
    if (!bytes || !modified_s) return std::nullopt;
    out.objects.push_back({text_of(contents->text, "Key"), *bytes, *modified_s});
    xml = contents->rest;
  }
  return out;
}

S3Refusal parse_s3_refusal(std::string_view xml) {
  if (xml.find("<Error>") == xml.npos) return {};
  return {text_of(xml, "Code"), text_of(xml, "Message")};
}

}  // namespace millrace::worker
