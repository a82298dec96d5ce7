#pragma once
// The HTTP face of a broker: OpenAI's completions, files, batches and models, and health. It is a
// client of the broker like any other, through a session for each token.
//
//   MILLRACE_ASSIGN(auto face, Face::start({.listen = "127.0.0.1:8080", .endpoint = broker}));
//
// Errors of start: those of the server; output_in_use (another server has the folder of files), and
// those of Env; unauthorized for an address that other machines can reach
// where the broker has no keys.
// Thread safety: any thread.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/routes.hpp"
#include "http/server.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/openai/file_object.hpp"
#include "schemas/openai/logprobs.hpp"

namespace millrace::trace {
class Exporter;
}

namespace millrace::http {

struct FaceOptions {
  std::string listen = "127.0.0.1:8080";
  std::string certificate, key;            // PEM files, for TLS
  std::vector<std::string> allow_origins;  // pages of others that may use it
  std::string endpoint;                    // of the broker's clients
  std::string keys;                        // the broker's folder of keys; empty: it has none
  std::string files;                       // folder of files and batches; empty: there are none
  std::uint64_t spare_bytes = limits::disk_high_bytes;  // of the files' disk, which uploads leave
  std::uint64_t tenant_files_bytes = openai::tenant_files_bytes;  // of a tenant; 0: any number
  std::uint64_t timeout_ms = 600'000;                             // for one answer
  ServerLimits limits{};
  openai::TokenLookup token_bytes{};           // for the texts of tokens with logprobs
  std::shared_ptr<trace::Exporter> traces{};   // takes the spans of requests; null: none
  std::function<void(Routes&)> more_routes{};  // those of others, which come first
  Handler metrics{};  // answers /metrics; a broker with keys wants the role `operate`. May be empty
};

class Face {
 public:
  static Result<std::unique_ptr<Face>> start(FaceOptions options);
  virtual ~Face() = default;                   // stops at once
  virtual const std::string& url() const = 0;  // "http://127.0.0.1:8080"
  virtual Server& server() = 0;
  // Takes no new requests, and gives those under way this long. Then those without an answer get
  // 503, streams are cut, and the jobs of both are cancelled: the broker has to serve until this
  // returns. Another call may shorten the wait.
  virtual void stop(std::uint32_t wait_ms) = 0;
};

// The addresses of a list with commas between them.
std::vector<std::string> split_origins(std::string_view list);

// Checks what needs no socket. Errors: usage, unauthorized.
Status check_face(const FaceOptions& options);

}  // namespace millrace::http
