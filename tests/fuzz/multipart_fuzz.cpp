// Reads the first line of any bytes as a Content-Type, and the others as the body of a form. The
// outcome must be the same whatever the pieces in which the body comes, no more may go on than
// came, and an error must say what to do.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "http/multipart.hpp"

namespace {

using namespace millrace;
using namespace millrace::http;

void require(bool holds) {
  if (!holds) std::abort();
}

class Fields final : public FormReader {
 public:
  Status take(const FormPiece& piece) override {
    if (piece.offset == 0) {
      text_ += "\n" + std::string(piece.name) + " " + std::string(piece.filename) + "\n";
      content_bytes_ = 0;
    } else {
      require(!piece.bytes.empty());
    }
    require(piece.offset == content_bytes_);
    content_bytes_ += piece.bytes.size();
    all_bytes_ += piece.bytes.size();
    text_ += piece.bytes;
    return {};
  }
  const std::string& text() const { return text_; }
  std::uint64_t all_bytes() const { return all_bytes_; }

 private:
  std::string text_;
  std::uint64_t content_bytes_ = 0, all_bytes_ = 0;
};

struct Outcome {
  std::string fields;
  Status status;
  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome read(Multipart form, std::string_view body, std::size_t piece_bytes) {
  Fields fields;
  Status status;
  for (std::size_t at = 0; status && at < body.size(); at += piece_bytes) {
    status = form.read(body.substr(at, piece_bytes), fields);
  }
  if (status) status = form.end();
  require(fields.all_bytes() <= body.size());
  return {fields.text(), status};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const auto form = Multipart::of(input.substr(0, line));
  if (!form) {
    require(!form.error().message.empty() && !form.error().hint.empty());
    return 0;
  }
  const std::string_view body = input.substr(std::min(line + 1, input.size()));
  const Outcome whole = read(*form, body, std::max<std::size_t>(1, body.size()));
  require(whole.status ||
          (!whole.status.error().message.empty() && !whole.status.error().hint.empty()));
  for (const std::size_t piece_bytes : {1, 2, 7}) require(read(*form, body, piece_bytes) == whole);
  return 0;
}
