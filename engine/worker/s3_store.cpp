#include "engine/worker/s3_store.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <utility>

#include "engine/worker/s3_answers.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::worker {
namespace {

using engine::StoredFile;

constexpr long connect_ms = 5'000;
// A transfer that is slower than this for so long has failed.
constexpr long least_bytes_per_s = 1'000, slow_s = 8;
constexpr std::size_t most_answer_bytes = 4 * limits::MiB;  // a page of a listing has under 1 MiB

struct Request {
  const char* method = "GET";
  std::string path{};                  // after the bucket, with the query
  std::vector<std::string> headers{};  // signed
  std::string range{};
  std::string_view body{};
};

struct Answer {
  long status = 0;
  std::string body;
};

class S3Store final : public engine::SegmentStore {
 public:
  explicit S3Store(S3Settings settings) : settings_(std::move(settings)) {
    static std::once_flag once;
    std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
    curl_ = curl_easy_init();
  }
  ~S3Store() override { curl_easy_cleanup(curl_); }
  S3Store(const S3Store&) = delete;
  S3Store& operator=(const S3Store&) = delete;

  Result<std::vector<StoredFile>> list() override;
  Result<std::size_t> read(const std::string& name, std::uint64_t offset,
                           std::span<char> into) override;
  Status write(const std::string& name, std::string_view content) override;
  Status remove(const std::string& name) override;
  Status touch(const std::string& name) override;
  std::string place(const std::string& name) const override {
    return "s3://" + settings_.bucket + "/" + settings_.folder + name;
  }
  std::string place() const override {
    const std::string at = settings_.endpoint.empty() ? "" : " at " + settings_.endpoint;
    return place("") + at;
  }
  void give_up() override { given_up_ = true; }

 private:
  Result<Answer> send(const Request& request, std::size_t most_bytes = most_answer_bytes);
  std::string url_of(const std::string& path) const;
  std::string key_path(const std::string& name) const { return "/" + settings_.folder + name; }
  std::unexpected<Error> refused(const Request& request, const Answer& answer) const;

  S3Settings settings_;
  CURL* curl_ = nullptr;
  std::atomic<bool> given_up_ = false;
};

struct Body {
  std::string text;
  std::size_t most_bytes;
};

std::size_t append(char* data, std::size_t size, std::size_t count, void* to) {
  Body& body = *static_cast<Body*>(to);
  const std::size_t bytes = size * count;
  if (body.text.size() + bytes > body.most_bytes) return 0;  // which ends the transfer
  body.text.append(data, bytes);
  return bytes;
}

int go_on(void* given_up, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  return *static_cast<const std::atomic<bool>*>(given_up) ? 1 : 0;
}

// As the signature wants a query: all but letters, digits and -._~ as %XX.
std::string query_text(std::string_view text) {
  constexpr std::string_view digits = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       std::string_view("-._~").find(c) != std::string_view::npos;
    const auto byte = static_cast<unsigned char>(c);
    out += plain ? std::string(1, c) : std::string{'%', digits[byte >> 4], digits[byte & 15]};
  }
  return out;
}

std::string S3Store::url_of(const std::string& path) const {
  if (!settings_.endpoint.empty()) return settings_.endpoint + "/" + settings_.bucket + path;
  return "https://" + settings_.bucket + ".s3." + settings_.region + ".amazonaws.com" + path;
}

Result<Answer> S3Store::send(const Request& request, std::size_t most_bytes) {
  if (curl_ == nullptr) return fail(Code::internal, "libcurl cannot be set up");
  const std::string url = url_of(request.path), signature = "aws:amz:" + settings_.region + ":s3";
  curl_easy_reset(curl_);
  const auto set = [this](auto option, auto value) { curl_easy_setopt(curl_, option, value); };
  Body body{{}, most_bytes};
  char error[CURL_ERROR_SIZE] = "";
  // S3 wants this header of every request. Segments have checksums of their own.
  curl_slist* headers = curl_slist_append(nullptr, "X-Amz-Content-Sha256: UNSIGNED-PAYLOAD");
  for (const std::string& line : request.headers)
    headers = curl_slist_append(headers, line.c_str());
  if (!settings_.token.empty()) {
    headers = curl_slist_append(headers, ("X-Amz-Security-Token: " + settings_.token).c_str());
  }
  set(CURLOPT_URL, url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
  set(CURLOPT_CUSTOMREQUEST, request.method);
  if (std::string_view(request.method) == "PUT") {
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
    set(CURLOPT_POSTFIELDS, request.body.empty() ? "" : request.body.data());
    set(CURLOPT_EXPECT_100_TIMEOUT_MS, 100L);
  }
  if (!request.range.empty()) set(CURLOPT_RANGE, request.range.c_str());
  set(CURLOPT_HTTPHEADER, headers);
  set(CURLOPT_AWS_SIGV4, signature.c_str());
  set(CURLOPT_USERNAME, settings_.key.c_str());
  set(CURLOPT_PASSWORD, settings_.secret.c_str());
  set(CURLOPT_USERAGENT, "millrace");
  set(CURLOPT_NOSIGNAL, 1L);  // other threads have the signals
  set(CURLOPT_CONNECTTIMEOUT_MS, connect_ms);
  set(CURLOPT_LOW_SPEED_LIMIT, least_bytes_per_s);
  set(CURLOPT_LOW_SPEED_TIME, slow_s);
  if (!settings_.certificates.empty()) set(CURLOPT_CAINFO, settings_.certificates.c_str());
  set(CURLOPT_ERRORBUFFER, error);
  set(CURLOPT_WRITEFUNCTION, &append);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&body));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &go_on);
  set(CURLOPT_XFERINFODATA, static_cast<void*>(&given_up_));
  const CURLcode code = curl_easy_perform(curl_);
  curl_slist_free_all(headers);
  if (code != CURLE_OK) {
    return fail(Code::io_error,
                place() + ": " + (error[0] != '\0' ? error : curl_easy_strerror(code)),
                "check the network, AWS_ENDPOINT_URL and AWS_REGION");
  }
  Answer answer;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &answer.status);
  answer.body = std::move(body.text);
  return answer;
}

