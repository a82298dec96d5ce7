#pragma once
// The files of the Files API, in a folder of the server. A file is FOLDER/files/ID.data and its
// record ID.json, which is written last and removed first: a file is there if its record is. What
// is being uploaded is in FOLDER/parts, which is emptied at the start. No path is made of what a
// client sends but an id that the store has given.
//
// A file belongs to the tenant that uploaded it; to others it does not exist. One that is removed
// while a batch reads it is hidden, and its data goes with the batch.
// Errors: not_found, disk_full, limit_exceeded, io_error, ledger_corrupt (a record).
// Thread safety: any thread.
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "http/batches/paging.hpp"
#include "http/batches/record_folder.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/openai/file_object.hpp"

namespace millrace::http {

struct StoredFile {
  std::string tenant;
  std::int64_t created_us = 0;  // Unix time; files are listed in its order
  bool hidden = false;
  openai::FileObject object;
};

struct FileLimits {
  std::uint64_t spare_bytes = limits::disk_high_bytes;      // of the disk: they are not for uploads
  std::uint64_t tenant_bytes = openai::tenant_files_bytes;  // of a tenant's files; 0: any number
};

class FileStore {
 public:
  static constexpr std::size_t files_per_tenant = 10'000;
  static constexpr std::size_t removed_kept = 4'096;  // files whose places are known

  // `expected` are the ids of files that are being made, whose data may have no record yet.
  static Result<std::unique_ptr<FileStore>> open(Env& env, const Clock& clock, std::string folder,
                                                 const std::set<std::string>& expected,
                                                 FileLimits limits = {});

  static std::string new_id();  // "file-" and 32 hex digits
  // Whether the tenant may upload one more file. Errors: disk_full, limit_exceeded.
  Status check_room(const std::string& tenant);
  // Keeps so many bytes of the disk for an upload, if they fit besides those that others were
  // promised. Errors: disk_full.
  Status promise(std::uint64_t bytes);
  void release(std::uint64_t bytes) { promised_ -= bytes; }  // on disk, or not wanted any more
  // Counts bytes that come with an upload as the tenant's. The results of batches are always taken,
  // and count from then on. Errors: limit_exceeded.
  Status expect(const std::string& tenant, std::uint64_t bytes);
  void forget(const std::string& tenant, std::uint64_t bytes);  // they count as a file, or are gone
  // Do not wait for the disk: what is lost of a part, or comes back, is gone after the next start.
  Result<std::unique_ptr<File>> begin_part(const std::string& id);
  void drop_part(const std::string& id);
  std::string part_path(const std::string& id) const { return folder_ + "/parts/" + id; }
  // Takes a file whose data is on disk under another name. May be repeated after a crash, also
  // where the data was moved already. After an error the data has its other name again.
  Status add(StoredFile file, const std::string& from);

  // None: there is none that this tenant may see.
  std::optional<StoredFile> find(const std::string& tenant, const std::string& id);
  std::vector<StoredFile> list(const std::string& tenant);  // the oldest first
  // Where the file is in the tenant's list, or was, if it is among the last that were removed since
  // the start: who removes files while reading their list in pages goes on from there.
  std::optional<Place> place(const std::string& tenant, const std::string& id);
  // The data, also of a hidden file.
  Result<std::unique_ptr<File>> open_data(const std::string& id);

  using InUse = std::function<bool(const std::string& id)>;
  Status remove(const std::string& tenant, const std::string& id, const InUse& in_use);
  // Removes what has expired and what was hidden and is used no longer.
  void sweep(const InUse& in_use);

 private:
  struct Holding {
    std::size_t files = 0;
    std::uint64_t bytes = 0;   // of the files, also of those that are hidden
    std::uint64_t coming = 0;  // of uploads under way
  };
  FileStore(Env& env, const Clock& clock, std::string folder, FileLimits limits)
      : env_(env),
        clock_(clock),
        folder_(std::move(folder)),
        records_(env, folder_ + "/files", "a file"),
        limits_(limits) {}
  Status load(const std::set<std::string>& expected);
  std::string data_path(const std::string& id) const { return records_.path_of(id + ".data"); }
  Status save(const StoredFile& file);
  void give_back(const std::string& id, const std::string& from);
  Status erase(const std::string& id);
  bool is_visible(const StoredFile& file) const;
  void count(const StoredFile& file);
  Status check_disk(std::uint64_t bytes);
  Status check_holding(const std::string& tenant, std::uint64_t more_bytes);

  Env& env_;
  const Clock& clock_;
  const std::string folder_;
  RecordFolder records_;
  const FileLimits limits_;
  std::atomic<std::uint64_t> promised_ = 0;
  std::mutex mutex_;         // of the list
  std::mutex change_mutex_;  // one change of the folder at a time; taken first
  std::map<std::string, StoredFile> files_;
  std::map<std::string, Holding> holdings_;            // by tenant
  std::deque<std::pair<std::string, Place>> removed_;  // with the tenant, the first removed first
};

}  // namespace millrace::http
