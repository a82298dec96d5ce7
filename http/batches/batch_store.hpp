#pragma once
// The batches of the Batch API, in a folder of the server. FOLDER/batches/ID.json is the record of
// a batch, and the truth about it; the results so far are in FOLDER/results. Records are replaced
// as a whole, so that a crash leaves the old one or the new one. A batch belongs to the tenant that
// made it; to others it does not exist. Errors: not_found, limit_exceeded, disk_full, io_error.
// Thread safety: any thread.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "http/batches/record_folder.hpp"
#include "schemas/base/env.hpp"
#include "schemas/openai/batch_object.hpp"

namespace millrace::http {

struct StoredBatch {
  std::string tenant;
  std::int64_t created_us = 0;  // Unix time; batches are listed in its order
  std::uint64_t last_line = 0;  // of the input; known once it is checked
  std::string output, errors;   // ids of the files that its results become
  std::optional<std::uint64_t> output_expires_s{};
  bool finishing = false;  // every line has its result, and the files are being made
  openai::BatchObject object;
};

class BatchStore {
 public:
  static constexpr std::size_t open_per_tenant = 1'000;      // that are not over
  static constexpr std::size_t batches_per_tenant = 10'000;  // the oldest that are over go

  static Result<std::unique_ptr<BatchStore>> open(Env& env, std::string folder,
                                                  std::size_t kept_per_tenant = batches_per_tenant);

  static std::string new_id();  // "batch_" and 32 hex digits
  Status add(StoredBatch batch);
  std::optional<StoredBatch> find(const std::string& id);
  std::optional<StoredBatch> find(const std::string& tenant, const std::string& id);
  std::vector<StoredBatch> list(const std::string& tenant);  // the oldest first
  // Changes a batch and saves it. An error of `change` leaves it as it was.
  Result<StoredBatch> change(const std::string& id,
                             const std::function<Status(StoredBatch&)>& change);
  // How far a batch is, which its results tell after a restart.
  void count(const std::string& id, std::uint64_t completed, std::uint64_t failed);

  std::vector<std::string> unfinished(const std::string& tenant);  // ids, the oldest first
  bool reads(const std::string& file);    // a batch that is not over has it as its input
  std::set<std::string> files_to_come();  // that batches which are not over become

  // Paths of a batch's results so far.
  std::string work_path(const std::string& id, const std::string& what) const {
    return folder_ + "/results/" + id + "." + what;
  }

 private:
  BatchStore(Env& env, std::string folder, std::size_t kept_per_tenant)
      : env_(env),
        folder_(std::move(folder)),
        records_(env, folder_ + "/batches", "a batch"),
        kept_per_tenant_(kept_per_tenant) {}
  Status load();
  Status drop_rests();
  Status save(const StoredBatch& batch);
  Status make_room(const std::string& tenant);
  Result<std::string> one_too_many(const std::string& tenant);

  Env& env_;
  const std::string folder_;
  RecordFolder records_;
  const std::size_t kept_per_tenant_;
  std::mutex mutex_;         // of the list
  std::mutex change_mutex_;  // one change at a time; taken first
  std::map<std::string, StoredBatch> batches_;
};

}  // namespace millrace::http
