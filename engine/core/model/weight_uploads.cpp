#include "engine/core/model/weight_uploads.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "engine/core/gguf/bytes.hpp"
#include "engine/core/gguf/finite_rows.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/shaped_tensor.hpp"

namespace millrace::engine {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint64_t most_piece_bytes = std::uint64_t{1} << 20;
constexpr std::uint32_t most_threads = 64;  // more would wait for the host's memory
// Pieces that the system reads from the disk before they are packed.
constexpr std::size_t pieces_ahead = 64;

// Some panels of a matrix.
struct Piece {
  std::size_t matrix = 0;
  std::uint32_t first_panel = 0, panels = 0;
};

}  // namespace

// The threads that pack, and the owner thread that writes. Pieces are taken in order; each needs a
// slot of pinned memory, which is free again when the device has read it.
class PanelPipeline {
 public:
  using Matrix = WeightUploads::Matrix;

  PanelPipeline(const WeightUploads& uploads, std::vector<Piece> pieces)
      : backend_(*uploads.backend_),
        device_(*backend_.target().device),
        file_(*uploads.file_),
        matrices_(uploads.matrices_),
        pieces_(std::move(pieces)),
        in_place_(uploads.in_place_) {}

  Result<UploadTimes> run() {
    const auto start = Clock::now();
    UploadTimes times;
    times.threads = static_cast<std::uint32_t>(
        std::min<std::size_t>(std::clamp(device_.host_cores(), 1u, most_threads), pieces_.size()));
    for (const Piece& piece : pieces_) times.bytes += bytes_of(piece);
    if (!in_place_) MILLRACE_TRY(allocate_slots(2 * times.threads));
    for (std::size_t i = 0; i < pieces_ahead; ++i) read_ahead(i);
    {
      std::vector<std::jthread> threads;
      working_ = times.threads;
      for (std::uint32_t i = 0; i < times.threads; ++i) threads.emplace_back([this] { pack(); });
      write();
    }
    if (failure_) return std::unexpected(std::move(failure_->error));
    times.seconds = std::chrono::duration<double>(Clock::now() - start).count();
    times.reading_seconds = reading_.count() / times.threads;
    times.packing_seconds = packing_.count() / times.threads;
    return times;
  }

 private:
  struct Failure {
    std::size_t piece;
    Error error;
  };
  struct Packed {
    std::size_t piece = 0;
    std::uint32_t slot = 0;
    DeviceEvent written{};
  };
  using Seconds = std::chrono::duration<double>;

  std::uint64_t bytes_of(const Piece& piece) const {
    return piece.panels * matrices_[piece.matrix].panel_bytes;
  }

  Status allocate_slots(std::uint32_t count) {
    for (const Piece& piece : pieces_) slot_bytes_ = std::max(slot_bytes_, bytes_of(piece));
    MILLRACE_ASSIGN(slots_, device_.allocate_host(count * slot_bytes_, "pieces of weights"));
    for (std::uint32_t slot = 0; slot < count; ++slot) free_.push_back(slot);
    return {};
  }

  // The rows of a source that are in a piece, and the number of the first of them in the tensor.
  struct Rows {
    Tensor tensor;
    std::uint64_t first = 0;
  };
  Rows rows_of(const Piece& piece, const PanelSource& source) const {
    const std::uint32_t each = matrices_[piece.matrix].rows();
    const std::uint32_t begin = std::min(source.rows, piece.first_panel * each);
    const std::uint64_t first = source.first_row + begin;
    const std::uint32_t count = std::min(piece.panels * each, source.rows - begin);
    return {source.tensor->slice(first, count), first};
  }

  // Where a piece is packed.
  std::span<std::byte> place_of(const Packed& packed) const {
    const Piece& piece = pieces_[packed.piece];
    const Matrix& matrix = matrices_[piece.matrix];
    if (!in_place_) return slots_.bytes().subspan(packed.slot * slot_bytes_, bytes_of(piece));
    return {static_cast<std::byte*>(matrix.to.address()) + offset_of(piece), bytes_of(piece)};
  }
  std::uint64_t offset_of(const Piece& piece) const {
    const Matrix& matrix = matrices_[piece.matrix];
    return matrix.offset + piece.first_panel * matrix.panel_bytes;
  }

