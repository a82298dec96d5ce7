#include "schemas/trace/post.hpp"

#include <curl/curl.h>

#include <mutex>

#include "schemas/base/clock.hpp"

namespace millrace::trace {
namespace {

constexpr std::size_t answer_bytes = 64 * 1024;
constexpr long connect_ms = 5'000;
constexpr std::uint64_t ms_per_s = 1'000;

// Keeps the beginning of an answer, and takes the rest so that the connection can be used again;
// an answer that does not end is cut off by the time of the post.
std::size_t keep(char* data, std::size_t size, std::size_t count, void* to) {
  auto& body = *static_cast<std::string*>(to);
  const std::size_t bytes = size * count;
  body.append(data, std::min(bytes, answer_bytes - std::min(answer_bytes, body.size())));
  return bytes;
}

int go_on(void* until, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  const auto& until_us = *static_cast<const std::atomic<std::int64_t>*>(until);
  return SystemClock().monotonic_us() > until_us.load() ? 1 : 0;
}

class CurlPost final : public Post {
 public:
  CurlPost(const Settings& settings, const std::atomic<std::int64_t>& until_us)
      : curl_(curl_easy_init()), settings_(settings), until_us_(until_us) {
    error_[0] = '\0';
    add_header("Content-Type: application/json");
    add_header("Expect:");  // a body is sent at once
    for (const auto& [name, value] : settings.headers) add_header(name + ": " + value);
  }
  ~CurlPost() override {
    curl_slist_free_all(headers_);
    curl_easy_cleanup(curl_);
  }
  CurlPost(const CurlPost&) = delete;
  CurlPost& operator=(const CurlPost&) = delete;

  Status set_up();
  Posted send(const std::string& body) override;

 private:
  void add_header(const std::string& line) { headers_ = curl_slist_append(headers_, line.c_str()); }

  CURL* const curl_;
  const Settings& settings_;
  const std::atomic<std::int64_t>& until_us_;
  curl_slist* headers_ = nullptr;
  std::string answer_;
  char error_[CURL_ERROR_SIZE];
};

Status CurlPost::set_up() {
  if (curl_ == nullptr) return fail(Code::internal, "libcurl cannot be set up", {});
  const auto set = [this](auto option, auto value) { curl_easy_setopt(curl_, option, value); };
  set(CURLOPT_URL, settings_.url.c_str());
  set(CURLOPT_PROTOCOLS_STR, "http,https");
#if LIBCURL_VERSION_NUM >= 0x075700
  // A thread that still looks a name up is not waited for: a silent DNS server takes its time, and
  // the program would end as late.
  set(CURLOPT_QUICK_EXIT, 1L);
#endif
  set(CURLOPT_NOSIGNAL, 1L);  // other threads have the signals
  set(CURLOPT_HTTPHEADER, headers_);
  set(CURLOPT_USERAGENT, "millrace");
  set(CURLOPT_TIMEOUT_MS, static_cast<long>(settings_.timeout_ms));
  set(CURLOPT_CONNECTTIMEOUT_MS, std::min(connect_ms, static_cast<long>(settings_.timeout_ms)));
  if (!settings_.certificate.empty()) set(CURLOPT_CAINFO, settings_.certificate.c_str());
  set(CURLOPT_ERRORBUFFER, error_);
  set(CURLOPT_WRITEFUNCTION, &keep);
  set(CURLOPT_WRITEDATA, static_cast<void*>(&answer_));
  set(CURLOPT_NOPROGRESS, 0L);
  set(CURLOPT_XFERINFOFUNCTION, &go_on);
  set(CURLOPT_XFERINFODATA, const_cast<void*>(static_cast<const void*>(&until_us_)));
  return {};
}

Posted CurlPost::send(const std::string& body) {
  answer_.clear();
  error_[0] = '\0';
  curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, body.c_str());
  const CURLcode code = curl_easy_perform(curl_);
  Posted out;
  if (code != CURLE_OK) {
    out.error = error_[0] != '\0' ? error_ : curl_easy_strerror(code);
    return out;
  }
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &out.status);
  curl_off_t wait_s = 0;
  curl_easy_getinfo(curl_, CURLINFO_RETRY_AFTER, &wait_s);
  if (wait_s > 0) out.wait_ms = static_cast<std::uint64_t>(wait_s) * ms_per_s;
  out.body = answer_;
  return out;
}

}  // namespace

Result<std::unique_ptr<Post>> Post::open(const Settings& settings,
                                         const std::atomic<std::int64_t>& until_us) {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  auto post = std::make_unique<CurlPost>(settings, until_us);
  MILLRACE_TRY(post->set_up());
  return std::unique_ptr<Post>(std::move(post));
}

}  // namespace millrace::trace
