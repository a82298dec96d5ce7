#pragma once
// The form of an upload (POST /v1/files) while it arrives: the file goes to disk piece by piece,
// and the other fields are kept. What is not finished is removed with the object.
// Errors: invalid_value, missing_field, too_large, disk_full, io_error.
// Thread safety: one thread at a time.
#include <map>
#include <memory>
#include <string>

#include "http/batches/file_store.hpp"
#include "http/batches/upload_places.hpp"
#include "http/routes.hpp"

namespace millrace::http {

class Upload final : public FormReader {
 public:
  static constexpr std::uint64_t most_bytes = 512ull * 1024 * 1024;  // of a file, as OpenAI's

  Upload(FileStore& store, const Clock& clock, std::string tenant,
         std::unique_ptr<UploadPlaces::Place> place = {});
  ~Upload() override;

  Status take(const FormPiece& piece) override;
  // Checks the fields and makes the file durable. May wait for the disk.
  Result<openai::FileObject> finish();

 private:
  Status take_file(const FormPiece& piece);
  Status make_room(std::uint64_t bytes);
  Status flush();
  Result<std::optional<std::uint64_t>> expiry() const;
  std::string field(const std::string& name) const;

  FileStore& store_;
  const Clock& clock_;
  const std::string tenant_;
  const std::string id_;
  std::unique_ptr<File> part_;  // none: no file has come
  std::string filename_, pending_;
  std::uint64_t bytes_ = 0;           // that were taken
  std::uint64_t expected_bytes_ = 0;  // of them those that the store does not count as a file
  std::uint64_t promised_bytes_ = 0;  // of the disk
  std::uint64_t written_bytes_ = 0;
  const std::unique_ptr<UploadPlaces::Place> place_;
  bool added_ = false;
  std::map<std::string, std::string> fields_;
};

}  // namespace millrace::http
