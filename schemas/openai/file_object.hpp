#pragma once
// A file of OpenAI's Files API: what a request may ask for, and the object as JSON.
// Errors: invalid_value, missing_field. Each message begins with the name of the field.
// Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::openai {

inline constexpr std::string_view batch_purpose = "batch";          // of a batch's input
inline constexpr std::string_view output_purpose = "batch_output";  // of its results
// Files that a server keeps for one tenant unless it is told another size: what was uploaded, and
// the results of batches.
inline constexpr std::uint64_t tenant_files_bytes = 100 * limits::GiB;

struct FileObject {
  std::string id;
  std::uint64_t bytes = 0;
  std::int64_t created_s = 0;  // Unix time
  std::optional<std::int64_t> expires_s{};
  std::string filename, purpose;
  friend bool operator==(const FileObject&, const FileObject&) = default;
};

void write_file(JsonWriter& json, const FileObject& file);
std::string file_json(const FileObject& file);
Result<FileObject> read_file_object(std::string_view json);  // errors: ledger_corrupt
// {"id", "object": "file", "deleted": true}
std::string deleted_file_json(std::string_view id);

Status check_purpose(std::string_view purpose);  // of an upload
// The seconds after which a file expires. `name` is that of the field whose parts these are.
Result<std::uint64_t> check_expiry(const std::string& name, std::string_view anchor,
                                   std::optional<std::int64_t> seconds);

}  // namespace millrace::openai