std::unexpected<Error> S3Store::refused(const Request& request, const Answer& answer) const {
  const S3Refusal refusal = parse_s3_refusal(answer.body);
  std::string message =
      place() + ": " + request.method + " is answered with " + std::to_string(answer.status);
  if (!refusal.code.empty()) message += " " + refusal.code + ": " + refusal.message;
  if (refusal.code == "NoSuchBucket") {
    return fail(Code::not_found, message, "make this bucket, or name another one");
  }
  if (answer.status == 403) {
    return fail(Code::io_error, message,
                "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, and that this key may list, get, "
                "put and delete objects of the bucket");
  }
  if (answer.status == 301 || answer.status == 400) {
    return fail(Code::io_error, message, "check AWS_REGION, the region of the bucket");
  }
  if (answer.status == 507) return fail(Code::disk_full, message, "free some space on the server");
  return fail(answer.status == 404 ? Code::not_found : Code::io_error, message);
}

Result<std::vector<StoredFile>> S3Store::list() {
  std::vector<StoredFile> out;
  std::string token;
  do {
    // The parameters are sorted, as the signature wants them.
    const Request request{
        .path = "/?" + (token.empty() ? "" : "continuation-token=" + query_text(token) + "&") +
                "list-type=2&prefix=" + query_text(settings_.folder)};
    MILLRACE_ASSIGN(const Answer answer, send(request));
    if (answer.status != 200) return refused(request, answer);
    const auto listing = parse_s3_listing(answer.body);
    if (!listing) return fail(Code::io_error, place() + ": the answer is no listing of a bucket");
    if (listing->cut_off) {
      return fail(Code::io_error,
                  place() + ": the listing is truncated and has no NextContinuationToken",
                  "use a server that answers ListObjectsV2 (list-type=2) in pages");
    }
    for (const S3Object& object : listing->objects) {
      std::string name = object.key.substr(std::min(object.key.size(), settings_.folder.size()));
      if (!engine::is_segment_name(name)) continue;
      out.push_back({std::move(name), object.bytes, object.modified_s});
    }
    token = listing->next;
  } while (!token.empty());
  return out;
}

Result<std::size_t> S3Store::read(const std::string& name, std::uint64_t offset,
                                  std::span<char> into) {
  if (into.empty()) return std::size_t{0};
  Request request{.path = key_path(name)};
  request.range = std::to_string(offset) + "-" + std::to_string(offset + into.size() - 1);
  MILLRACE_ASSIGN(const Answer answer, send(request, std::max(into.size(), most_answer_bytes)));
  if (answer.status == 416) return std::size_t{0};  // the object ends before
  if (answer.status != 206) return refused(request, answer);
  const std::size_t size = std::min(into.size(), answer.body.size());
  std::memcpy(into.data(), answer.body.data(), size);
  return size;
}

Status S3Store::write(const std::string& name, std::string_view content) {
  const Request request{.method = "PUT",
                        .path = key_path(name),
                        .headers = {"Content-Type: application/octet-stream"},
                        .body = content};
  MILLRACE_ASSIGN(const Answer answer, send(request));
  if (answer.status == 200) return {};
  Error error = refused(request, answer).error();
  // Not the object is absent, which would be no failure, but where it belongs.
  if (error.code == Code::not_found) error.code = Code::io_error;
  return fail(std::move(error));
}

Status S3Store::remove(const std::string& name) {
  const Request request{.method = "DELETE", .path = key_path(name)};
  MILLRACE_ASSIGN(const Answer answer, send(request));
  if (answer.status == 204 || answer.status == 200) return {};
  return refused(request, answer);
}

Status S3Store::touch(const std::string& name) {
  const Request request{.method = "PUT",
                        .path = key_path(name),
                        .headers = {"Content-Type: application/octet-stream",
                                    "X-Amz-Copy-Source: /" + settings_.bucket + key_path(name),
                                    "X-Amz-Metadata-Directive: REPLACE"}};
  MILLRACE_ASSIGN(const Answer answer, send(request));
  if (answer.status == 200) return {};
  return refused(request, answer);
}

}  // namespace

std::unique_ptr<engine::SegmentStore> s3_store(const S3Settings& settings) {
  return std::make_unique<S3Store>(settings);
}

}  // namespace millrace::worker
