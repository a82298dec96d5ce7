// Streams completions from a server of OpenAI's HTTP interface and prints what it measured as one
// line of JSON: the tokens of all answers, as the servers' usage tells them, and the seconds.
//
//   build/bin/http_load http://127.0.0.1:8080 64 bodies.jsonl
//
// The file has a request's body in each line. As many requests as given run at once, each on a
// connection of its own. It looks at no event but the last one of a stream, so that reading costs
// the server that shares the computer with it little.
#include <curl/curl.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/must.hpp"

namespace {

using millrace::bench::die;

constexpr std::size_t end_bytes = 4'096;  // the last event fits

struct Stream {
  CURL* handle = nullptr;
  std::string end;  // of what has come
};

std::size_t keep_end(char* data, std::size_t size, std::size_t count, void* stream) {
  std::string& end = static_cast<Stream*>(stream)->end;
  end.append(data, size * count);
  if (end.size() > end_bytes) end.erase(0, end.size() - end_bytes);
  return size * count;
}

// The tokens that the last event of a stream tells.
std::uint64_t tokens_of(const std::string& end) {
  const std::size_t done = end.rfind("data: [DONE]");
  const std::size_t last = end.rfind("data: {", done);
  if (done == std::string::npos || last == std::string::npos) die("a stream broke off: " + end);
  const auto event = nlohmann::json::parse(end.substr(last + 6, done - last - 6), nullptr, false);
  const auto tokens = nlohmann::json::json_pointer("/usage/completion_tokens");
  if (!event.is_object() || !event.contains(tokens)) die("a stream ended without usage: " + end);
  return event[tokens].get<std::uint64_t>();
}

class Load {
 public:
  Load(std::string url, std::vector<std::string> bodies)
      : url_(std::move(url)), bodies_(std::move(bodies)), multi_(curl_multi_init()) {
    headers_ = curl_slist_append(headers_, "Content-Type: application/json");
  }

  // Starts the next request in place of one that has ended; false if none is left.
  bool start(Stream& stream) {
    if (next_ == bodies_.size()) return false;
    const std::string& body = bodies_[next_++];
    stream.end.clear();
    stream.handle = curl_easy_init();
    const auto set = [&](auto option, auto value) {
      if (curl_easy_setopt(stream.handle, option, value) != CURLE_OK) die("libcurl refuses");
    };
    set(CURLOPT_URL, url_.c_str());
    set(CURLOPT_HTTPHEADER, headers_);
    set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
    set(CURLOPT_POSTFIELDS, body.c_str());
    set(CURLOPT_FAILONERROR, 1L);
    set(CURLOPT_FRESH_CONNECT, 1L);
    set(CURLOPT_WRITEFUNCTION, &keep_end);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&stream));
    set(CURLOPT_PRIVATE, static_cast<void*>(&stream));
    curl_multi_add_handle(multi_, stream.handle);
    return true;
  }

  // Returns the tokens of all answers.
  std::uint64_t run(std::size_t at_once) {
    std::vector<Stream> streams(at_once);
    std::size_t open = 0;
    for (Stream& stream : streams) open += start(stream) ? 1 : 0;
    std::uint64_t tokens = 0;
    while (open > 0) {
      int running = 0, left = 0;
      if (curl_multi_perform(multi_, &running) != CURLM_OK) die("libcurl fails");
      while (const CURLMsg* const told = curl_multi_info_read(multi_, &left)) {
        Stream& stream = take(*told);
        tokens += tokens_of(stream.end);
        open -= start(stream) ? 0 : 1;
      }
      if (open > 0) curl_multi_poll(multi_, nullptr, 0, 1'000, nullptr);
    }
    curl_slist_free_all(headers_);
    curl_multi_cleanup(multi_);
    return tokens;
  }

 private:
  // The stream of a request that has ended, without its handle.
  Stream& take(const CURLMsg& told) {
    if (told.msg != CURLMSG_DONE) die("libcurl tells what it never did");
    if (told.data.result != CURLE_OK) {
      die(url_ + ": " + curl_easy_strerror(told.data.result));
    }
    void* stream = nullptr;
    curl_easy_getinfo(told.easy_handle, CURLINFO_PRIVATE, &stream);
    Stream& ended = *static_cast<Stream*>(stream);
    curl_multi_remove_handle(multi_, ended.handle);
    curl_easy_cleanup(ended.handle);
    return ended;
  }

  std::string url_;
  std::vector<std::string> bodies_;
  CURLM* multi_;
  curl_slist* headers_ = nullptr;
  std::size_t next_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) die("give the server's address, the number of streams at once, and a file");
  const std::size_t at_once = std::strtoul(argv[2], nullptr, 10);
  if (at_once == 0) die(std::string("the number of streams at once is ") + argv[2]);
  std::ifstream file(argv[3]);
  std::vector<std::string> bodies;
  for (std::string line; std::getline(file, line);) bodies.push_back(line);
  if (bodies.empty()) die(std::string(argv[3]) + " has no line");
  curl_global_init(CURL_GLOBAL_DEFAULT);
  Load load(std::string(argv[1]) + "/v1/completions", std::move(bodies));
  const auto begin = std::chrono::steady_clock::now();
  const std::uint64_t tokens = load.run(at_once);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  std::printf("%s\n", nlohmann::json{{"tokens", tokens}, {"seconds", took.count()}}.dump().c_str());
}