  // What a thread does: packs pieces until there are none, or one failed.
  void pack() {
    std::array<std::vector<std::byte>, 2> scratch;
    Seconds reading{}, packing{};
    while (auto taken = take()) {
      read_ahead(taken->piece + pieces_ahead);
      auto failed = pack_piece(pieces_[taken->piece], place_of(*taken), scratch, reading, packing);
      const std::lock_guard lock(mutex_);
      if (failed) {
        keep({taken->piece, std::move(*failed)});
      } else if (!in_place_) {
        packed_.push_back(std::move(*taken));
        packed_changed_.notify_one();
      }
    }
    const std::lock_guard lock(mutex_);
    reading_ += reading;
    packing_ += packing;
    --working_;
    packed_changed_.notify_one();
    slot_freed_.notify_all();
  }

  // Rows that are made may read any part of their files.
  void read_ahead(std::size_t piece) const {
    if (piece >= pieces_.size()) return;
    for (const PanelSource& source : matrices_[pieces_[piece].matrix].sources) {
      const Tensor rows = rows_of(pieces_[piece], source).tensor;
      if (rows.made == nullptr) will_read(rows.data);
    }
  }

  std::optional<Packed> take() {
    std::unique_lock lock(mutex_);
    slot_freed_.wait(lock, [&] { return in_place_ || ended() || !free_.empty(); });
    if (ended()) return std::nullopt;
    Packed out{.piece = next_++};
    if (in_place_) return out;
    out.slot = free_.back();
    free_.pop_back();
    return out;
  }
  bool ended() const { return failure_.has_value() || next_ == pieces_.size(); }

  // All pieces before a failed one have been taken and end, so the failure that remains is the
  // first in order.
  void keep(Failure failure) {
    if (!failure_ || failure.piece < failure_->piece) failure_ = std::move(failure);
    slot_freed_.notify_all();
  }

  std::optional<Error> pack_piece(const Piece& piece, std::span<std::byte> to,
                                  std::array<std::vector<std::byte>, 2>& scratch, Seconds& reading,
                                  Seconds& packing) const {
    const Matrix& matrix = matrices_[piece.matrix];
    const auto start = Clock::now();
    std::vector<Tensor> read;  // rows of each source
    for (const PanelSource& source : matrix.sources) {
      auto [rows, first] = rows_of(piece, source);
      if (rows.made != nullptr) {
        rows.data = rows.read(0, rows.rows(), scratch[read.size()]);
        rows.made = nullptr;
      }
      const auto bad = find_row_not_finite(rows, 0, rows.rows());
      if (bad) return not_finite(file_, *source.tensor, first + *bad);
      read.push_back(rows);
    }
    const auto checked = Clock::now();
    reading += checked - start;
    for (std::uint32_t i = 0; i < piece.panels; ++i) {
      const auto panel = to.subspan(i * matrix.panel_bytes, matrix.panel_bytes);
      if (read.size() == 1) {
        backend_.pack(matrix.format, read[0], i, panel, matrix.sources[0].factor);
      } else {
        backend_.pack_pair(matrix.format, half_of(read[0], i, matrix.sources[0].factor),
                           half_of(read[1], i, matrix.sources[1].factor), panel);
      }
    }
    packing += Clock::now() - checked;
    return std::nullopt;
  }

  // The rows of half a panel of a pair.
  static PanelRows half_of(const Tensor& rows, std::uint32_t panel, float factor) {
    constexpr std::uint32_t half = panel_rows / 2;
    const auto count = static_cast<std::uint32_t>(rows.rows());
    const std::uint32_t first = std::min(count, panel * half);
    return {rows, first, std::min(half, count - first), factor};
  }

