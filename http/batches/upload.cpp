#include "http/batches/upload.hpp"

#include <charconv>
#include <utility>

#include "schemas/base/limits.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::http {
namespace {

constexpr std::size_t most_fields = 16, field_bytes = 1'024, filename_bytes = 255;
constexpr std::size_t pending_bytes = 64 * limits::KiB;
constexpr std::uint64_t room_bytes = 1 * limits::MiB;  // that the disk promises at once
constexpr std::int64_t us_per_s = 1'000 * us_per_ms;

// A name is shown to people and is no path here.
Status check_filename(std::string_view name) {
  if (name.empty()) {
    return fail(Code::invalid_value, "file: it has no filename", "name it in the form");
  }
  if (name.size() > filename_bytes || !utf8_valid(name)) {
    return fail(Code::invalid_value, "file: its filename is longer than 255 bytes, or not UTF-8");
  }
  for (const char letter : name) {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte < 0x20 || byte == 0x7f) {
      return fail(Code::invalid_value, "file: its filename has a control character");
    }
  }
  return {};
}

}  // namespace

Upload::Upload(FileStore& store, const Clock& clock, std::string tenant,
               std::unique_ptr<UploadPlaces::Place> place)
    : store_(store),
      clock_(clock),
      tenant_(std::move(tenant)),
      id_(FileStore::new_id()),
      place_(std::move(place)) {}

Upload::~Upload() {
  store_.release(promised_bytes_ - written_bytes_);
  store_.forget(tenant_, expected_bytes_);
  if (!part_ || added_) return;
  part_.reset();
  store_.drop_part(id_);
}

Status Upload::take(const FormPiece& piece) {
  if (piece.name == "file") return take_file(piece);
  const auto [field, is_new] = fields_.try_emplace(std::string(piece.name.substr(0, field_bytes)));
  if (piece.offset == 0 && !is_new) {
    return fail(Code::invalid_value, "the form has a field twice", "send each field once");
  }
  std::string& value = field->second;
  value += piece.bytes;
  if (fields_.size() > most_fields || value.size() > field_bytes) {
    return fail(Code::limit_exceeded, "the form has more or longer fields than an upload has");
  }
  return {};
}

Status Upload::take_file(const FormPiece& piece) {
  if (!part_) {
    MILLRACE_TRY(check_filename(piece.filename));
    filename_ = piece.filename;
    MILLRACE_TRY(make_room(room_bytes));
    MILLRACE_ASSIGN(part_, store_.begin_part(id_));
  } else if (piece.offset == 0) {
    return fail(Code::invalid_value, "file: the form has several", "send each on its own");
  }
  MILLRACE_TRY(make_room(bytes_ + piece.bytes.size()));
  bytes_ += piece.bytes.size();
  if (bytes_ > most_bytes) {
    return fail(Code::too_large,
                "file: it is larger than the " + std::to_string(most_bytes) + " bytes of a file",
                "cut it into several");
  }
  MILLRACE_TRY(store_.expect(tenant_, piece.bytes.size()));
  expected_bytes_ += piece.bytes.size();
  pending_ += piece.bytes;
  return pending_.size() >= pending_bytes ? flush() : Status();
}

// Has the disk promise as many bytes, counted from the beginning of the file.
Status Upload::make_room(std::uint64_t bytes) {
  while (promised_bytes_ < bytes) {
    MILLRACE_TRY(store_.promise(room_bytes));
    promised_bytes_ += room_bytes;
  }
  return {};
}

Status Upload::flush() {
  if (pending_.empty()) return {};
  MILLRACE_TRY(part_->append(pending_));
  store_.release(pending_.size());
  written_bytes_ += pending_.size();
  pending_.clear();
  return {};
}

std::string Upload::field(const std::string& name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? std::string() : found->second;
}

// Clients write the parts of an object as fields of their own: expires_after[seconds].
Result<std::optional<std::uint64_t>> Upload::expiry() const {
  const std::string anchor = field("expires_after[anchor]");
  const std::string text = field("expires_after[seconds]");
  if (fields_.contains("expires_after")) {
    return fail(Code::invalid_value, "expires_after: it is one field",
                "send expires_after[anchor] and expires_after[seconds]");
  }
  if (anchor.empty() && text.empty()) return std::nullopt;
  std::optional<std::int64_t> seconds;
  if (!text.empty()) {
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc() || rest != end) {
      return fail(Code::invalid_value, "expires_after: the seconds are no number");
    }
    seconds = number;
  }
  return openai::check_expiry("expires_after", anchor, seconds);
}

Result<openai::FileObject> Upload::finish() {
  if (!part_) {
    return fail(Code::missing_field, "file: the form has none",
                "send the file in the field `file`");
  }
  MILLRACE_TRY(openai::check_purpose(field("purpose")));
  MILLRACE_ASSIGN(const auto expires_after_s, expiry());
  MILLRACE_TRY(flush());
  MILLRACE_TRY(part_->sync());
  StoredFile file{.tenant = tenant_, .created_us = clock_.wall_us(), .object = {}};
  file.object.id = id_;
  file.object.bytes = bytes_;
  file.object.created_s = file.created_us / us_per_s;
  if (expires_after_s) {
    file.object.expires_s = file.object.created_s + static_cast<std::int64_t>(*expires_after_s);
  }
  file.object.filename = filename_;
  file.object.purpose = openai::batch_purpose;
  openai::FileObject object = file.object;
  MILLRACE_TRY(store_.add(std::move(file), store_.part_path(id_)));
  added_ = true;
  store_.forget(tenant_, std::exchange(expected_bytes_, 0));
  return object;
}

}  // namespace millrace::http
