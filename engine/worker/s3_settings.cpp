#include "engine/worker/s3_settings.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace millrace::worker {
namespace {

std::string variable(const char* name, const char* other = nullptr) {
  for (const char* const each : {name, other}) {
    if (each == nullptr) continue;
    if (const char* const value = std::getenv(each); value != nullptr && *value != '\0') {
      return value;
    }
  }
  return {};
}

bool is_plain(std::string_view text, std::string_view others) {
  return std::ranges::all_of(text, [&](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           others.find(c) != others.npos;
  });
}

}  // namespace

Result<S3Settings> s3_settings(const std::string& url) {
  constexpr std::string_view scheme = "s3://";
  const std::string place = url.substr(scheme.size());
  S3Settings out;
  out.bucket = place.substr(0, place.find('/'));
  out.folder = place.substr(std::min(place.size(), out.bucket.size() + 1));
  while (out.folder.ends_with('/')) out.folder.pop_back();
  if (!out.folder.empty()) out.folder += '/';
  // These need no escapes, neither in a URL nor in a signature.
  if (out.bucket.empty() || !is_plain(out.bucket, "-.") || !is_plain(out.folder, "-._/") ||
      out.folder.starts_with('/') || out.folder.find("//") != out.folder.npos) {
    return fail(Code::usage, "--prefix-cache " + url + " names no place in a bucket",
                "write it like s3://BUCKET/FOLDER, with letters, digits, - . _ and /");
  }
  out.endpoint = variable("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
  while (out.endpoint.ends_with('/')) out.endpoint.pop_back();
  if (!out.endpoint.empty() && !out.endpoint.starts_with("http://") &&
      !out.endpoint.starts_with("https://")) {
    return fail(Code::usage, "AWS_ENDPOINT_URL " + out.endpoint + " is no address of a server",
                "write it like https://HOST:PORT");
  }
  out.region = variable("AWS_REGION", "AWS_DEFAULT_REGION");
  if (out.region.empty()) out.region = "us-east-1";
  out.key = variable("AWS_ACCESS_KEY_ID");
  out.secret = variable("AWS_SECRET_ACCESS_KEY");
  out.token = variable("AWS_SESSION_TOKEN");
  out.certificates = variable("AWS_CA_BUNDLE");
  if (!out.key.empty() && !out.secret.empty()) return out;
  return fail(Code::usage, "--prefix-cache " + url + " needs keys of the bucket's server",
              "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
}

}  // namespace millrace::worker