  // What the owner thread does: enqueues the writes of packed pieces and frees their slots, until
  // all threads have ended and the device has read everything.
  void write() {
    std::deque<Packed> writing;
    for (;;) {
      std::deque<Packed> packed;
      {
        std::unique_lock lock(mutex_);
        packed_changed_.wait(lock,
                             [&] { return !packed_.empty() || !writing.empty() || working_ == 0; });
        packed.swap(packed_);
      }
      if (packed.empty() && writing.empty()) return;
      for (Packed& piece : packed) enqueue(piece, writing);
      if (!writing.empty()) await(writing);
    }
  }

  void enqueue(Packed& packed, std::deque<Packed>& writing) {
    const Piece& piece = pieces_[packed.piece];
    auto event =
        device_.enqueue_write(matrices_[piece.matrix].to, offset_of(piece), place_of(packed));
    if (Status flushed = device_.flush(); event && !flushed) event = fail(flushed.error());
    if (event) {
      packed.written = *std::move(event);
      writing.push_back(std::move(packed));
      return;
    }
    const std::lock_guard lock(mutex_);
    keep({packed.piece, event.error()});
  }

  // Waits for the oldest write: the queue is in order.
  void await(std::deque<Packed>& writing) {
    const Status done = device_.wait(writing.front().written);
    const std::lock_guard lock(mutex_);
    if (!done) keep({writing.front().piece, done.error()});
    free_.push_back(writing.front().slot);
    writing.pop_front();
    slot_freed_.notify_one();
  }

  const Backend& backend_;
  Device& device_;
  const GgufFile& file_;
  const std::vector<Matrix>& matrices_;
  const std::vector<Piece> pieces_;
  const bool in_place_;
  HostMemory slots_;
  std::uint64_t slot_bytes_ = 0;

  std::mutex mutex_;
  std::condition_variable slot_freed_, packed_changed_;
  std::size_t next_ = 0;             // piece to be taken
  std::uint32_t working_ = 0;        // threads
  std::vector<std::uint32_t> free_;  // slots
  std::deque<Packed> packed_;        // not yet enqueued
  std::optional<Failure> failure_;
  Seconds reading_{}, packing_{};
};

WeightUploads::WeightUploads(const Backend& backend, const GgufFile& file, bool staged)
    : backend_(&backend),
      file_(&file),
      in_place_(!staged && backend.target().device->has_addresses()) {}

void WeightUploads::add(const PanelSource& source, const PanelFormat& format, const Buffer& to,
                        std::uint64_t offset) {
  add({source}, round_up(source.rows, panel_rows) / panel_rows, format, to, offset);
}

void WeightUploads::add_pair(const PanelSource& gate, const PanelSource& up, std::uint32_t panels,
                             const PanelFormat& format, const Buffer& to, std::uint64_t offset) {
  add({gate, up}, panels, format, to, offset);
}

void WeightUploads::add(std::vector<PanelSource> sources, std::uint32_t panels,
                        const PanelFormat& format, const Buffer& to, std::uint64_t offset) {
  const auto columns = static_cast<std::uint32_t>(sources[0].tensor->shape[0]);
  const std::uint64_t panel_bytes = backend_->panel_bytes(format, columns);
  matrices_.push_back({std::move(sources), panels, format, to.share(), offset, panel_bytes});
}

Result<UploadTimes> WeightUploads::run() {
  // The file's tensors stand in one array, in file order.
  std::ranges::stable_sort(matrices_, [](const Matrix& a, const Matrix& b) {
    const PanelSource &first = a.sources[0], &second = b.sources[0];
    if (first.tensor != second.tensor) return std::less<>()(first.tensor, second.tensor);
    return first.first_row < second.first_row;
  });
  std::vector<Piece> pieces;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const Matrix& matrix = matrices_[i];
    const auto most = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(most_piece_bytes / matrix.panel_bytes, 1, matrix.panels));
    for (std::uint32_t at = 0; at < matrix.panels; at += most) {
      pieces.push_back({i, at, std::min(most, matrix.panels - at)});
    }
  }
  if (pieces.empty()) return UploadTimes{};
  auto times = PanelPipeline(*this, std::move(pieces)).run();
  matrices_.clear();
  return times;
}

}  // namespace millrace::engine
