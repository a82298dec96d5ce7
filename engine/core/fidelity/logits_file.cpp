#include "engine/core/fidelity/logits_file.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <string_view>

namespace millrace::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "rows are read in the file's byte order");
constexpr std::string_view magic = "MLOGITS1";
constexpr std::size_t header_bytes = 16;

std::unexpected<Error> malformed(const std::string& path, const std::string& what) {
  return fail(Code::invalid_value, path + " " + what,
              "write it again: \"MLOGITS1\", int32 rows, int32 vocabulary, float32 rows");
}

}  // namespace

Result<LogitsFile> LogitsFile::open(Env& env, const std::string& path) {
  LogitsFile out;
  out.path_ = path;
  MILLRACE_ASSIGN(out.file_, env.open(path, OpenMode::read));
  MILLRACE_ASSIGN(const std::uint64_t size, out.file_->size());
  std::array<char, header_bytes> header{};
  MILLRACE_ASSIGN(const std::size_t got, out.file_->read_at(0, header));
  if (got < header_bytes || std::string_view(header.data(), magic.size()) != magic) {
    return malformed(path, "holds no logits");
  }
  std::array<std::int32_t, 2> shape{};
  std::memcpy(shape.data(), header.data() + magic.size(), sizeof shape);
  if (shape[0] <= 0 || shape[1] <= 0) return malformed(path, "holds no rows");
  out.rows_ = static_cast<std::uint32_t>(shape[0]);
  out.vocabulary_ = static_cast<std::uint32_t>(shape[1]);
  const std::uint64_t wanted =
      header_bytes + std::uint64_t{out.rows_} * out.vocabulary_ * sizeof(float);
  if (size != wanted) {
    return malformed(path, "has " + std::to_string(size) + " bytes, its " +
                               std::to_string(out.rows_) + " rows of " +
                               std::to_string(out.vocabulary_) + " take " + std::to_string(wanted));
  }
  return out;
}

Result<std::uint32_t> LogitsFile::first_row(const FidelityContexts& contexts,
                                            std::uint32_t vocabulary) const {
  if (vocabulary_ != vocabulary) {
    return fail(Code::invalid_value,
                path_ + " has logits of " + std::to_string(vocabulary_) +
                    " tokens, the model's vocabulary has " + std::to_string(vocabulary),
                "give logits of this model");
  }
  if (rows_ == contexts.positions()) return 0;
  if (contexts.count() == 1 && rows_ == contexts.size) return contexts.first;
  const std::string each = std::to_string(contexts.scored_each());
  return fail(Code::invalid_value,
              path_ + " has " + std::to_string(rows_) + " rows, which is not the number for " +
                  std::to_string(contexts.count()) + " contexts of " +
                  std::to_string(contexts.size) + " tokens with " + each + " scored each",
              "give the logits of the same tokens: of all positions of one context, or of the " +
                  std::to_string(contexts.positions()) + " scored ones");
}

Status LogitsFile::read(std::uint32_t first, std::span<float> into) {
  const std::uint64_t at = header_bytes + std::uint64_t{first} * vocabulary_ * sizeof(float);
  const auto bytes = std::as_writable_bytes(into);
  MILLRACE_ASSIGN(const std::size_t got,
                  file_->read_at(at, {reinterpret_cast<char*>(bytes.data()), bytes.size()}));
  if (got != bytes.size()) {
    return fail(Code::io_error, path_ + " ended early",
                "the file has become shorter since it was opened: write it again");
  }
  return {};
}

}  // namespace millrace::engine
