#pragma once
// What an S3-compatible server answers, as far as a store of segments needs it: listings and
// errors, in XML. The names that the store looks for have no characters that XML escapes.
// Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::worker {

struct S3Object {
  std::string key;
  std::uint64_t bytes = 0;
  std::int64_t modified_s = 0;  // since 1970-01-01 UTC
};

struct S3Listing {
  std::vector<S3Object> objects;
  std::string next;      // the token that asks for the rest; empty: this is all, or see `cut_off`
  bool cut_off = false;  // there is more, and the server gave no token that asks for it
};
// None: the text is no listing.
std::optional<S3Listing> parse_s3_listing(std::string_view xml);

struct S3Refusal {
  std::string code;     // "AccessDenied"
  std::string message;  // of the server
};
S3Refusal parse_s3_refusal(std::string_view xml);  // empty where the text is no error

}  // namespace millrace::worker
