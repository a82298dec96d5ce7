#pragma once
// The Files API and the Batch API of a face: what their requests do to the stores, and who keeps
// the batches going. Where the broker has keys, no token is kept: the batches of a tenant that a
// restart has interrupted go on with the next request of this kind under one of its tokens.
// Errors of open: output_in_use (another server has the folder), those of Env.
// Thread safety: any thread.
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "http/batches/batch_worker.hpp"
#include "http/batches/upload.hpp"
#include "http/links.hpp"
#include "http/routes.hpp"
#include "http/work_thread.hpp"

namespace millrace::http {

struct BatchFaceOptions {
  std::string folder;
  std::string endpoint;               // of the broker's clients
  openai::TokenLookup token_bytes{};  // for the texts of tokens with logprobs
  FileLimits file_limits{};
};

class BatchFace {
 public:
  static Result<std::unique_ptr<BatchFace>> open(BatchFaceOptions options, Links& links);
  ~BatchFace() { stop(); }

  void add_routes(Routes& routes);
  void sweep();  // removes what has expired; call it now and then
  void stop();   // what is written so far is made durable

 private:
  using Exchanged = std::shared_ptr<Exchange>;
  BatchFace(BatchFaceOptions options, Links& links)
      : options_(std::move(options)), links_(links), env_(posix_env()) {}
  Status load();
  void attend(const Holder& holder);  // lets the tenant's batches go on, if they wait for a token
  // Runs `work` for a token with this role, on a thread of its own where it may wait for the disk.
  using Work = std::function<Result<Response>(Exchange& exchange, const Holder& holder)>;
  enum class Where : std::uint8_t { here, work_thread };
  Handler handler(KeyRole role, Where where, Work work);
  Result<Response> list_files(const Request& request, const Holder& holder);
  Result<Response> content_of(const Request& request, const Holder& holder);
  Result<Response> create_batch(Exchange& exchange, const Holder& holder);
  Result<Response> cancel_batch(const Request& request, const Holder& holder);
  void add_file_routes(Routes& routes);
  void add_batch_routes(Routes& routes);

  const BatchFaceOptions options_;
  Links& links_;
  const std::unique_ptr<Env> env_;
  const SystemClock clock_;
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<BatchStore> batches_;
  std::unique_ptr<FileStore> files_;
  UploadPlaces uploads_;
  std::unique_ptr<BatchParts> parts_;
  std::mutex mutex_;  // of the workers
  bool stopped_ = false;
  std::map<std::string, std::unique_ptr<BatchWorker>> workers_;  // by tenant
  std::unique_ptr<WorkThread> work_thread_;                      // the last member: it ends first
};

// Routes that say that the server keeps no files.
void add_routes_without_files(Routes& routes);

}  // namespace millrace::http
