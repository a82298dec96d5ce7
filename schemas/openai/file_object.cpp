#include "schemas/openai/file_object.hpp"

#include <nlohmann/json.hpp>

namespace millrace::openai {
namespace {

constexpr std::int64_t least_expiry_s = 3'600, most_expiry_s = 2'592'000;
constexpr std::string_view anchor_name = "created_at";

}  // namespace

void write_file(JsonWriter& json, const FileObject& file) {
  json.begin_object()
      .field("id", file.id)
      .field("object", "file")
      .field("bytes", file.bytes)
      .field("created_at", file.created_s)
      .key("expires_at");
  if (file.expires_s) {
    json.value(*file.expires_s);
  } else {
    json.null();
  }
  json.field("filename", file.filename)
      .field("purpose", file.purpose)
      .field("status", "processed")
      .key("status_details")
      .null()
      .end_object();
}

std::string file_json(const FileObject& file) {
  std::string out;
  JsonWriter json(out);
  write_file(json, file);
  return out;
}

Result<FileObject> read_file_object(std::string_view text) {
  try {
    const auto value = nlohmann::json::parse(text);
    FileObject file;
    value.at("id").get_to(file.id);
    value.at("bytes").get_to(file.bytes);
    value.at("created_at").get_to(file.created_s);
    if (!value.at("expires_at").is_null()) file.expires_s = value["expires_at"];
    value.at("filename").get_to(file.filename);
    value.at("purpose").get_to(file.purpose);
    return file;
  } catch (const nlohmann::json::exception& error) {
    return fail(Code::ledger_corrupt,
                std::string("a file's record cannot be read: ") + error.what());
  }
}

std::string deleted_file_json(std::string_view id) {
  std::string out;
  JsonWriter(out)
      .begin_object()
      .field("id", id)
      .field("object", "file")
      .field("deleted", true)
      .end_object();
  return out;
}

Status check_purpose(std::string_view purpose) {
  if (purpose == batch_purpose) return {};
  if (purpose.empty()) {
    return fail(Code::missing_field, "purpose: the form has none", "send purpose=batch");
  }
  return fail(Code::invalid_value, "purpose: files are for batches, and this one is another's",
              "send purpose=batch");
}

Result<std::uint64_t> check_expiry(const std::string& name, std::string_view anchor,
                                   std::optional<std::int64_t> seconds) {
  if (anchor != anchor_name) {
    return fail(Code::invalid_value, name + ": the anchor is not \"created_at\"",
                "give the anchor \"created_at\"");
  }
  if (!seconds) {
    return fail(Code::missing_field, name + ": seconds are missing", "give the seconds");
  }
  if (*seconds < least_expiry_s || *seconds > most_expiry_s) {
    return fail(Code::invalid_value, name + ": " + std::to_string(*seconds) +
                                         " seconds are not from " + std::to_string(least_expiry_s) +
                                         " to " + std::to_string(most_expiry_s));
  }
  return static_cast<std::uint64_t>(*seconds);
}

}  // namespace millrace::openai
