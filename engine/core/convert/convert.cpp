#include "engine/core/convert/convert.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <mutex>
#include <thread>

#include "engine/core/convert/encode.hpp"
#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/dequantize.hpp"

namespace millrace::engine {
namespace {

// Some rows of a tensor, which one thread converts at once.
struct Piece {
  std::size_t tensor;
  std::uint64_t first_row, rows;
};

std::vector<Piece> cut(const GgufFile& file) {
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < file.tensors().size(); ++i) {
    const Tensor& tensor = file.tensors()[i];
    const std::uint64_t most = std::max<std::uint64_t>(1, convert_piece_elements / tensor.shape[0]);
    for (std::uint64_t row = 0; row < tensor.rows(); row += most)
      pieces.push_back({i, row, std::min(most, tensor.rows() - row)});
  }
  return pieces;
}

// Converts pieces on many threads. The threads share the file and the progress under a lock; which
// thread takes which piece changes no byte.
class Conversion {
 public:
  Conversion(const GgufFile& file, const ConvertPlan& plan, File& out,
             const ConvertOptions& options)
      : file_(file), plan_(plan), out_(out), options_(options), pieces_(cut(file)) {
    left_.resize(file.tensors().size());
    for (const Piece& piece : pieces_) ++left_[piece.tensor];
  }

  Status run() {
    MILLRACE_TRY(out_.truncate(plan_.layout.file_bytes));  // what lies between tensors is zero
    MILLRACE_TRY(out_.write_at(0, plan_.layout.head));
    written_bytes_ = plan_.layout.head.size();
    {
      std::vector<std::jthread> others;
      for (std::uint32_t i = 1; i < options_.threads; ++i) others.emplace_back([this] { work(); });
      work();
    }
    return failed_at_ == none ? Status() : fail(std::move(error_));
  }

 private:
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

  void work() {
    std::vector<float> values;
    std::vector<std::byte> encoded;
    for (;;) {
      std::size_t number;
      {
        const std::scoped_lock lock(mutex_);
        if (next_ == pieces_.size() || failed_at_ != none) return;
        number = next_++;
      }
      Status done = convert(pieces_[number], values, encoded);
      const std::scoped_lock lock(mutex_);
      if (done) done = write(pieces_[number], encoded);
      // Of several errors, that of the first piece is told, whichever thread was faster.
      if (!done && number < failed_at_) {
        failed_at_ = number;
        error_ = std::move(done).error();
      }
    }
  }

  Status convert(const Piece& piece, std::vector<float>& values,
                 std::vector<std::byte>& encoded) const {
    if (options_.interrupted && options_.interrupted())
      return fail(Code::interrupted, "stopped by a signal");
    const Tensor& tensor = file_.tensors()[piece.tensor];
    const TensorType type = plan_.types[piece.tensor];
    values.resize(piece.rows * tensor.shape[0]);
    MILLRACE_TRY(dequantize_rows(tensor, piece.first_row, piece.rows, values));
    MILLRACE_TRY(check_values(tensor, type, piece.first_row, values));
    const std::uint64_t row_bytes = row_bytes_of(piece.tensor);
    encoded.resize(piece.rows * row_bytes);
    if (type != tensor.type) return encode(type, values, encoded);
    // Blocks that stay are not encoded anew: scales could come out otherwise.
    std::vector<std::byte> made;
    std::ranges::copy(tensor.read(piece.first_row, piece.rows, made), encoded.begin());
    return {};
  }

  Status check_values(const Tensor& tensor, TensorType type, std::uint64_t first_row,
                      std::span<const float> values) const {
    const float most = type == tensor.type ? largest_value(TensorType::f32) : largest_value(type);
    const auto bad = std::ranges::find_if_not(values, [most](float x) {
      return std::abs(x) <= most;  // false for what is no number
    });
    if (bad == values.end()) return {};
    const auto row = first_row + static_cast<std::uint64_t>(bad - values.begin()) / tensor.shape[0];
    const std::string where = file_.source() + ": tensor '" + printable(tensor.name) + "', row " +
                              std::to_string(row) + ", holds ";
    if (!std::isfinite(*bad))
      return fail(Code::gguf_malformed, where + "a number that is not finite",
                  "the file is damaged: download or convert it again");
    return fail(Code::gguf_malformed,
                where + std::to_string(*bad) + ", which is too large for " +
                    std::string(traits_of(type).name),
                "convert to BF16 or F32, whose range is that of the model");
  }

  Status write(const Piece& piece, std::span<const std::byte> encoded) {
    const std::uint64_t at =
        plan_.layout.offsets[piece.tensor] + piece.first_row * row_bytes_of(piece.tensor);
    MILLRACE_TRY(out_.write_at(at, text_of(encoded)));
    written_bytes_ += encoded.size();
    --left_[piece.tensor];
    for (; reported_ < left_.size() && left_[reported_] == 0; ++reported_)
      if (options_.progress) options_.progress({reported_, written_bytes_});
    return {};
  }

  std::uint64_t row_bytes_of(std::size_t tensor) const {
    const auto& shape = file_.tensors()[tensor].shape;
    return tensor_bytes(plan_.types[tensor], {shape.data(), 1});
  }

  const GgufFile& file_;
  const ConvertPlan& plan_;
  File& out_;
  const ConvertOptions& options_;
  const std::vector<Piece> pieces_;
  std::mutex mutex_;  // guards the rest, and calls of the file and the options' progress
  std::size_t next_ = 0, reported_ = 0, failed_at_ = none;
  Error error_;
  std::uint64_t written_bytes_ = 0;
  std::vector<std::uint64_t> left_;  // pieces of each tensor that are not written
};

// The error of a disk that is too small. Every other error stays as it is.
Error with_need(Error error, const std::string& path, std::uint64_t bytes) {
  if (error.code != Code::disk_full) return error;
  error.message += "; " + path + " needs " + std::to_string(bytes) + " bytes";
  error.hint = "free some space, or name an output on another file system";
  return error;
}

Status check_room(Env& env, const std::string& path, std::uint64_t bytes) {
  const std::string folder = parent_directory(path);
  MILLRACE_ASSIGN(const std::uint64_t free, env.free_bytes(folder));
  if (free >= bytes) return {};
  return fail(with_need(
      {Code::disk_full, folder + " has " + std::to_string(free) + " bytes free", ""}, path, bytes));
}

Status write_and_sync(const GgufFile& file, const ConvertPlan& plan, Env& env,
                      const std::string& path, const ConvertOptions& options) {
  MILLRACE_ASSIGN(const auto out, env.open(path, OpenMode::replace, Access::by_umask));
  MILLRACE_TRY(Conversion(file, plan, *out, options).run());
  return out->sync();
}

}  // namespace

Status write_conversion(const GgufFile& file, const ConvertPlan& plan, Env& env,
                        const std::string& path, const ConvertOptions& options) {
  const std::string beside = path + ".new", guard = path + ".lock";
  const std::uint64_t bytes = plan.layout.file_bytes;
  MILLRACE_TRY(check_room(env, path, bytes));
  MILLRACE_ASSIGN(const auto lock, env.lock(guard));
  Status done = write_and_sync(file, plan, env, beside, options);
  if (done) done = env.rename(beside, path);
  if (!done) static_cast<void>(env.remove(beside));
  static_cast<void>(env.remove(guard));
  if (done) return {};
  return fail(with_need(std::move(done).error(), path, bytes));
}

}  // namespace millrace::engine
