#pragma once
// Which bucket of which S3-compatible server holds a store, and the keys for it.
// Errors: usage. Thread safety: reads the environment; no thread may change it meanwhile.
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::worker {

struct S3Settings {
  std::string bucket;
  std::string folder;    // what all keys begin with: empty, or with a slash at its end
  std::string endpoint;  // "https://host:port" of a server; empty: Amazon's
  std::string region;
  std::string key, secret, token;  // token: of a session, empty for lasting keys
  std::string certificates;        // a file of authorities; empty: the system's
};

// Reads "s3://BUCKET/FOLDER", and the rest from AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
// AWS_SESSION_TOKEN, AWS_REGION or AWS_DEFAULT_REGION, AWS_ENDPOINT_URL_S3 or AWS_ENDPOINT_URL, and
// AWS_CA_BUNDLE.
Result<S3Settings> s3_settings(const std::string& url);

}  // namespace millrace::worker
